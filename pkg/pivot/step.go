package pivot

import "strings"

// Kind names a step. The same word stands in logs, the journal, conditions,
// events, the CLI and stories.
type Kind string

// The steps of install, pivot and steady state.
const (
	TakeGrant         Kind = "TakeGrant"
	WriteSpec         Kind = "WriteSpec"
	StartSeed         Kind = "StartSeed"
	RegisterLearner   Kind = "RegisterLearner"
	StartMember       Kind = "StartMember"
	RestartLateMember Kind = "RestartLateMember"
	RestartMember     Kind = "RestartMember"
	PromoteLearner    Kind = "PromoteLearner"
	ProveHashes       Kind = "ProveHashes"
	RouteProxies      Kind = "RouteProxies"
	MoveLeader        Kind = "MoveLeader"
	WriteTombstone    Kind = "WriteTombstone"
	FinishTombstone   Kind = "FinishTombstone"
	WithdrawTombstone Kind = "WithdrawTombstone"
	StopMember        Kind = "StopMember"
	RemoveMember      Kind = "RemoveMember"
	RetireDirectory   Kind = "RetireDirectory"
	Done              Kind = "Done"
)

// Step is one membership change, one process, or one idempotent setting over
// all nodes; never more.
type Step struct {
	Kind Kind
	Node string   // where; empty for steps over all nodes
	Slot SlotName // for steps on a slot
	ID   MemberID // the member it is about; MoveLeader: the target
	Why  string   // in words, with the evidence
}

// String is the step without its reason: "StopMember cp-1/seed 1f".
func (s Step) String() string {
	out := string(s.Kind)
	if s.Node != "" {
		out += " " + s.Node
		if s.Slot != "" {
			out += "/" + string(s.Slot)
		}
	}
	if s.ID != 0 {
		out += " " + s.ID.String()
	}
	return out
}

// Refusal is a named no to a step: nothing is done until the evidence changes.
type Refusal struct {
	Name  string
	Step  Kind   // the step it refuses
	Node  string // where
	Cites string // the invariant, "I2"
	Want  string // what would be needed
	Found string // what was found
	// Wait: it passes by itself (a learner catching up); otherwise somebody must act.
	Wait bool
}

// String is "refuse STEP NODE: NAME: FOUND; WANT (CITES)", or "wait …".
func (r Refusal) String() string {
	verb := "refuse"
	if r.Wait {
		verb = "wait"
	}
	parts := []string{verb, string(r.Step)}
	if r.Node != "" {
		parts = append(parts, r.Node)
	}
	out := strings.Join(parts, " ") + ": " + r.Name + ": " + r.Found
	if r.Want != "" {
		out += "; " + r.Want
	}
	if r.Cites != "" {
		out += " (" + r.Cites + ")"
	}
	return out
}

// Decision is one step, or at least one refusal. Done is a step.
type Decision struct {
	Step     *Step
	Refusals []Refusal
}

// String is the step with its reason, or one refusal a line.
func (d Decision) String() string {
	if d.Step != nil {
		return d.Step.String() + ": " + d.Step.Why
	}
	var rows []string
	for _, r := range d.Refusals {
		rows = append(rows, r.String())
	}
	return strings.Join(rows, "\n")
}

// Waits says whether every refusal passes by itself.
func (d Decision) Waits() bool {
	if d.Step != nil {
		return false
	}
	for _, r := range d.Refusals {
		if !r.Wait {
			return false
		}
	}
	return true
}

func do(k Kind, why string) Decision { return Decision{Step: &Step{Kind: k, Why: why}} }

func doOn(k Kind, node string, slot SlotName, id MemberID, why string) Decision {
	return Decision{Step: &Step{Kind: k, Node: node, Slot: slot, ID: id, Why: why}}
}

func refuse(rs ...Refusal) Decision { return Decision{Refusals: rs} }

package pivot

import (
	"fmt"
	"strings"
)

// rule looks at one concern. It answers with a step, refusals, or the zero
// Decision: nothing to say, ask the next rule.
type rule func(*State) Decision

func (d Decision) silent() bool { return d.Step == nil && len(d.Refusals) == 0 }

// memberRules decide towards managed members, in this order: what is whole
// starts, what cannot be known is refused, what is half done is finished, then
// growth, then the way out of the seed (doc.go, "Order of a pivot").
var memberRules = []rule{
	startWhole, foreignMembers, silentNodes, knownDirectories, unstartedVoters, knownList,
	forgetLearners, finishTombstones, withdrawTombstones, stopRemoved, dropLearners,
	directories, unfitNodes, registerLearners, restartLate, startLearners,
	awaitLearners, promoteLearners, proveBeforeLeaving, routeMembers, promoteLast,
	moveLeader, leaveSeed, proveBeforeRetiring, routeAll,
	retireLeft, awaitVoters,
}

// seedRules decide towards one seed on the spec's first node: they start the one
// that init made, and go back to one from managed members (doc.go, "Order of an
// unpivot"). They end in the very state a pivot begins with.
var seedRules = []rule{
	startWhole, seedElsewhere, foreignMembers, silentNodes, knownDirectories, unstartedVoters, firstSeed, knownList,
	forgetLearners, finishTombstones, withdrawTombstones, stopRemoved, dropLearners,
	memberPlaces, seedPlace, awaitStanding, unfitSeed, registerSeed, restartLate, startJoiningSeed,
	awaitLearners, ownMemberFirst, promoteSeed, leaveMembers, proveBeforeRetiring, routeAll,
	retireLeft, awaitVoters,
}

// Next decides the one next step from the state, or refuses by name. It never
// fails and never has an effect; the step still passes every guard (Check).
func Next(s State) Decision {
	d := decide(&s)
	if d.Step == nil || d.Step.Kind == Done {
		return d
	}
	if r := Check(s, *d.Step); r != nil {
		return refuse(*r)
	}
	if d2 := mayAct(&s, *d.Step); !d2.silent() {
		return d2
	}
	return d
}

func decide(s *State) Decision {
	switch s.Want.Target {
	case TargetMembers:
		return firstOf(s, memberRules, "every named node has a voter that serves, no seed is left")
	case TargetSeed:
		return firstOf(s, seedRules, "the seed serves and is the only member; `bootstrap pivot` makes managed members of it")
	}
	return refuse(Refusal{Name: "NoSpec", Step: WriteSpec, Cites: "I10", Found: "no agent answered with a spec",
		Want: "run `bootstrap init` on the first node, or bring an agent back"})
}

func firstOf(s *State, rules []rule, done string) Decision {
	for _, r := range rules {
		if d := r(s); !d.silent() {
			return d
		}
	}
	return do(Done, done)
}

// mayAct asks for the grant and the spec before any other step.
func mayAct(s *State, step Step) Decision {
	if s.Grant.Held != Yes {
		if s.Grant.By != "" {
			return refuse(Refusal{Name: "GrantHeld", Step: TakeGrant, Wait: true, Found: "another driver holds the grant: " + s.Grant.By,
				Want: "it ends, or its grant runs out"})
		}
		if r := majoritiesAnswer(s); r != nil {
			return refuse(*r)
		}
		return do(TakeGrant, "before "+step.String())
	}
	for _, n := range s.Nodes {
		if n.Agent == Answers && n.SpecCurrent != Yes && s.Want.Has(n.Name) {
			return do(WriteSpec, fmt.Sprintf("%s does not store the wanted spec yet", n.Name))
		}
	}
	return Decision{}
}

func majoritiesAnswer(s *State) *Refusal {
	answered := map[string]bool{}
	var silent, voters []string
	for _, n := range s.Nodes {
		if n.Agent == Answers {
			answered[n.Name] = true
		} else {
			silent = append(silent, n.Name)
		}
	}
	for _, m := range s.Voters() {
		voters = append(voters, m.Node)
	}
	if len(voters) == 0 {
		voters = s.Want.Nodes
	}
	if JointMajority(answered, voters, s.Want.Nodes) {
		return nil
	}
	return &Refusal{Name: "NoMajority", Step: TakeGrant, Cites: "I4", Found: "silent: " + strings.Join(silent, ", "),
		Want: "the agents of a majority of the voters and of a majority of the desired nodes"}
}

// foreignMembers: members are IDs; what is not understood is refused, never
// removed (etcd-operator#1366). Only an unstarted learner that a person named goes.
func foreignMembers(s *State) Decision {
	for _, m := range s.Members {
		switch {
		case m.Node == "" && !forgettable(s, m):
			return refuse(foreign(m))
		case m.Node != "" && m.Slot == MemberSlot && !s.Want.Has(m.Node):
			return refuse(Refusal{Name: "MemberNotNamed", Step: RemoveMember, Node: m.Node, Cites: "I4",
				Found: fmt.Sprintf("%s %s on %s, which the spec does not name", m.Role, m.ID, m.Node), Want: "name the node, or remove the member by ID"})
		}
	}
	return Decision{}
}

// forgetLearners comes after every node has answered: a person's word says that
// this learner will not come, not that a silent node may be passed over (I4).
func forgetLearners(s *State) Decision {
	for _, m := range s.Members {
		if m.Node == "" && forgettable(s, m) {
			return doOn(RemoveMember, "", "", m.ID, fmt.Sprintf("learner %s %s never started and a person declared it gone", m.ID, m.URL))
		}
	}
	return Decision{}
}

func forgettable(s *State, m Member) bool {
	return m.Role == Learner && m.Started != Yes && forgotten(s, m.ID)
}

func forgotten(s *State, id MemberID) bool {
	for _, f := range s.Want.Forget {
		if f == id {
			return true
		}
	}
	return false
}

func foreign(m Member) Refusal {
	r := Refusal{Name: "ForeignMember", Step: RemoveMember, Cites: "I4",
		Found: fmt.Sprintf("%s %s %s is on no node the spec names", m.Role, m.ID, m.URL), Want: "name its node in the spec, or remove it by ID"}
	if m.Started != Yes {
		r.Found = fmt.Sprintf("%s %s %s never started, and its address is no named node's", m.Role, m.ID, m.URL)
		if m.Role == Learner {
			r.Want = "when it will never come: --forget-learner " + m.ID.String()
		}
	}
	return r
}

// startWhole: a whole directory of this cluster just starts (I9), whoever else is silent.
func startWhole(s *State) Decision {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Agent != Answers {
			continue
		}
		if startable(s, &n.Member) && !leaving(s, n, MemberSlot) {
			return doOn(StartMember, n.Name, MemberSlot, n.Member.ID, "its directory is whole, its process is down")
		}
		if startable(s, &n.Seed) && !leaving(s, n, SeedSlot) {
			return doOn(StartSeed, n.Name, SeedSlot, n.Seed.ID, "its directory is whole, its process is down")
		}
	}
	return Decision{}
}

func startable(s *State, sl *Slot) bool {
	if sl.Class != Whole || sl.Proc != Down || sl.ID == 0 || sl.kept(sl.ID) {
		return false
	}
	if t := s.Tombstone(sl.ID); t != nil && t.Final {
		return false
	}
	return !s.ListKnown || s.Member(sl.ID) != nil
}

// goes says that the target leaves nothing in this slot: the seed's on the way to
// members; on the way to a seed every member's, and a seed's on any other node.
func (s *State) goes(node string, slot SlotName) bool {
	switch s.Want.Target {
	case TargetMembers:
		return slot == SeedSlot
	case TargetSeed:
		return slot == MemberSlot || len(s.Want.Nodes) == 0 || node != s.Want.Nodes[0]
	}
	return false
}

// leaving: a voter parked on its way out (its removal is decided) stays down while the others carry the
// list without it; where they do not, it is a voter like any other and starts.
func leaving(s *State, n *Node, slot SlotName) bool {
	sl := n.Slot(slot)
	if !sl.Parked || !s.goes(n.Name, slot) || s.Tombstone(sl.ID) == nil {
		return false
	}
	if s.ListKnown {
		have, need, _ := s.quorumWith(map[MemberID]bool{sl.ID: true}, nil, nil)
		return have >= need && s.Drains(sl.ID)
	}
	running := 0
	for i := range s.Nodes { // the others may still elect by themselves
		o := &s.Nodes[i]
		here := 0
		for _, other := range []SlotName{MemberSlot, SeedSlot} {
			if (o.Name != n.Name || other != slot) && o.Slot(other).Class == Running {
				here++
			}
		}
		dead := s.Tombstone(o.Member.ID)
		if o.Agent != Answers || here == 0 && (o.Name == n.Name || dead == nil || !dead.Final) {
			return false
		}
		running += here
	}
	return running > 1 // who is stopped before its removal is one of three or more
}

func silentNodes(s *State) Decision {
	var rs []Refusal
	for _, n := range s.Nodes {
		if n.Agent == Answers {
			continue
		}
		why := "its agent does not answer"
		if n.Why != "" {
			why += ": " + n.Why
		}
		rs = append(rs, Refusal{Name: "NodeSilent", Step: WriteSpec, Node: n.Name, Cites: "I4", Found: why,
			Want: "start its agent, or check the network to its agent port"})
	}
	return Decision{Refusals: rs}
}

func knownDirectories(s *State) Decision {
	var rs []Refusal
	for _, n := range s.Nodes {
		for _, name := range []SlotName{MemberSlot, SeedSlot} {
			sl := n.Slot(name)
			if s.goes(n.Name, name) && sl.Proc == Down && (sl.Reading || onItsWayOut(s, n.Name, name)) {
				continue // only retiring it hangs on its directory, and waits for it
			}
			if sl.Class == ClassUnknown || sl.Proc == ProcUnknown {
				rs = append(rs, Refusal{Name: "DirectoryUnknown", Step: StartMember, Node: n.Name, Wait: sl.Reading, Cites: "I10",
					Found: fmt.Sprintf("the %s slot cannot be read: %s", name, sl.Reason), Want: "make it readable"})
			}
		}
	}
	return Decision{Refusals: rs}
}

func knownList(s *State) Decision {
	if !s.ListKnown || s.Leader == 0 || len(s.Voters()) == 0 {
		r := Refusal{Name: "NoLeader", Step: RegisterLearner, Wait: true, Cites: "I4",
			Found: "no member serves with a leader", Want: "an election among the members that run"}
		if !anyRuns(s) { // every node answered, and whatever may start was started before
			r.Wait, r.Found, r.Want = false, "no member runs, and no directory may start", "a whole directory of a member"
		}
		return Decision{Refusals: append([]Refusal{r}, allEnded(s, r.Step)...)}
	}
	if q, words := s.quorum(); q != QuorumHeld {
		r := Refusal{Name: "Quorum" + q.String(), Step: RegisterLearner, Wait: true, Cites: "I2",
			Found: words, Want: fmt.Sprintf("%d of %d voters serving", Majority(len(s.Voters())), len(s.Voters()))}
		return Decision{Refusals: append([]Refusal{r}, allEnded(s, r.Step)...)}
	}
	return Decision{}
}

// anyRuns: a process runs, or its agent is about to start it again.
func anyRuns(s *State) bool {
	for i := range s.Nodes {
		for _, sl := range []*Slot{&s.Nodes[i].Member, &s.Nodes[i].Seed} {
			if sl.Class == Running || sl.Class == Whole && sl.kept(sl.ID) {
				return true
			}
		}
	}
	return false
}

// onItsWayOut: a voter that was stopped and is still in the list.
func onItsWayOut(s *State, node string, slot SlotName) bool {
	n, m := s.Node(node), s.MemberOn(node, slot)
	return m != nil && stopped(s, m) && n.Slot(slot).Parked
}

// unstartedVoters: a voter that was added by other means and never came stops
// every election; no wait ends that (CASES M1).
func unstartedVoters(s *State) Decision {
	if len(s.Unstarted) == 0 || s.ListKnown && s.Leader != 0 {
		return Decision{}
	}
	return refuse(Refusal{Name: "UnstartedVoter", Step: RegisterLearner, Cites: "I2",
		Found: strings.Join(s.Unstarted, ", ") + ", and without it no leader is elected",
		Want:  "start that member where its address says, or rebuild the seed from its data without it"})
}

// finishTombstones: a removal read in the list is final (I8).
func finishTombstones(s *State) Decision {
	for _, t := range s.Tombstones {
		if !t.Final && s.Member(t.ID) == nil {
			return doOn(FinishTombstone, "", "", t.ID, "the list no longer names it")
		}
	}
	return Decision{}
}

// withdrawTombstones: a removal that was decided and that the target no longer
// asks for, because a person turned round, is taken back while the list still
// names the member (I8).
func withdrawTombstones(s *State) Decision {
	for _, t := range s.Tombstones {
		if m := s.Member(t.ID); m != nil && !t.Final && m.Node != "" && !s.goes(m.Node, m.Slot) {
			return doOn(WithdrawTombstone, m.Node, m.Slot, t.ID, "the spec wants it again, and the list still names it")
		}
	}
	return Decision{}
}

// dropLearners: a learner that the target has no place for takes no vote with it.
func dropLearners(s *State) Decision {
	for _, m := range s.Learners() {
		if m.Node != "" && s.goes(m.Node, m.Slot) {
			return doOn(RemoveMember, m.Node, m.Slot, m.ID, fmt.Sprintf("a learner, and the spec wants %s", s.Want.Target))
		}
	}
	return Decision{}
}

// directories: what stands in a learner's way is retired, what is not understood refused.
func directories(s *State) Decision {
	if d := seedHasData(s); !d.silent() {
		return d
	}
	for _, name := range s.Want.Nodes {
		if d := directoryOf(s, name, MemberSlot); !d.silent() {
			return d
		}
	}
	return Decision{}
}

// seedHasData: a seed of the list that is a voter has a directory that can start.
func seedHasData(s *State) Decision {
	m := s.SeedMember()
	if m == nil || m.Role != Voter || stopped(s, m) {
		return Decision{}
	}
	if n := s.Node(m.Node); n != nil && n.Seed.Class != Running && n.Seed.Class != Whole {
		return refuse(Refusal{Name: "SeedDirectory", Step: StartSeed, Node: n.Name, Cites: "I3",
			Found: fmt.Sprintf("the list names seed %s, its directory is %s", m.ID, withReason(&n.Seed)), Want: "its directory back, or the removal of this member by ID"})
	}
	return Decision{}
}

// directoryOf looks at the place of a member that the target wants.
func directoryOf(s *State, name string, slot SlotName) Decision {
	n := s.Node(name)
	if n == nil {
		return Decision{}
	}
	m, sl := s.MemberOn(name, slot), n.Slot(slot)
	switch {
	case sl.Class == Foreign:
		return refuse(Refusal{Name: "ForeignDirectory", Step: StartMember, Node: name, Cites: "I3",
			Found: sl.Reason, Want: "move it away by hand; nothing of it was touched"})
	case sl.Class == Running && (m == nil || sl.ID != m.ID):
		return refuse(Refusal{Name: "UnknownProcess", Step: RegisterLearner, Node: name, Wait: true, Cites: "I1",
			Found: fmt.Sprintf("a process of member %s runs there, which the list does not name and its agent did not start", sl.ID), Want: "its end"})
	case brokenOff(m, sl):
		return doOn(RemoveMember, name, slot, m.ID, fmt.Sprintf("a learner whose directory is %s is removed and added anew", sl.Class))
	case stale(s, m, sl):
		return doOn(RetireDirectory, name, slot, sl.ID, fmt.Sprintf("its directory is %s and no member of the list: %s", sl.Class, orWord(sl.Reason, "kept in the attic")))
	case m != nil && m.Started == Yes && (sl.Class == Absent || sl.Class == Empty):
		if m.Role == Learner {
			return doOn(RemoveMember, name, slot, m.ID, "a learner that lost its directory is removed and added anew")
		}
		return refuse(Refusal{Name: "LostDirectory", Step: StartMember, Node: name, Cites: "I9",
			Found: fmt.Sprintf("voter %s has no directory any more", m.ID), Want: "replace the member"})
	case m != nil && m.Role == Voter && (sl.Class == Part || sl.Class == Older):
		return refuse(Refusal{Name: "PartDirectory", Step: StartMember, Node: name, Cites: "I3",
			Found: fmt.Sprintf("the directory of voter %s is %s", m.ID, withReason(sl)), Want: "replace the member"})
	}
	return Decision{}
}

// brokenOff: a learner that has run and whose directory cannot start. It is
// removed before its directory is retired: the other way round the list would
// name an identity that ran, with nothing on disk to tell it from one that
// never did, and it would be started on nothing (I9, k3k#836).
func brokenOff(m *Member, sl *Slot) bool {
	if m == nil || m.Role != Learner {
		return false
	}
	return sl.Class == Part && (sl.ID == 0 || sl.ID == m.ID) || m.Started == Yes && (sl.Class == Part || sl.Class == Older)
}

// stale: a directory of ours that no member of the list owns, its process down.
func stale(s *State, m *Member, sl *Slot) bool {
	switch sl.Class {
	case Part, Older:
		return m == nil || m.Role == Learner
	case Whole:
		return s.Member(sl.ID) == nil
	}
	return false
}

func withReason(sl *Slot) string {
	if sl.Reason == "" {
		return sl.Class.String()
	}
	return sl.Class.String() + ": " + sl.Reason
}

func orWord(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

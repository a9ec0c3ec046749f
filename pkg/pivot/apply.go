package pivot

import (
	"fmt"
	"slices"
)

// Apply is the world after a step that worked, as far as the step alone
// changes it: a started process holds its lock and answers its peers, it does
// not serve yet. What time brings is Settle's. The input is not changed.
func Apply(s State, step Step) State {
	s = s.Clone()
	n, m := s.Node(step.Node), s.Member(step.ID)
	before := s.targets()
	switch step.Kind {
	case TakeGrant:
		s.Grant = Grant{Held: Yes}
	case WriteSpec:
		for i := range s.Nodes {
			if s.Nodes[i].Agent == Answers {
				s.Nodes[i].SpecCurrent = Yes
			}
		}
	case RegisterLearner:
		s.Members = append(s.Members, Member{ID: freshID(&s, step.Node), Node: step.Node, Slot: step.Slot, Role: Learner, Started: No, Serves: No, AtIndex: No})
	case StartSeed, StartMember:
		started(&s, n.Slot(step.Slot), step)
	case RestartLateMember:
		sl := n.Slot(step.Slot)
		sl.LateRestarted, sl.Proc, sl.PeerUp = true, Up, Yes
		m.Late, m.Serves = No, No
	case RestartMember:
		sl := n.Slot(step.Slot)
		sl.LateRestarted, sl.Proc, sl.PeerUp = true, Up, Yes
		m.Serves, m.Clients, m.Settled = No, No, No
	case PromoteLearner:
		m.Role = Voter
	case ProveHashes:
		proved(&s)
	case RouteProxies:
		routed(&s)
		before = s.targets()
	case MoveLeader:
		s.Leader = step.ID
	case WriteTombstone:
		s.bury(Tombstone{ID: step.ID})
	case FinishTombstone:
		s.bury(Tombstone{ID: step.ID, Final: true})
	case WithdrawTombstone:
		s.Tombstones = slices.DeleteFunc(s.Tombstones, func(t Tombstone) bool { return t.ID == step.ID })
	case StopMember:
		sl := n.Slot(step.Slot)
		if sl.Class == Running {
			sl.Class = Whole
		}
		sl.Proc, sl.PeerUp, sl.Parked, sl.Kept, sl.Ended, sl.Args = Down, No, true, false, "", ""
		if m != nil {
			m.Serves, m.AtIndex, m.Late, m.Settled, m.Clients = No, No, No, Unknown, No
		}
	case RemoveMember:
		removed(&s, step.ID)
	case RetireDirectory:
		*n.Slot(step.Slot) = Slot{Class: Absent, Proc: Down, PeerUp: No}
	}
	if s.targets() != before {
		for i := range s.Nodes {
			s.Nodes[i].Proxy.Routed = No
		}
	}
	s.Normalize()
	return s
}

// bury replaces a member's tombstone, or adds one.
func (s *State) bury(t Tombstone) {
	if old := s.Tombstone(t.ID); old != nil {
		*old = t
		return
	}
	s.Tombstones = append(s.Tombstones, t)
}

// targets is what every proxy should have, as one word to compare.
func (s *State) targets() string {
	out := ""
	for _, m := range s.Members {
		if m.Node == "" {
			continue
		}
		out += fmt.Sprintf("%s %t;", m.ID, s.Drains(m.ID))
	}
	return out
}

// freshID stands for the ID that etcd will make; no member of the list has it.
func freshID(s *State, node string) MemberID {
	id := MemberID(0x100)
	for i := range s.Nodes {
		if s.Nodes[i].Name == node {
			id += MemberID(i)
		}
	}
	for s.Member(id) != nil || s.Tombstone(id) != nil {
		id += 0x100
	}
	return id
}

func started(s *State, sl *Slot, step Step) {
	if sl.ID == 0 || sl.Class == Absent || sl.Class == Empty {
		sl.ID = step.ID
	}
	sl.Class, sl.Proc, sl.PeerUp, sl.Parked, sl.Reason, sl.Kept, sl.Ended = Running, Up, Yes, false, "", false, ""
	sl.Assigned = sl.ID
	if sl.Args == "" {
		sl.Args = JoinerArgs
	}
	if m := s.Member(sl.ID); m != nil {
		m.Started = Yes
	}
}

func proved(s *State) {
	s.Proof = Proof{}
	for _, m := range s.Voters() {
		if m.Serves == Yes {
			s.Proof.Members = append(s.Proof.Members, m.ID)
		}
	}
}

func routed(s *State) {
	admitted := No
	for _, m := range s.Voters() {
		if !s.Drains(m.ID) && m.Serves == Yes {
			admitted = Yes
		}
	}
	for i := range s.Nodes {
		if s.Nodes[i].Agent == Answers {
			s.Nodes[i].Proxy.Routed = admitted
		}
	}
}

func removed(s *State, id MemberID) {
	var keep []Member
	for _, m := range s.Members {
		if m.ID != id {
			keep = append(keep, m)
		}
	}
	s.Members = keep
	if s.Leader == id {
		s.Leader = 0
	}
}

// Settle is what waiting brings where nothing fails: processes that are up
// serve, learners that serve are in sync, a list without leader elects one.
// a seed's first start makes the cluster. It serves the dry run.
func Settle(s State) State {
	s = s.Clone()
	firstCluster(&s)
	for i := range s.Nodes {
		for _, name := range []SlotName{MemberSlot, SeedSlot} {
			sl := s.Nodes[i].Slot(name)
			if s.Nodes[i].Agent != Answers || sl.Class != Running && !sl.Kept {
				continue
			}
			if sl.Kept { // its agent starts it, and what ended it is put right
				started(&s, sl, Step{ID: sl.Assigned})
			}
			sl.Proc, sl.PeerUp, sl.Ended = Serving, Yes, ""
			if m := s.Member(sl.ID); m != nil {
				m.Serves, m.AtIndex, m.Started, m.Late, m.Lag = Yes, Yes, Yes, No, 0
				if m.Settled == No {
					m.Settled = Yes
				}
			}
		}
	}
	if s.ListKnown && s.Leader == 0 {
		for _, m := range s.Voters() {
			if m.Serves == Yes {
				s.Leader = m.ID
				break
			}
		}
	}
	return s
}

// firstCluster: the seed that runs where no list was known is its only voter.
func firstCluster(s *State) {
	if s.ListKnown || s.Want.Target != TargetSeed || len(s.Want.Nodes) == 0 {
		return
	}
	n := s.Node(s.Want.Nodes[0])
	if n == nil || n.Seed.Class != Running {
		return
	}
	if n.Seed.ID == 0 {
		n.Seed.ID = freshID(s, n.Name)
	}
	s.ListKnown, s.Founded = true, true
	s.Members = []Member{{ID: n.Seed.ID, Node: n.Name, Slot: SeedSlot, Role: Voter, Started: Yes}}
}

// RouteEntry is one line of a planned route: a step, a wait, or where it ends.
type RouteEntry struct {
	Decision Decision
	// Settled: the entry is a wait that is expected to pass by itself.
	Settled bool
}

// Route plans ahead from a state, each step assumed to work and each wait to
// pass, to Done or to the first refusal that somebody must resolve. It is a
// forecast: each real step looks again first. It ends after max entries.
func Route(s State, max int) []RouteEntry {
	var out []RouteEntry
	for len(out) < max {
		d := Next(s)
		if d.Waits() {
			after := Settle(s)
			if after.String() == s.String() {
				return append(out, RouteEntry{Decision: d})
			}
			out = append(out, RouteEntry{Decision: d, Settled: true})
			s = after
			continue
		}
		out = append(out, RouteEntry{Decision: d})
		if d.Step == nil || d.Step.Kind == Done {
			return out
		}
		s = Apply(s, *d.Step)
	}
	return out
}

package pivot

// kept: the agent starts this slot by itself, under this very identity. A
// StartMember would change nothing but begin its backoff anew, at every look:
// a process that cannot start would be started as fast as it dies.
func (sl *Slot) kept(id MemberID) bool {
	return sl.Kept && (sl.Assigned == id || sl.Assigned == 0)
}

// ended names a process that its agent starts again and again, with its last
// words; nil where it is none of that. Evicting it is never the answer: an
// image still being pulled, a port in use, a missing file pass or are put right
// (LESSONS "Membership").
func ended(s *State, node string, slot SlotName, step Kind) *Refusal {
	n := s.Node(node)
	if n == nil || n.Agent != Answers {
		return nil
	}
	sl := n.Slot(slot)
	if sl.Ended == "" || sl.Proc == Serving || sl.PeerUp == Yes {
		return nil
	}
	return &Refusal{Name: "ProcessEnds", Step: step, Node: node, Wait: true, Cites: "I4",
		Found: "the etcd of its " + string(slot) + " slot ended: " + sl.Ended, Want: "what its last words name put right; its agent starts it again by itself"}
}

// orEnded is r, or what is known better of the process it waits for.
func orEnded(s *State, slot SlotName, r Refusal) Refusal {
	if e := ended(s, r.Node, slot, r.Step); e != nil {
		return *e
	}
	return r
}

// allEnded are all such processes, for a wait that hangs on any of them.
func allEnded(s *State, step Kind) []Refusal {
	var rs []Refusal
	for _, n := range s.Nodes {
		for _, slot := range []SlotName{MemberSlot, SeedSlot} {
			if r := ended(s, n.Name, slot, step); r != nil {
				rs = append(rs, *r)
			}
		}
	}
	return rs
}

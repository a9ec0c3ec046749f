package pivot

import "fmt"

// leaveSeed: the seed goes, once nothing else is left to do before it.
func leaveSeed(s *State) Decision {
	seed := s.SeedMember()
	if seed == nil {
		return Decision{}
	}
	return leave(s, seed, "every proxy is on members, hashes are equal, leadership is moved")
}

// leave: tombstone, then stop before remove where the others carry the list that
// still counts it (3 of 4, 2 of 3), else remove before stop (I2).
func leave(s *State, m *Member, why string) Decision {
	if t := s.Tombstone(m.ID); t == nil || t.Partial {
		return doOn(WriteTombstone, m.Node, m.Slot, m.ID, "its removal is decided; a restart finds that out")
	}
	have, need, of := s.quorumWith(map[MemberID]bool{m.ID: true}, nil, nil)
	if n := s.Node(m.Node); have >= need && n.Slot(m.Slot).Proc != Down {
		return doOn(StopMember, m.Node, m.Slot, m.ID, fmt.Sprintf("%d of %d voters serve without it", have, of))
	}
	return doOn(RemoveMember, m.Node, m.Slot, m.ID, why)
}

// stopRemoved: what is no longer in the list and still runs, or would be started
// again by its agent, is parked; nothing else could retire its directory.
func stopRemoved(s *State) Decision {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for _, name := range []SlotName{SeedSlot, MemberSlot} {
			sl := n.Slot(name)
			id := sl.Assigned // another process than its agent's own is not ours to stop
			if id != 0 && s.Member(id) == nil && (sl.Class == Running && sl.ID == id || sl.Kept) {
				return doOn(StopMember, n.Name, name, id, "the list no longer names it")
			}
		}
	}
	return Decision{}
}

// left finds a slot that goes and whose directory is still in its place.
func left(s *State) (*Node, SlotName) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for _, name := range []SlotName{SeedSlot, MemberSlot} {
			if !s.goes(n.Name, name) || s.MemberOn(n.Name, name) != nil {
				continue
			}
			sl := n.Slot(name)
			switch sl.Class {
			case Whole, Part, Older:
				return n, name
			}
			if sl.Reading { // something is there
				return n, name
			}
		}
	}
	return nil, ""
}

// proveBeforeRetiring: the last copy that is not of the target leaves its place
// only after every voter is proved (I3).
func proveBeforeRetiring(s *State) Decision {
	if n, _ := left(s); n == nil {
		return Decision{}
	}
	return proveVoters(s, "every member, before a directory that nobody needs leaves its place")
}

// proveVoters asks for a proof of every voter of the list.
func proveVoters(s *State, why string) Decision {
	ids := voterIDs(s)
	if s.Proof.Has(ids...) && s.Proof.Differ == "" {
		return Decision{}
	}
	return proveStep(s, ids, why)
}

func voterIDs(s *State) []MemberID {
	var ids []MemberID
	for _, m := range s.Voters() {
		ids = append(ids, m.ID)
	}
	return ids
}

func routeAll(s *State) Decision {
	return proxiesTo(s, "the proxy of %s has other targets than the members of the list, or none admitted")
}

func retireLeft(s *State) Decision {
	n, name := left(s)
	if n == nil {
		return Decision{}
	}
	sl := n.Slot(name)
	if sl.Reading {
		return refuse(Refusal{Name: "DirectoryUnknown", Step: RetireDirectory, Node: n.Name, Wait: true, Cites: "I10",
			Found: "the " + string(name) + " slot's directory is still being read", Want: "its class"})
	}
	return doOn(RetireDirectory, n.Name, name, sl.ID, "its member is removed and every voter is proved")
}

func awaitVoters(s *State) Decision {
	var rs []Refusal
	for _, m := range s.Members {
		if m.Serves != Yes {
			rs = append(rs, orEnded(s, m.Slot, Refusal{Name: "NotServing", Step: Done, Node: m.Node, Wait: true, Found: fmt.Sprintf("%s %s does not serve clients", m.Role, m.ID), Want: "its client port answers"}))
		}
	}
	return Decision{Refusals: rs}
}

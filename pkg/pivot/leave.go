package pivot

import "fmt"

// leaveSeed: tombstone, then stop before remove where the others carry the
// list that still counts the seed (3 of 4), else remove before stop (I2).
func leaveSeed(s *State) Decision {
	seed := s.SeedMember()
	if seed == nil {
		return Decision{}
	}
	if s.Tombstone(seed.ID) == nil {
		return doOn(WriteTombstone, seed.Node, seed.Slot, seed.ID, "its removal is decided; a restart finds that out")
	}
	n := s.Node(seed.Node)
	have, need, of := s.quorumWith(map[MemberID]bool{seed.ID: true}, nil, nil)
	if have >= need && n.Seed.Proc != Down {
		return doOn(StopMember, seed.Node, seed.Slot, seed.ID, fmt.Sprintf("%d of %d voters serve without it", have, of))
	}
	return doOn(RemoveMember, seed.Node, seed.Slot, seed.ID, "every proxy is on members, hashes are equal, leadership is moved")
}

// stopRemoved: a seed no longer in the list that still runs, or is still wanted
// to run by its agent because it ended by itself (a pivot of one).
func stopRemoved(s *State) Decision {
	for i := range s.Nodes {
		sl := &s.Nodes[i].Seed
		left := sl.Class == Whole || sl.Class == Older || sl.Class == Part
		if s.Member(sl.ID) == nil && (sl.Class == Running || left && !sl.Parked) {
			return doOn(StopMember, s.Nodes[i].Name, SeedSlot, sl.ID, "the list no longer names it")
		}
	}
	return Decision{}
}

// seedLeft finds a node whose seed directory is still in its place.
func seedLeft(s *State) *Node {
	for i := range s.Nodes {
		switch s.Nodes[i].Seed.Class {
		case Whole, Part, Older:
			return &s.Nodes[i]
		}
		if s.Nodes[i].Seed.Reading { // something is there
			return &s.Nodes[i]
		}
	}
	return nil
}

// proveBeforeRetiring: the last copy that is not a member's leaves its place
// only after every member is proved (I3).
func proveBeforeRetiring(s *State) Decision {
	if s.SeedMember() != nil || seedLeft(s) == nil {
		return Decision{}
	}
	var ids []MemberID
	for _, m := range s.Voters() {
		ids = append(ids, m.ID)
	}
	if s.Proof.Has(ids...) && s.Proof.Differ == "" {
		return Decision{}
	}
	return proveStep(s, ids, "every member, before the seed's directory leaves its place")
}

func routeWithoutSeed(s *State) Decision {
	for _, name := range s.Want.Nodes {
		n := s.Node(name)
		if n.Proxy.Seed != No || n.Proxy.Members != Yes {
			return do(RouteProxies, fmt.Sprintf("the proxy of %s still names the seed or has no member admitted", name))
		}
	}
	return Decision{}
}

func retireSeed(s *State) Decision {
	n := seedLeft(s)
	if n == nil {
		return Decision{}
	}
	if n.Seed.Reading {
		return refuse(Refusal{Name: "DirectoryUnknown", Step: RetireDirectory, Node: n.Name, Wait: true, Cites: "I10",
			Found: "the seed's directory is still being read", Want: "its class"})
	}
	return doOn(RetireDirectory, n.Name, SeedSlot, n.Seed.ID, "the seed is removed and every member is proved")
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

func membersBesideSeed(s *State) Decision {
	for _, m := range s.Members {
		if m.Slot != SeedSlot {
			return refuse(Refusal{Name: "MembersBesideSeed", Step: Done, Node: m.Node, Cites: "I4",
				Found: fmt.Sprintf("the spec wants one seed, the list names %s %s %s", m.Role, m.ID, m.URL), Want: "run `bootstrap pivot` naming all nodes"})
		}
	}
	return Decision{}
}

func seedDirectory(s *State) Decision {
	n := s.Node(s.Want.Nodes[0])
	if n == nil {
		return refuse(Refusal{Name: "NodeSilent", Step: StartSeed, Node: s.Want.Nodes[0], Cites: "I4", Found: "it was not asked", Want: "its agent"})
	}
	switch n.Seed.Class {
	case Foreign, Part, Older:
		return refuse(Refusal{Name: "SeedDirectory", Step: StartSeed, Node: n.Name, Cites: "I3",
			Found: fmt.Sprintf("the seed's directory is %s: %s", n.Seed.Class, n.Seed.Reason), Want: "a whole one, or none before the first start"})
	case Absent, Empty:
		if n.Seed.Assigned != 0 { // to start anew would be a second cluster under this name (I1)
			return refuse(Refusal{Name: "SeedDirectory", Step: StartSeed, Node: n.Name, Cites: "I9",
				Found: fmt.Sprintf("the seed's directory is %s, its node was member %s", n.Seed.Class, n.Seed.Assigned), Want: "the disk that holds it"})
		}
		if n.Seed.Kept {
			return refuse(orEnded(s, SeedSlot, Refusal{Name: "NotServing", Step: Done, Node: n.Name, Wait: true, Found: "the seed has not started yet", Want: "its agent starts it"}))
		}
		return doOn(StartSeed, n.Name, SeedSlot, 0, "the seed has never started")
	}
	return Decision{}
}

func awaitSeed(s *State) Decision {
	n := s.Node(s.Want.Nodes[0])
	if n.Seed.Proc == Serving && s.Leader != 0 {
		return Decision{}
	}
	return refuse(orEnded(s, SeedSlot, Refusal{Name: "NotServing", Step: Done, Node: n.Name, Wait: true, Found: "the seed does not serve clients yet", Want: "its client port answers"}))
}

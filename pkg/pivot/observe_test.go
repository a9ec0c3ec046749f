package pivot

// view is one order of the nodes in the spec.
type view struct {
	order []int // order[p] is the world's node at position p
	pos   [maxNodes]int
	// coarse leaves out what only some nodes know, for larger walks.
	coarse bool
}

func newView(order []int) view {
	v := view{order: order}
	for p, i := range order {
		v.pos[i] = p
	}
	return v
}

// nodes in the spec's order: on the way to a seed its node is the first.
func (v view) nodes(w *world) []int {
	if !w.back {
		return v.order
	}
	out := []int{0}
	for _, i := range v.order {
		if i != 0 {
			out = append(out, i)
		}
	}
	return out
}

func (v view) id(ix int) MemberID {
	if ix == seedIx {
		return seedID
	}
	return memberID(v.pos[ix])
}

// index of a member ID, nobody where there is none.
func (v view) index(id MemberID) int {
	switch {
	case id == seedID:
		return seedIx
	case id >= memberID(0) && id < memberID(len(v.order)):
		return v.order[id-memberID(0)]
	}
	return nobody
}

// observe is one look: a silent agent's node is unknown, and so are its members;
// the list is known where a member that serves can be asked.
func (v view) observe(w *world) State {
	s := State{Want: Want{Target: w.target()}, Grant: Grant{Held: No}, Founded: w.known}
	if w.grant {
		s.Grant.Held = Yes
	}
	for _, i := range v.nodes(w) {
		s.Want.Nodes = append(s.Want.Nodes, nodeName(i))
		s.Nodes = append(s.Nodes, v.observeNode(w, v.pos[i], i))
	}
	asked := false
	w.each(len(v.order), func(ix int, e *wetcd) {
		asked = asked || e.role == Voter && e.proc == wServing && w.leader != nobody && !w.node[homeOf(ix)].silent
		if w.proof>>ix&1 == 1 {
			s.Proof.Members = append(s.Proof.Members, v.id(ix))
		}
		if e.tomb != tombNone {
			s.Tombstones = append(s.Tombstones, Tombstone{ID: v.id(ix), Final: e.tomb == tombFinal, Partial: e.tomb == tombPartial})
		}
	})
	if w.stray == strayForgotten {
		s.Want.Forget = []MemberID{strayID}
	}
	if asked {
		v.observeList(w, &s)
	}
	s.Normalize()
	return s
}

func tri(b bool) Tri {
	if b {
		return Yes
	}
	return No
}

func (v view) observeNode(w *world, p, i int) Node {
	nd := &w.node[i]
	if nd.silent {
		return Node{Name: nodeName(i), Agent: Silent}
	}
	admitted := false
	w.each(len(v.order), func(ix int, e *wetcd) {
		admitted = admitted || e.role == Voter && e.proc == wServing && w.leader != nobody && !w.drains(ix, len(v.order))
	})
	out := Node{Name: nodeName(i), Agent: Answers, SpecCurrent: tri(nd.spec),
		Proxy:  Proxy{Routed: tri(nd.routed && admitted && !nd.deaf)},
		Member: observeSlot(w, &nd.m, memberID(p), staleID(i), "max-learners=8"),
		Seed:   Slot{Class: Absent, Proc: Down, PeerUp: No}}
	if i == 0 {
		args := "max-learners=8"
		if w.args == 1 {
			args = "max-learners=1"
		}
		out.Seed = observeSlot(w, &w.seed, seedID, staleSeedID, args)
		if w.seed.ran {
			out.Seed.Assigned = seedID
		}
	}
	return out
}

func observeSlot(w *world, e *wetcd, mine, stale MemberID, args string) Slot {
	sl := Slot{Class: e.dir, Proc: Down, PeerUp: tri(e.proc >= wUp), Parked: e.parked, LateRestarted: e.lateRestarted}
	switch {
	case e.mine:
		sl.ID = mine
	case e.dir == Whole || e.dir == Older:
		sl.ID = stale
	}
	if e.kept && e.proc == wDown {
		sl.Kept, sl.Assigned = true, mine
	}
	if e.proc != wDown {
		sl.Class, sl.Proc, sl.Args, sl.Assigned = Running, Up, args, sl.ID
		if e.proc == wServing && w.leader != nobody {
			sl.Proc = Serving
		}
	}
	return sl
}

func (v view) observeList(w *world, s *State) {
	s.ListKnown = true
	s.Leader = v.id(int(w.leader))
	w.each(len(v.order), func(ix int, e *wetcd) {
		if e.role == RoleNone {
			return
		}
		m := Member{ID: v.id(ix), Node: nodeName(homeOf(ix)), Slot: MemberSlot, Role: e.role, Started: tri(e.named), Serves: Unknown, AtIndex: Unknown}
		if ix == seedIx {
			m.Slot = SeedSlot
		}
		if !w.node[homeOf(ix)].silent {
			m.Started = tri(e.named || e.recorded)
			m.Serves = tri(e.proc == wServing)
			m.AtIndex = tri(e.sync && e.mine && e.proc >= wUp)
			m.Late = tri(e.late)
			if ix != seedIx {
				m.Clients = tri(e.clients)
			}
			if m.AtIndex == No {
				m.Lag = 5000
			}
		}
		s.Members = append(s.Members, m)
	})
	switch w.stray {
	case strayLearner, strayForgotten:
		s.Members = append(s.Members, Member{ID: strayID, URL: "https://192.0.2.9:2380", Role: Learner, Started: No})
	case strayVoter:
		s.Members = append(s.Members, Member{ID: strayID, URL: "https://192.0.2.9:2380", Role: Voter, Started: No})
	}
}

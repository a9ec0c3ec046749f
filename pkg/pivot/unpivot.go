package pivot

import (
	"fmt"
	"slices"
)

// The rules of the way back: from managed members to one seed on the spec's
// first node. Nothing here remembers that it is a way back; each rule judges one
// look, so that `pivot` and `unpivot` may take turns at any point (I8).

// seedNode is where the one seed is to be, nil where nobody asked that node.
func seedNode(s *State) *Node {
	if len(s.Want.Nodes) == 0 {
		return nil
	}
	return s.Node(s.Want.Nodes[0])
}

// Drains says whether proxies give a member no new connection: what is on its way
// out, from the moment on at which something that stays can serve. It follows
// from target and list alone, so that every look of a phase has one answer.
func (s *State) Drains(id MemberID) bool {
	m := s.Member(id)
	if m == nil || m.Node == "" || !s.goes(m.Node, m.Slot) {
		return false
	}
	if s.Want.Target == TargetMembers || m.Role == Learner {
		return true
	}
	seed := s.SeedMember()
	return seed != nil && (seed.Role == Voter || m.Node == s.Want.Nodes[0] && ownFirst(s))
}

// ownFirst: the member on the seed's own node leaves before the seed has a vote,
// so that there are never two voters on one machine. Where the others could not
// carry the list without it (one or two voters), the seed is promoted first: an
// unpivot of one has no other way, and of two machines the loss of either stops
// writes before and after.
func ownFirst(s *State) bool { return len(s.Voters()) >= 3 }

// seedElsewhere: one seed at a time, and it does not move.
func seedElsewhere(s *State) Decision {
	for _, m := range s.Members {
		if n := seedNode(s); m.Slot == SeedSlot && n != nil && m.Node != n.Name {
			return refuse(Refusal{Name: "SeedElsewhere", Step: RegisterLearner, Node: n.Name, Cites: "I1",
				Found: fmt.Sprintf("%s %s is a seed on %s", m.Role, m.ID, m.Node), Want: "`bootstrap unpivot --to " + m.Node + "`, or `bootstrap pivot` first"})
		}
	}
	return Decision{}
}

// firstSeed is about the one seed that makes the cluster: while no list is known
// and no managed member could name one.
func firstSeed(s *State) Decision {
	n := seedNode(s)
	if n == nil {
		name := ""
		if len(s.Want.Nodes) > 0 {
			name = s.Want.Nodes[0]
		}
		return refuse(Refusal{Name: "NodeSilent", Step: StartSeed, Node: name, Cites: "I4", Found: "it was not asked", Want: "its agent"})
	}
	if s.ListKnown || membersRun(s) {
		return Decision{}
	}
	switch n.Seed.Class {
	case Running:
		return refuse(orEnded(s, SeedSlot, Refusal{Name: "NotServing", Step: Done, Node: n.Name, Wait: true, Found: "the seed does not serve clients yet", Want: "its client port answers"}))
	case Foreign, Part, Older:
		return refuse(Refusal{Name: "SeedDirectory", Step: StartSeed, Node: n.Name, Cites: "I3",
			Found: fmt.Sprintf("the seed's directory is %s: %s", n.Seed.Class, n.Seed.Reason), Want: "a whole one, or none before the first start"})
	case Absent, Empty:
		switch {
		case n.Seed.Assigned != 0 && !n.Seed.Kept: // to start anew would be a second cluster under this name (I1)
			return refuse(Refusal{Name: "SeedDirectory", Step: StartSeed, Node: n.Name, Cites: "I9",
				Found: fmt.Sprintf("the seed's directory is %s, its node was member %s", n.Seed.Class, n.Seed.Assigned), Want: "the disk that holds it"})
		case n.Seed.Kept:
			return refuse(orEnded(s, SeedSlot, Refusal{Name: "NotServing", Step: Done, Node: n.Name, Wait: true, Found: "the seed has not started yet", Want: "its agent starts it"}))
		case !s.Founded:
			return doOn(StartSeed, n.Name, SeedSlot, 0, "the seed has never started")
		}
	}
	return Decision{}
}

// membersRun: a managed member runs, or its agent is about to start it again.
func membersRun(s *State) bool {
	for i := range s.Nodes {
		if sl := &s.Nodes[i].Member; sl.Class == Running || sl.Class == Whole && sl.kept(sl.ID) {
			return true
		}
	}
	return false
}

// seedPlace: the seed's slot holds the seed of the list, or is free for one. What
// else lies there is retired, every voter proved first: it was a seed's once.
func seedPlace(s *State) Decision {
	if d := seedHasData(s); !d.silent() {
		return d
	}
	d := directoryOf(s, s.Want.Nodes[0], SeedSlot)
	if d.Step != nil && d.Step.Kind == RetireDirectory {
		if p := proveVoters(s, "every voter, before an old seed's directory leaves its place"); !p.silent() {
			return p
		}
	}
	return d
}

// memberPlaces: a voter without data is for a person to judge, in this direction too.
func memberPlaces(s *State) Decision {
	for _, m := range s.Voters() {
		n := s.Node(m.Node)
		if n == nil || m.Slot != MemberSlot || stopped(s, &m) {
			continue
		}
		switch n.Member.Class {
		case Absent, Empty:
			return refuse(Refusal{Name: "LostDirectory", Step: StartMember, Node: m.Node, Cites: "I9",
				Found: fmt.Sprintf("voter %s has no directory any more", m.ID), Want: "replace the member"})
		case Part, Older, Foreign:
			return refuse(Refusal{Name: "PartDirectory", Step: StartMember, Node: m.Node, Cites: "I3",
				Found: fmt.Sprintf("the directory of voter %s is %s", m.ID, withReason(&n.Member)), Want: "replace the member"})
		}
	}
	return Decision{}
}

// awaitStanding: nobody goes while another voter is down, but who is stopped on its way out.
func awaitStanding(s *State) Decision {
	var rs []Refusal
	for _, m := range s.Voters() {
		if m.Serves != Yes && !stopped(s, &m) {
			rs = append(rs, orEnded(s, m.Slot, Refusal{Name: "NotServing", Step: RemoveMember, Node: m.Node, Wait: true, Cites: "I2",
				Found: fmt.Sprintf("%s %s does not serve clients", m.Role, m.ID), Want: "its client port answers, before any other voter goes"}))
		}
	}
	return Decision{Refusals: rs}
}

// unfitSeed is unfitNodes for the one node that is to take a seed.
func unfitSeed(s *State) Decision {
	n, m := seedNode(s), s.SeedMember()
	if n.Unfit == "" || n.Seed.Class == Running || m != nil && m.Started == Yes {
		return Decision{}
	}
	return refuse(Refusal{Name: "NodeUnfit", Step: RegisterLearner, Node: n.Name, Found: n.Unfit, Want: "a node on which a member can start"})
}

func registerSeed(s *State) Decision {
	if s.SeedMember() != nil {
		return Decision{}
	}
	return doOn(RegisterLearner, s.Want.Nodes[0], SeedSlot, 0, fmt.Sprintf("the seed to be, a learner beside %d voters", len(s.Voters())))
}

// startJoiningSeed: as a learner of the live list; its epoch stays the same.
func startJoiningSeed(s *State) Decision {
	m, n := s.SeedMember(), seedNode(s)
	if m != nil && n.Seed.Proc == Down && (n.Seed.Class == Absent || n.Seed.Class == Empty) && !n.Seed.kept(m.ID) {
		return doOn(StartSeed, n.Name, SeedSlot, m.ID, "registered and not yet started")
	}
	return Decision{}
}

// ownMemberFirst: two voters on one machine are one accident, in both directions.
func ownMemberFirst(s *State) Decision {
	seed, own := s.SeedMember(), s.MemberOn(s.Want.Nodes[0], MemberSlot)
	if seed.Role == Voter || own == nil || !ownFirst(s) {
		return Decision{}
	}
	if d := beforeLeaving(s); !d.silent() {
		return d
	}
	if s.Leader == own.ID {
		return moveTo(s, "it leads and is about to go", func(m Member) int {
			if m.ID == own.ID {
				return never
			}
			return 0
		})
	}
	return leave(s, own, "the seed takes its place on this node, once it is gone")
}

// beforeLeaving: every voter proved, every proxy away from what goes.
func beforeLeaving(s *State) Decision {
	if ids := toProve(s); s.Proof.Differ != "" || !s.Proof.Has(ids...) {
		return proveStep(s, ids, "before any of them goes")
	}
	return proxiesTo(s, "the proxy of %s is not proven on a voter that stays, with what goes draining")
}

func promoteSeed(s *State) Decision {
	seed := s.SeedMember()
	if seed.Role == Voter {
		return Decision{}
	}
	if d := awaitSettled(s, len(s.Voters()) == 1, PromoteLearner, nil); !d.silent() {
		return d
	}
	return doOn(PromoteLearner, seed.Node, seed.Slot, seed.ID, fmt.Sprintf("the seed, in sync (%d entries behind) and serving", seed.Lag))
}

// awaitSettled keeps the state of two voters short: etcd refuses a removal while a
// voter that stays has been connected for less than 5 s (mayRemoveMember), so that
// wait is done before, while one may still fail.
func awaitSettled(s *State, two bool, step Kind, gone *Member) Decision {
	if !two {
		return Decision{}
	}
	for _, m := range s.Members {
		if m.Serves == Yes && m.Settled == No && (gone == nil || m.ID != gone.ID) {
			return refuse(Refusal{Name: "NotSettled", Step: step, Node: m.Node, Wait: true, Cites: "I2",
				Found: fmt.Sprintf("%s %s has run for a few seconds only, and etcd would refuse the removal that comes after", m.Role, m.ID), Want: "6 s, so that two voters stand alone for a moment only"})
		}
	}
	return Decision{}
}

// leaveMembers: the seed has a vote, and the members go one by one.
func leaveMembers(s *State) Decision {
	seed, order := s.SeedMember(), leaveOrder(s)
	if len(order) == 0 {
		return Decision{}
	}
	if d := beforeLeaving(s); !d.silent() {
		return d
	}
	if s.Leader != seed.ID {
		return moveTo(s, "the seed is to be the only voter", func(m Member) int {
			if m.ID != seed.ID {
				return never
			}
			return 0
		})
	}
	next, last := order[0], order[len(order)-1]
	if s.Tombstone(next.ID) == nil && len(s.Voters()) == 3 && !stopped(s, &next) {
		have, need, _ := s.quorumWith(map[MemberID]bool{last.ID: true}, nil, nil)
		if last.Clients == Yes && have >= need {
			return doOn(RestartMember, last.Node, last.Slot, last.ID, "its clients go to the seed while 2 of 3 voters serve; once there are two voters it could only be cut off")
		}
		if d := awaitSettled(s, true, RemoveMember, &next); !d.silent() {
			return d
		}
	}
	return leave(s, &next, "the seed leads and serves every proxy, hashes are equal")
}

// leaveOrder: who is half gone first, stopped before decided, then the member on
// the seed's own node, then the others in the spec's order.
func leaveOrder(s *State) (order []Member) {
	for _, name := range s.Want.Nodes {
		if m := s.MemberOn(name, MemberSlot); m != nil {
			order = append(order, *m)
		}
	}
	half := func(m Member) int {
		switch {
		case stopped(s, &m):
			return 2
		case s.Tombstone(m.ID) != nil:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b Member) int { return half(b) - half(a) })
	return order
}

package pivot

import (
	"fmt"
	"sort"
)

func missing(s *State) []string {
	var out []string
	for _, n := range s.Want.Nodes {
		if s.MemberOn(n, MemberSlot) == nil {
			out = append(out, n)
		}
	}
	return out
}

// unfitNodes: where a first start would come to nothing, nothing is registered
// for it and it is not begun: an entry that never starts helps nobody (CASES M1).
func unfitNodes(s *State) Decision {
	var rs []Refusal
	for _, name := range s.Want.Nodes {
		n, m := s.Node(name), s.MemberOn(name, MemberSlot)
		if n == nil || n.Unfit == "" || n.Member.Class == Running || m != nil && m.Started == Yes {
			continue
		}
		rs = append(rs, Refusal{Name: "NodeUnfit", Step: RegisterLearner, Node: name, Found: n.Unfit, Want: "a node on which a member can start"})
	}
	return Decision{Refusals: rs}
}

// registerLearners: all learners of a growth are registered before any starts,
// or their initial-cluster lists disagree (LESSONS "Pivot"); a second one only
// beside equal arguments (I11), else one at a time, the seed's own node last:
// its member is promoted last and would hold up the others.
func registerLearners(s *State) Decision {
	left := missing(s)
	if len(left) == 0 || (len(s.Learners()) > 0 && !sameArgs(s)) {
		return Decision{}
	}
	node := left[0]
	if seed := s.SeedMember(); seed != nil && seed.Node == node && len(left) > 1 && !sameArgs(s) {
		node = left[1]
	}
	return doOn(RegisterLearner, node, MemberSlot, 0, fmt.Sprintf("%d of %d named nodes have a member", len(s.Want.Nodes)-len(left), len(s.Want.Nodes)))
}

// JoinerArgs is what takes part in apply on every member that we start (DESIGN:
// --max-learners is 8 everywhere), in the form of Slot.Args.
const JoinerArgs = "max-learners=8"

// sameArgs: every running member has what the joiners will have. Members that
// agree among themselves are not enough: a lone seed with etcd's default of 1
// refuses the second learner for ever, and joiners that differ from it panic.
func sameArgs(s *State) bool {
	running := false
	for i := range s.Nodes {
		for _, sl := range []*Slot{&s.Nodes[i].Member, &s.Nodes[i].Seed} {
			if sl.Class != Running {
				continue
			}
			if sl.Args != JoinerArgs {
				return false
			}
			running = true
		}
	}
	return running
}

// startLearners: each when the one before answers /version on its peer port;
// several at one moment wait 7 s on each other's half-open ports (LESSONS).
func startLearners(s *State) Decision {
	for _, m := range s.Learners() {
		if n := s.Node(m.Node); n != nil && n.Member.Class == Running && n.Member.PeerUp != Yes {
			return refuse(orEnded(s, MemberSlot, Refusal{Name: "PeerNotUp", Step: StartMember, Node: n.Name, Wait: true, Found: "it does not answer on its peer port yet", Want: "/version there"}))
		}
	}
	for _, name := range s.Want.Nodes {
		n, m := s.Node(name), s.MemberOn(name, MemberSlot)
		if m != nil && n.Member.Proc == Down && (n.Member.Class == Absent || n.Member.Class == Empty) && !n.Member.kept(m.ID) {
			return doOn(StartMember, name, MemberSlot, m.ID, "registered and not yet started")
		}
	}
	return Decision{}
}

// restartLate: a learner whose publish proposal was lost while it received the
// database opens its client port only after 7 s; restarted as a learner it does
// at once. As a voter it would block removals for 5 s (LESSONS).
func restartLate(s *State) Decision {
	for _, m := range s.Learners() {
		n := s.Node(m.Node)
		if n != nil && m.Late == Yes && n.Slot(m.Slot).Proc == Up && !n.Slot(m.Slot).LateRestarted {
			return doOn(RestartLateMember, m.Node, m.Slot, m.ID, "it holds the leader's index and still refuses clients")
		}
	}
	return Decision{}
}

func awaitLearners(s *State) Decision {
	var rs []Refusal
	for _, m := range s.Learners() {
		switch {
		case m.AtIndex != Yes:
			found := "its index is not known yet"
			if m.AtIndex == No && m.Lag > 0 {
				found = fmt.Sprintf("it is %d entries behind the leader", m.Lag)
			}
			rs = append(rs, orEnded(s, m.Slot, Refusal{Name: "NotInSync", Step: PromoteLearner, Node: m.Node, Wait: true, Cites: "I7", Found: found, Want: "within 1000 entries"}))
		case m.Serves != Yes:
			rs = append(rs, orEnded(s, m.Slot, Refusal{Name: "NotServing", Step: PromoteLearner, Node: m.Node, Wait: true, Cites: "I7", Found: "it does not serve clients yet", Want: "its client port answers"}))
		}
	}
	return Decision{Refusals: rs}
}

// lastLearner is the member on the seed's own node, promoted last: two voters
// on one machine are the danger, so that state is kept to one call and a move.
func lastLearner(s *State) *Member {
	seed := s.SeedMember()
	if seed == nil || len(s.Want.Nodes) < 2 {
		return nil
	}
	return s.MemberOn(seed.Node, MemberSlot)
}

func promoteLearners(s *State) Decision {
	last := lastLearner(s)
	for _, m := range s.Learners() {
		if last != nil && m.ID == last.ID {
			continue
		}
		return doOn(PromoteLearner, m.Node, m.Slot, m.ID, fmt.Sprintf("in sync (%d entries behind) and serving", m.Lag))
	}
	if len(missing(s)) > 0 && len(s.Learners()) > 0 {
		// one at a time (I11), and the only learner is the one that goes last
		return refuse(Refusal{Name: "ArgsDiffer", Step: RegisterLearner, Cites: "I11", Found: "a running member's --max-learners is not 8 or not known, so learners join one at a time, and the one on the seed's node is promoted last",
			Want: "--max-learners=8 on every running member"})
	}
	return Decision{}
}

// toProve is whom a proof must cover before a voter may go: every voter but one
// stopped on its way out, proved before. On the way to members the seed's node's
// own member is proved after the removal.
func toProve(s *State) []MemberID {
	var last *Member
	if s.Want.Target == TargetMembers {
		last = lastLearner(s)
	}
	var ids []MemberID
	for _, m := range s.Voters() {
		if last != nil && m.ID == last.ID || stopped(s, &m) {
			continue
		}
		ids = append(ids, m.ID)
	}
	return ids
}

// stopped: our own StopMember parked it on its way out; one that merely does not
// answer is not stopped (I4).
func stopped(s *State, m *Member) bool {
	n := s.Node(m.Node)
	return n != nil && s.Drains(m.ID) && s.Tombstone(m.ID) != nil && n.Slot(m.Slot).Parked && n.Slot(m.Slot).Proc == Down
}

func proveBeforeLeaving(s *State) Decision {
	seed := s.SeedMember()
	switch {
	case seed == nil:
		return Decision{}
	case seed.Serves != Yes && !stopped(s, seed):
		return refuse(orEnded(s, SeedSlot, Refusal{Name: "NotServing", Step: ProveHashes, Node: seed.Node, Wait: true, Cites: "I4",
			Found: "the seed does not answer", Want: "it serves again, so that members are proved against it"}))
	case s.Proof.Differ == "" && s.Proof.Has(toProve(s)...):
		return Decision{}
	}
	return proveStep(s, toProve(s), "before anybody is routed away from the seed")
}

// proveStep asks for hashes where they can be had: of a member that does not
// serve they cannot, and asking again and again costs the others a scan each.
func proveStep(s *State, ids []MemberID, why string) Decision {
	for _, id := range ids {
		if m := s.Member(id); s.Proof.Differ == "" && m.Serves != Yes {
			return refuse(orEnded(s, m.Slot, Refusal{Name: "NotServing", Step: ProveHashes, Node: m.Node, Wait: true,
				Found: fmt.Sprintf("%s %s does not serve clients", m.Role, m.ID), Want: "its client port answers"}))
		}
	}
	if s.Proof.Differ != "" {
		return refuse(Refusal{Name: "HashesDiffer", Step: ProveHashes, Cites: "I1", Found: s.Proof.Differ, Want: "equal HashKV at one revision; nothing is removed"})
	}
	return do(ProveHashes, why)
}

func routeMembers(s *State) Decision {
	if s.SeedMember() == nil {
		return Decision{}
	}
	return proxiesTo(s, "the proxy of %s is not proven on a managed member; the seed drains")
}

func promoteLast(s *State) Decision {
	if m := lastLearner(s); m != nil && m.Role == Learner {
		return doOn(PromoteLearner, m.Node, m.Slot, m.ID, "the member on the seed's own node, last")
	}
	return Decision{}
}

// proxiesTo asks for the proxies until each is as it should be; why names the node.
func proxiesTo(s *State, why string) Decision {
	for _, name := range s.Want.Nodes {
		if n := s.Node(name); n.Proxy.Routed != Yes {
			return do(RouteProxies, fmt.Sprintf(why, name))
		}
	}
	return Decision{}
}

// moveLeader: to the seed node's own member, else to the one that lags least.
func moveLeader(s *State) Decision {
	seed := s.SeedMember()
	if seed == nil || s.Leader != seed.ID {
		return Decision{}
	}
	return moveTo(s, "the seed leads and is about to go", func(m Member) int {
		switch {
		case m.ID == seed.ID:
			return never
		case m.Node == seed.Node:
			return 1
		}
		return 0
	})
}

// never: not a target for leadership.
const never = -1

// moveTo moves leadership to a voter in sync that serves: the highest rank, then
// the lowest lag.
func moveTo(s *State, why string, rank func(Member) int) Decision {
	var fit []Member
	for _, m := range s.Voters() {
		if rank(m) != never && m.Serves == Yes && m.AtIndex == Yes {
			fit = append(fit, m)
		}
	}
	if len(fit) == 0 {
		return refuse(Refusal{Name: "NoTarget", Step: MoveLeader, Wait: true, Cites: "I7", Found: "no member serves at the leader's index", Want: "one"})
	}
	sort.SliceStable(fit, func(i, j int) bool {
		if a, b := rank(fit[i]), rank(fit[j]); a != b {
			return a > b
		}
		return fit[i].Lag < fit[j].Lag
	})
	return doOn(MoveLeader, fit[0].Node, fit[0].Slot, fit[0].ID, why)
}

package pivot

import "fmt"

// Guard says why a step must not be taken in a state, nil where it may.
type Guard func(*State, Step) *Refusal

// Guards by name, in the order they are asked. Each is written apart from the
// rules that choose steps, so that a mistake there meets a second opinion.
var Guards = []struct {
	Name  string
	Guard Guard
}{
	{"NoForeignMember", noForeignMember},
	{"SpecNames", specNames},
	{"SpecWants", specWants},
	{"SameArgs", sameArgsGuard},
	{"EnoughDisk", enoughDisk},
	{"InSync", inSync},
	{"ServesClients", servesClients},
	{"LearnerOnly", learnerOnly},
	{"KeepsQuorum", keepsQuorum},
	{"HashesEqual", hashesEqual},
	{"ProxiesRouted", proxiesRouted},
	{"LeaderElsewhere", leaderElsewhere},
	{"Buried", buried},
	{"NotInUse", notInUse},
	{"KnownIdentity", knownIdentity},
}

// Check asks every guard; the first objection counts.
func Check(s State, step Step) *Refusal {
	for _, g := range Guards {
		if r := g.Guard(&s, step); r != nil {
			r.Name, r.Step = g.Name, step.Kind
			if r.Node == "" {
				r.Node = step.Node
			}
			return r
		}
	}
	return nil
}

func membershipStep(k Kind) bool {
	return k == RegisterLearner || k == PromoteLearner || k == RemoveMember
}

// noForeignMember: no membership step beside a member nobody understands,
// except the removal of exactly that one (etcd-operator#1366).
func noForeignMember(s *State, step Step) *Refusal {
	if !membershipStep(step.Kind) {
		return nil
	}
	for _, m := range s.Members {
		if m.Node == "" && !(step.Kind == RemoveMember && step.ID == m.ID && m.Role == Learner) {
			return &Refusal{Cites: "I4", Found: fmt.Sprintf("member %s %s is nobody's", m.ID, m.URL)}
		}
	}
	return nil
}

// specNames: a driver adds only nodes that the spec names, one member each, and
// one seed in all.
func specNames(s *State, step Step) *Refusal {
	if step.Kind != RegisterLearner {
		return nil
	}
	if !s.Want.Has(step.Node) {
		return &Refusal{Cites: "I1", Found: "the spec does not name it"}
	}
	m := s.MemberOn(step.Node, step.Slot)
	if seed := s.SeedMember(); seed != nil && step.Slot == SeedSlot {
		m = seed
	}
	if m != nil {
		return &Refusal{Cites: "I1", Found: fmt.Sprintf("member %s is there already", m.ID)}
	}
	return nil
}

// specWants: the target says who comes and who goes, whatever a rule believes. A
// member that has no data to start with may go, to be added anew.
func specWants(s *State, step Step) *Refusal {
	m := s.Member(step.ID)
	switch step.Kind {
	case RegisterLearner:
		if s.goes(step.Node, step.Slot) {
			return &Refusal{Cites: "I1", Found: fmt.Sprintf("the spec wants %s, which leaves nothing in the %s slot", s.Want.Target, step.Slot)}
		}
	case PromoteLearner:
		if m != nil && s.goes(m.Node, m.Slot) {
			return &Refusal{Cites: "I7", Found: fmt.Sprintf("the spec wants %s, which has no place for it", s.Want.Target)}
		}
	case StopMember, RemoveMember, WriteTombstone, RestartMember:
		if m != nil && m.Role == Voter && !s.goes(m.Node, m.Slot) {
			return &Refusal{Cites: "I4", Found: fmt.Sprintf("the spec wants %s, and voter %s is part of that", s.Want.Target, m.ID)}
		}
	}
	return nil
}

// sameArgsGuard: --max-learners is checked when the entry is applied, on every
// member; members that disagree panic (I11).
func sameArgsGuard(s *State, step Step) *Refusal {
	if step.Kind != RegisterLearner || len(s.Learners()) == 0 || sameArgs(s) {
		return nil
	}
	return &Refusal{Cites: "I11", Found: "a running member's --max-learners is unknown or not the joiners'", Want: JoinerArgs + " everywhere before a second learner"}
}

// fit is who must be in sync and serve for a step: whoever is promoted or made
// leader; on the way to a seed the seed, before any voter goes.
func fit(s *State, step Step) (id MemberID, asked bool) {
	switch {
	case step.Kind == PromoteLearner || step.Kind == MoveLeader:
		return step.ID, true
	case s.Want.Target == TargetSeed && voterLeaves(s, step):
		if seed := s.SeedMember(); seed != nil {
			return seed.ID, true
		}
		return 0, true
	}
	return 0, false
}

// inSync: no learner is promoted, no leader made, and no member left behind below
// the leader's index (I7).
func inSync(s *State, step Step) *Refusal {
	id, asked := fit(s, step)
	if m := s.Member(id); asked && (m == nil || m.AtIndex != Yes) {
		return &Refusal{Cites: "I7", Found: fmt.Sprintf("member %s is not known to be in sync", id)}
	}
	return nil
}

// servesClients: /version on the peer port is not service (LESSONS "Pivot").
func servesClients(s *State, step Step) *Refusal {
	id, asked := fit(s, step)
	if m := s.Member(id); asked && (m == nil || m.Serves != Yes) {
		return &Refusal{Cites: "I7", Found: fmt.Sprintf("member %s does not serve clients", id)}
	}
	return nil
}

// learnerOnly: a late restart of a voter blocks removals for 5 s and takes a vote away.
func learnerOnly(s *State, step Step) *Refusal {
	if step.Kind != RestartLateMember {
		return nil
	}
	if m := s.Member(step.ID); m == nil || m.Role != Learner {
		return &Refusal{Cites: "I2", Found: fmt.Sprintf("member %s is no learner", step.ID)}
	}
	return nil
}

// keepsQuorum: after the step a majority of the new configuration serves (I2).
func keepsQuorum(s *State, step Step) *Refusal {
	set := map[MemberID]bool{step.ID: true}
	var have, need, of int
	switch step.Kind {
	case PromoteLearner:
		have, need, of = s.quorumWith(nil, nil, set)
	case RemoveMember:
		if m := s.Member(step.ID); m != nil && m.Role == Learner {
			return nil
		}
		have, need, of = s.quorumWith(nil, set, nil)
	case StopMember, RestartMember:
		if m := s.Member(step.ID); m == nil || m.Role != Voter {
			return nil
		}
		have, need, of = s.quorumWith(set, nil, nil)
	default:
		return nil
	}
	if of == 0 || have < need {
		return &Refusal{Cites: "I2", Found: fmt.Sprintf("%d of %d voters would serve", have, of), Want: fmt.Sprintf("at least %d", need)}
	}
	return nil
}

// voterLeaves: a step that takes a voter, or its clients, away.
func voterLeaves(s *State, step Step) bool {
	m := s.Member(step.ID)
	return m != nil && m.Role == Voter && (step.Kind == StopMember || step.Kind == RemoveMember || step.Kind == RestartMember)
}

// hashesEqual: nothing that holds data goes before the others are proved to
// hold it: whom toProve names before a voter goes, every voter before a
// directory that the target has no use for leaves its place.
func hashesEqual(s *State, step Step) *Refusal {
	var ids []MemberID
	switch {
	case voterLeaves(s, step):
		ids = toProve(s)
	case step.Kind == RetireDirectory && (step.Slot == SeedSlot || s.goes(step.Node, step.Slot)):
		ids = voterIDs(s)
	default:
		return nil
	}
	if s.Proof.Differ != "" || len(ids) == 0 || !s.Proof.Has(ids...) {
		return &Refusal{Cites: "I3", Found: orWord(s.Proof.Differ, "no equal hashes of all members at one revision"), Want: "ProveHashes"}
	}
	return nil
}

// proxiesRouted: before a voter goes, every desired node's proxy is proven on one
// that stays, and gives it no new connection.
func proxiesRouted(s *State, step Step) *Refusal {
	if !voterLeaves(s, step) {
		return nil
	}
	if !s.Drains(step.ID) {
		return &Refusal{Cites: "I1", Found: fmt.Sprintf("proxies give member %s new connections", step.ID), Want: "a voter that stays first"}
	}
	for _, name := range s.Want.Nodes {
		if n := s.Node(name); n == nil || n.Proxy.Routed != Yes {
			return &Refusal{Node: name, Cites: "I1", Found: "its proxy is not proven on a voter that stays", Want: "RouteProxies"}
		}
	}
	return nil
}

// leaderElsewhere: a leader hands over before it goes.
func leaderElsewhere(s *State, step Step) *Refusal {
	if !voterLeaves(s, step) {
		return nil
	}
	if m := s.Member(step.ID); m != nil && m.Role == Voter && (s.Leader == step.ID || s.Leader == 0) {
		return &Refusal{Cites: "I2", Found: "it leads, or nobody is known to", Want: "MoveLeader"}
	}
	return nil
}

// buried: a voter is removed only under a durable tombstone.
func buried(s *State, step Step) *Refusal {
	if step.Kind != RemoveMember {
		return nil
	}
	if t := s.Tombstone(step.ID); voterLeaves(s, step) && (t == nil || t.Partial) {
		return &Refusal{Cites: "I8", Found: "no tombstone names it yet", Want: "WriteTombstone"}
	}
	return nil
}

// notInUse: a directory leaves its place only when nothing runs on it and no
// member of the list owns it; no second process on one directory.
func notInUse(s *State, step Step) *Refusal {
	if step.Kind != RetireDirectory && step.Kind != StartMember && step.Kind != StartSeed {
		return nil
	}
	n := s.Node(step.Node)
	if n == nil || n.Agent != Answers {
		return &Refusal{Cites: "I4", Found: "its agent does not answer"}
	}
	sl := n.Slot(step.Slot)
	if sl.Proc != Down || sl.Class == Running {
		return &Refusal{Cites: "I3", Found: "a process runs there, or may"}
	}
	if step.Kind != RetireDirectory {
		return nil
	}
	m := s.Member(sl.ID)
	if !s.ListKnown || (m != nil && sl.Class == Whole) {
		return &Refusal{Cites: "I3", Found: fmt.Sprintf("member %s of the list owns it, or may", sl.ID)}
	}
	return nil
}

// knownIdentity: what starts on nothing was registered and never ran (I9); only
// the seed of a cluster that nobody knows yet needs no entry in a list (I1).
func knownIdentity(s *State, step Step) *Refusal {
	if step.Kind != StartMember && step.Kind != StartSeed {
		return nil
	}
	if sl := s.Node(step.Node).Slot(step.Slot); sl.Class != Absent && sl.Class != Empty {
		return nil
	}
	if step.Kind == StartSeed && step.ID == 0 && !s.Founded && !s.ListKnown {
		return nil
	}
	if m := s.Member(step.ID); m == nil || m.Role != Learner || m.Started == Yes {
		return &Refusal{Cites: "I9", Found: fmt.Sprintf("an empty directory, and member %s is no learner that never started", step.ID), Want: "RegisterLearner"}
	}
	return nil
}

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

// specNames: a driver adds only nodes that the spec names, one member each.
func specNames(s *State, step Step) *Refusal {
	if step.Kind != RegisterLearner {
		return nil
	}
	if !s.Want.Has(step.Node) {
		return &Refusal{Cites: "I1", Found: "the spec does not name it"}
	}
	if m := s.MemberOn(step.Node, MemberSlot); m != nil {
		return &Refusal{Cites: "I1", Found: fmt.Sprintf("member %s is there already", m.ID)}
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

// inSync: no learner is promoted, and no leader made, below the leader's index (I7).
func inSync(s *State, step Step) *Refusal {
	if step.Kind != PromoteLearner && step.Kind != MoveLeader {
		return nil
	}
	if m := s.Member(step.ID); m == nil || m.AtIndex != Yes {
		return &Refusal{Cites: "I7", Found: fmt.Sprintf("member %s is not known to be in sync", step.ID)}
	}
	return nil
}

// servesClients: /version on the peer port is not service (LESSONS "Pivot").
func servesClients(s *State, step Step) *Refusal {
	if step.Kind != PromoteLearner && step.Kind != MoveLeader {
		return nil
	}
	if m := s.Member(step.ID); m == nil || m.Serves != Yes {
		return &Refusal{Cites: "I7", Found: fmt.Sprintf("member %s does not serve clients", step.ID)}
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
	case StopMember:
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

func seedLeaves(s *State, step Step) bool {
	seed := s.SeedMember()
	return seed != nil && seed.ID == step.ID && (step.Kind == StopMember || step.Kind == RemoveMember)
}

// hashesEqual: nothing that holds data goes before the others are proved to
// hold it: all but the seed's own member (and a stopped seed, which cannot
// answer) before it goes, every voter before its directory leaves its place.
func hashesEqual(s *State, step Step) *Refusal {
	var ids []MemberID
	switch {
	case seedLeaves(s, step):
		ids = toProve(s)
	case step.Kind == RetireDirectory && step.Slot == SeedSlot:
		for _, m := range s.Voters() {
			ids = append(ids, m.ID)
		}
	default:
		return nil
	}
	if s.Proof.Differ != "" || len(ids) == 0 || !s.Proof.Has(ids...) {
		return &Refusal{Cites: "I3", Found: orWord(s.Proof.Differ, "no equal hashes of all members at one revision"), Want: "ProveHashes"}
	}
	return nil
}

// proxiesRouted: every desired node's proxy is proven on a managed member.
func proxiesRouted(s *State, step Step) *Refusal {
	if !seedLeaves(s, step) {
		return nil
	}
	for _, name := range s.Want.Nodes {
		if n := s.Node(name); n == nil || n.Proxy.Members != Yes {
			return &Refusal{Node: name, Cites: "I1", Found: "its proxy is not proven on a managed member", Want: "RouteProxies"}
		}
	}
	return nil
}

// leaderElsewhere: a leader hands over before it goes.
func leaderElsewhere(s *State, step Step) *Refusal {
	if step.Kind != StopMember && step.Kind != RemoveMember {
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
	if m := s.Member(step.ID); m != nil && m.Role == Voter && s.Tombstone(step.ID) == nil {
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

package pivot

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// without is the brain's rules less some, by name.
func without(names ...string) []rule { return less(memberRules, names) }

func less(rules []rule, names []string) []rule {
	var out []rule
	for _, r := range rules {
		full := runtime.FuncForPC(reflect.ValueOf(r).Pointer()).Name()
		name := full[strings.LastIndexByte(full, '.')+1:]
		keep := true
		for _, n := range names {
			keep = keep && n != name
		}
		if keep {
			out = append(out, r)
		}
	}
	return out
}

// unguarded decides by rules with no guard asked.
func unguarded(rules []rule) func(State) Decision {
	return func(s State) Decision {
		d := firstOf(&s, rules, "done")
		if d.Step != nil && d.Step.Kind != Done {
			if d2 := mayAct(&s, *d.Step); !d2.silent() {
				return d2
			}
		}
		return d
	}
}

// backWithout goes to members by the real rules, and back without some.
func backWithout(names ...string) func(State) Decision {
	back := unguarded(less(seedRules, names))
	return func(s State) Decision {
		if s.Want.Target == TargetSeed {
			return back(s)
		}
		return Next(s)
	}
}

// onTheWayBack replaces a step of that direction only.
func onTheWayBack(of Kind, f func(State, Step) Decision) func(State) Decision {
	g := instead(of, f)
	return func(s State) Decision {
		if s.Want.Target == TargetSeed {
			return g(s)
		}
		return Next(s)
	}
}

// guarded asks the guards about whatever next decides.
func guarded(next func(State) Decision) func(State) Decision {
	return func(s State) Decision {
		d := next(s)
		if d.Step != nil && d.Step.Kind != Done {
			if r := Check(s, *d.Step); r != nil {
				return refuse(*r)
			}
		}
		return d
	}
}

// instead replaces one step by another.
func instead(of Kind, f func(State, Step) Decision) func(State) Decision {
	return func(s State) Decision {
		if d := Next(s); d.Step == nil || d.Step.Kind != of {
			return d
		} else {
			return f(s, *d.Step)
		}
	}
}

func onSeed(k Kind) func(State, Step) Decision {
	return func(s State, step Step) Decision {
		seed := s.SeedMember()
		if seed == nil {
			return Decision{Step: &step}
		}
		return doOn(k, seed.Node, SeedSlot, seed.ID, "mutant")
	}
}

type mutant struct {
	name string
	next func(State) Decision
	want string // what the walk must find
	// unguardable: no guard stands behind this rule, or it is about liveness.
	unguardable bool
}

var mutants = []mutant{
	{"promote without in sync", unguarded(without("awaitLearners")), "I7", false},
	{"second learner beside other arguments", func(s State) Decision {
		if left := missing(&s); s.ListKnown && len(s.Learners()) > 0 && len(left) > 0 && foreignMembers(&s).silent() && Next(s).Step != nil && irreversible[Next(s).Step.Kind] {
			return doOn(RegisterLearner, left[0], MemberSlot, 0, "mutant")
		}
		return Next(s)
	}, "I11", false},
	{"stop the seed before the others are a quorum", instead(ProveHashes, onSeed(StopMember)), "I8", false},
	{"bury and stop the seed instead of the first promotion", instead(PromoteLearner, func(s State, step Step) Decision {
		if len(s.Tombstones) == 0 {
			return onSeed(WriteTombstone)(s, step)
		}
		return onSeed(StopMember)(s, step)
	}), "I3", false},
	{"remove without a tombstone", instead(WriteTombstone, onSeed(RemoveMember)), "I8", false},
	{"never move leadership", unguarded(without("moveLeader")), "I2", false},
	{"never route", unguarded(without("routeMembers")), "I1", false},
	{"never prove", unguarded(without("proveBeforeLeaving")), "I3", false},
	{"retire unproved", unguarded(without("proveBeforeRetiring")), "I3", false},
	{"silence is consent", unguarded(without("silentNodes", "knownDirectories")), "I4", true},
	{"ignore strangers", unguarded(without("foreignMembers")), "I4", false},
	{"retire instead of start", instead(StartMember, func(s State, step Step) Decision {
		if s.Node(step.Node).Member.Class != Whole {
			return Decision{Step: &step}
		}
		return doOn(RetireDirectory, step.Node, MemberSlot, step.ID, "mutant")
	}), "I3", false},
	{"start twice", func(s State) Decision {
		for _, n := range s.Nodes {
			if d := Next(s); n.Member.Proc == Up && d.Step == nil {
				return doOn(StartMember, n.Name, MemberSlot, n.Member.ID, "mutant")
			}
		}
		return Next(s)
	}, "two processes", false},
	{"start anew on a broken directory", instead(RemoveMember, func(s State, step Step) Decision {
		if step.Slot == MemberSlot && s.Node(step.Node).Member.Class == Part {
			if s.Node(step.Node).Member.Kept {
				return doOn(StopMember, step.Node, MemberSlot, step.ID, "mutant")
			}
			return doOn(RetireDirectory, step.Node, MemberSlot, step.ID, "mutant")
		}
		return Decision{Step: &step}
	}), "I9", true},
	{"restart a voter", instead(ProveHashes, func(s State, step Step) Decision {
		v := s.Voters()[0]
		return doOn(RestartLateMember, v.Node, v.Slot, v.ID, "mutant")
	}), "I2", false},
	{"never promote", instead(PromoteLearner, func(State, Step) Decision {
		return refuse(Refusal{Name: "Mutant", Wait: true})
	}), "liveness: waits", true},
	{"start the parked seed again", instead(RemoveMember, func(s State, step Step) Decision {
		if m := s.SeedMember(); m == nil || !stopped(&s, m) {
			return Decision{Step: &step}
		}
		return onSeed(StartSeed)(s, step)
	}), "liveness: a circle", true},
	{"done too early", unguarded(without("routeAll", "retireLeft")), "done, and", true},
}

var backMutants = []mutant{
	{"promote the seed beside its node's own member", backWithout("ownMemberFirst"), "I2: two voters", true},
	{"promote the seed out of sync", backWithout("awaitLearners"), "I3: a member goes before the seed", false},
	{"never drop learners", backWithout("dropLearners"), "liveness: waits", true},
	{"members go unproved and unrouted", onTheWayBack(ProveHashes, func(s State, step Step) Decision {
		if order := leaveOrder(&s); len(order) > 0 {
			return leave(&s, &order[0], "mutant")
		}
		return Decision{Step: &step}
	}), "I", false},
	{"stop a second member beside a stopped one", onTheWayBack(RemoveMember, func(s State, step Step) Decision {
		for _, m := range leaveOrder(&s) {
			if m.ID != step.ID && m.Serves == Yes {
				return doOn(StopMember, m.Node, m.Slot, m.ID, "mutant")
			}
		}
		return Decision{Step: &step}
	}), "I", false},
	{"remove the seed", onTheWayBack(WriteTombstone, onSeed(RemoveMember)), "I9", false},
	{"bury the seed", onTheWayBack(WithdrawTombstone, func(_ State, step Step) Decision {
		return doOn(FinishTombstone, "", "", step.ID, "mutant")
	}), "I8", true},
	{"never take a tombstone back", backWithout("withdrawTombstones"), "done, and", true},
	{"begin a second cluster", onTheWayBack(RegisterLearner, func(s State, step Step) Decision {
		return doOn(StartSeed, step.Node, SeedSlot, 0, "mutant")
	}), "I9", false},
	{"restart members for ever", onTheWayBack(WriteTombstone, func(s State, step Step) Decision {
		if m := s.Member(step.ID); m.Clients == No && m.Role == Voter {
			return doOn(RestartMember, m.Node, m.Slot, m.ID, "mutant")
		}
		return Decision{Step: &step}
	}), "", true},
	{"leave what they left", backWithout("retireLeft"), "done, and", true},
}

// TestWalkFindsMutants: a walk that cannot fail proves nothing. Each broken
// brain is caught with its trace; with the guards in place those that a guard
// stands behind do no harm (they may still get stuck).
func TestWalkFindsMutants(t *testing.T) {
	for i, m := range append(mutants, backMutants...) {
		t.Run(m.name, func(t *testing.T) {
			walkMutant := walkMutant
			if i >= len(mutants) {
				walkMutant = walkBackMutant
			}
			g := walkMutant(m.next, m.name)
			if g.bad == nil || !strings.HasPrefix(g.bad.why, m.want) {
				t.Fatalf("want a violation of %q, found %+v after %s", m.want, g.bad, g.report())
			}
			if !strings.Contains(g.complaint(), "WriteSpec") {
				t.Fatalf("no trace:\n%s", g.complaint())
			}
			t.Log(g.bad.why + " => " + g.bad.do)
			if m.unguardable {
				return
			}
			g = walkMutant(guarded(m.next), m.name)
			if g.bad != nil && !strings.HasPrefix(g.bad.why, "liveness") && !strings.HasPrefix(g.bad.why, "done") {
				t.Fatalf("the guards let through:\n%s", g.complaint())
			}
		})
	}
}

// walkMutant on two nodes, first without an accident, for the shorter trace.
func walkMutant(next func(State) Decision, name string) (g *walk) {
	for faults := range uint8(2) {
		g = newWalk(2, next)
		var roots []world
		for _, w := range pivotRoots(2, faults, []Class{Absent}) {
			if w.args == 0 || strings.Contains(name, "arguments") {
				roots = append(roots, w)
			}
		}
		if g.run(roots); g.bad == nil {
			g.longest()
		}
		if g.bad != nil {
			return g
		}
	}
	return g
}

// walkBackMutant on three nodes, coarse, from where a pivot ends, with a turn at any point.
func walkBackMutant(next func(State) Decision, _ string) *walk {
	g := coarse(turning(3))
	g.next = next
	if g.run(turningRoots(3, 0)[:1]); g.bad == nil {
		g.longest()
	}
	return g
}

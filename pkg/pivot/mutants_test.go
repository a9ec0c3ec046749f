package pivot

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// without is the brain's rules less some, by name.
func without(names ...string) []rule {
	var out []rule
	for _, r := range memberRules {
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

var mutants = []struct {
	name string
	next func(State) Decision
	want string // what the walk must find
	// unguardable: no guard stands behind this rule, or it is about liveness.
	unguardable bool
}{
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
		if m := s.SeedMember(); m == nil || !seedStopped(&s, m) {
			return Decision{Step: &step}
		}
		return onSeed(StartSeed)(s, step)
	}), "liveness: a circle", true},
	{"done too early", unguarded(without("routeWithoutSeed", "retireSeed")), "done, and", true},
}

// TestWalkFindsMutants: a walk that cannot fail proves nothing. Each broken
// brain is caught with its trace; with the guards in place those that a guard
// stands behind do no harm (they may still get stuck).
func TestWalkFindsMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
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
		g = newWalk(2, TargetMembers, next)
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

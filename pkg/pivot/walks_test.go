package pivot

import (
	"slices"
	"testing"
	"time"
)

// classesOfAMember are the directories that may lie in a member's place before a pivot.
var classesOfAMember = []Class{Absent, Empty, Whole, Part, Foreign, Older}

// pivotRoots are the beginnings of a pivot: the seed runs; each node answers or
// is silent, each member directory is of each class, the grant is held or not.
func pivotRoots(n int, faults uint8, classes []Class) []world {
	base := world{known: true, leader: seedIx, faults: faults, seed: wetcd{dir: Whole, mine: true, proc: wServing, role: Voter, named: true, sync: true, ran: true}}
	roots := []world{base}
	for i := 0; i < n; i++ {
		var more []world
		for _, w := range roots {
			for _, c := range classes {
				for _, silent := range []bool{false, true} {
					x := w
					x.node[i].m.dir, x.node[i].silent = c, silent
					more = append(more, x)
				}
			}
		}
		roots = more
	}
	var out []world
	for _, w := range roots {
		for _, grant := range []bool{false, true} {
			for args := range uint8(2) {
				x := w
				x.grant, x.args = grant, args
				out = append(out, x)
			}
		}
	}
	return out
}

// turningRoots: all nodes answer and nothing lies in the members' places.
func turningRoots(n int, faults uint8) (out []world) {
	for _, w := range pivotRoots(n, faults, []Class{Absent}) {
		silent := false
		for i := range w.node {
			silent = silent || w.node[i].silent
		}
		if !silent && w.args == 0 {
			out = append(out, w)
		}
	}
	return out
}

func runWalk(t *testing.T, g *walk, roots []world) {
	t.Helper()
	start := time.Now()
	g.run(roots)
	var route []string
	if g.bad == nil {
		route = g.longest()
	}
	t.Logf("%s; %.1f s", g.report(), time.Since(start).Seconds())
	if g.bad != nil {
		t.Fatal(g.complaint())
	}
	if g.ends["Done"] == 0 {
		t.Fatal("no end is Done")
	}
	if testing.Verbose() {
		t.Log("the longest route:")
		for _, r := range route {
			t.Log("  " + r)
		}
	}
}

func TestWalkOneNode(t *testing.T) {
	runWalk(t, newWalk(1, Next), pivotRoots(1, 2, classesOfAMember))
}

func TestWalkTwoNodes(t *testing.T) {
	runWalk(t, newWalk(2, Next), pivotRoots(2, 1, classesOfAMember))
}

func TestWalkThreeNodes(t *testing.T) {
	runWalk(t, newWalk(3, Next), pivotRoots(3, 1, classesOfAMember))
}

// turning: from the beginnings of a pivot, a person may turn round at any point,
// any number of times.
func turning(n int) *walk {
	g := newWalk(n, Next)
	g.turns = true
	return g
}

func TestWalkTurningOneNode(t *testing.T) {
	runWalk(t, turning(1), pivotRoots(1, 2, []Class{Absent, Whole, Part}))
}

func TestWalkTurningTwoNodes(t *testing.T) {
	runWalk(t, turning(2), turningRoots(2, 0))
}

// TestWalkTurningThreeNodes is coarse; `make sweep` walks it in full.
func TestWalkTurningThreeNodes(t *testing.T) {
	runWalk(t, coarse(turning(3)), turningRoots(3, 0))
}

// coarse is one order of nodes, and settings over all nodes reach all or none.
func coarse(g *walk) *walk {
	g.views = g.views[:1]
	g.views[0].coarse = true
	return g
}

// seedRoots are the beginnings of an install: no cluster yet, and whatever lies
// in the seed's place.
func seedRoots(faults uint8) []world {
	var out []world
	for _, c := range classesOfAMember {
		for _, silent := range []bool{false, true} {
			w := world{back: true, leader: nobody, faults: faults, seed: wetcd{dir: c}}
			w.node[0].silent, w.node[0].m.dir = silent, Absent
			if c == Whole { // init was run before, and the power went
				w.known = true
				w.seed = wetcd{dir: c, mine: true, role: Voter, named: true, ran: true}
			}
			out = append(out, w)
		}
	}
	return out
}

func TestWalkSeed(t *testing.T) {
	runWalk(t, newWalk(1, Next), seedRoots(2))
}

// TestApplyIsTheTruth: the forecast of a step is what a look shows after the
// step worked, in every world of a walk whose nodes all answer and whose
// proxies admit.
func TestApplyIsTheTruth(t *testing.T) {
	g := turning(2)
	g.run(turningRoots(2, 0))
	v, compared := g.views[0], 0
	for _, k := range g.keys {
		w := k.world(2)
		s := v.observe(&w)
		d := Next(s)
		if d.Step != nil && d.Step.Kind == RegisterLearner && d.Step.Slot == SeedSlot {
			continue // another ID than the walk's
		}
		if d.Step == nil || d.Step.Kind == Done || w.node[0].silent || w.node[1].silent || w.node[0].deaf || w.node[1].deaf {
			continue
		}
		to := v.perform(w, *d.Step)
		want, got := v.observe(&to), Apply(s, *d.Step)
		if same(&want, &got); want.String() != got.String() {
			t.Fatalf("%s\nApply says\n%sthe world\n%s", d.Step, got, want)
		}
		compared++
	}
	if compared < 1000 {
		t.Fatalf("only %d worlds compared", compared)
	}
}

// same evens out what a step alone does not decide: when a started process
// answers its peers and with which arguments, what a removed one's directory is called, who proved what
// is no longer listed.
func same(states ...*State) {
	for _, s := range states {
		s.Want.Forget = nil
		for i := range s.Nodes {
			for _, sl := range []*Slot{&s.Nodes[i].Member, &s.Nodes[i].Seed} {
				if sl.Proc == Serving && s.Member(sl.ID) == nil {
					sl.Proc = Up
				}
				if sl.Proc == Up {
					sl.PeerUp = Unknown
				}
				sl.Args, sl.Assigned, sl.Kept, sl.LateRestarted = "", 0, false, false
				if sl.Class == Part {
					sl.ID = 0
				}
				if sl.Class == Absent || sl.Class == Empty {
					sl.Parked = false
				}
			}
		}
		for i := range s.Members {
			m := &s.Members[i]
			m.Lag, m.Late, m.Clients, m.Settled = 0, Unknown, Unknown, Unknown
			if m.Serves != Yes {
				m.AtIndex = Unknown
			}
		}
		s.Tombstones = slices.DeleteFunc(s.Tombstones, func(t Tombstone) bool { return t.Final })
		var keep []MemberID
		for _, id := range s.Proof.Members {
			if s.Member(id) != nil {
				keep = append(keep, id)
			}
		}
		s.Proof.Members = keep
	}
}

package pivot

import (
	"testing"
	"time"
)

// classesOfAMember are the directories that may lie in a member's place before a pivot.
var classesOfAMember = []Class{Absent, Empty, Whole, Part, Foreign, Older}

// pivotRoots are the beginnings of a pivot: the seed runs; each node answers or
// is silent, each member directory is of each class, the grant is held or not.
func pivotRoots(n int, faults uint8, classes []Class) []world {
	base := world{leader: seedIx, faults: faults, seed: wetcd{dir: Whole, mine: true, proc: wServing, role: Voter, named: true, sync: true, ran: true}}
	base.node[0].namesSeed = true
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
	if testing.Verbose() {
		t.Log("the longest route:")
		for _, r := range route {
			t.Log("  " + r)
		}
	}
}

func TestWalkOneNode(t *testing.T) {
	runWalk(t, newWalk(1, TargetMembers, Next), pivotRoots(1, 2, classesOfAMember))
}

func TestWalkTwoNodes(t *testing.T) {
	runWalk(t, newWalk(2, TargetMembers, Next), pivotRoots(2, 2, classesOfAMember))
}

func TestWalkThreeNodes(t *testing.T) {
	runWalk(t, newWalk(3, TargetMembers, Next), pivotRoots(3, 1, classesOfAMember))
}

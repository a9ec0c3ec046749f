//go:build cases || sweep

package cases

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// unpivotArgs are the words of `bootstrap unpivot` from cp-1 to node i.
func unpivotArgs(l *rig.Lab, i int) []string {
	return []string{"unpivot", "--state-dir", l.Nodes[0].StateDir(), "--log-level", "warn", "--to", l.Nodes[i].Name}
}

func ran(t *testing.T, l *rig.Lab, args []string) rig.Ran {
	t.Helper()
	r := l.Run(args...)
	if r.Code != 0 {
		t.Fatalf("%s: %s", args[0], r)
	}
	return r
}

// The driver of an unpivot is killed with SIGKILL after every step in turn and
// started again: one seed in the end, every acknowledged write there.
func TestUnpivotKilledAfterEveryStepInTurn(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 12*time.Minute)
	ran(t, l, l.PivotArgs(0))
	rig.Must(t, lab.Fill(ctx, l.Client(0), "/fill", 5))
	w, err := lab.StartWriters(ctx, l.Nodes[2], 4, "/load")
	rig.Must(t, err)
	defer w.Stop()
	seen, killed, kills := map[string]int{}, map[string]bool{}, 0
	for ended := false; !ended; {
		var steps []string
		steps, ended = runUntil(t, l, unpivotArgs(l, 1), func(step string) bool {
			// A new driver begins with the grant and proves anew; killed there each
			// time, none would come further.
			phase := kindOf(step)
			switch phase {
			case "TakeGrant", "WriteSpec", "ProveHashes":
				phase += strings.Repeat("+", seen["RemoveMember"])
				if killed[phase] {
					return false
				}
			}
			killed[phase] = true
			return true
		})
		for _, s := range steps {
			seen[kindOf(s)]++
		}
		if !ended {
			kills++
		}
		if kills > 80 {
			t.Fatalf("killed %d times and never done; steps %v", kills, seen)
		}
	}
	w.Stop()
	t.Logf("killed %d times; steps %v", kills, seen)
	for _, k := range []string{"TakeGrant", "RegisterLearner", "StartSeed", "PromoteLearner", "ProveHashes", "RouteProxies", "MoveLeader", "RestartMember",
		"WriteTombstone", "StopMember", "RemoveMember", "FinishTombstone", "RetireDirectory"} {
		if seen[k] == 0 {
			t.Errorf("no driver was killed after %s", k)
		}
	}
	if seen["RemoveMember"] != 3 || kills < 20 {
		t.Errorf("%d removals, %d kills", seen["RemoveMember"], kills)
	}
	l.CheckUnpivoted(ctx, "cp-2")
	noneLost(ctx, t, l, w)
}

// turnRound kills the driver of one direction after its n-th step and goes the
// other way to the end. It returns that step, empty where the first run was over
// before; then nothing was turned.
func turnRound(t *testing.T, l *rig.Lab, there, back []string, n int) string {
	t.Helper()
	count := 0
	steps, ended := runUntil(t, l, there, func(string) bool { count++; return count == n })
	if ended {
		return ""
	}
	r := ran(t, l, back)
	t.Logf("%s killed after %s, then %s: %s", there[0], steps[len(steps)-1], back[0], lastLine(r.Stdout))
	return steps[len(steps)-1]
}

func lastLine(s string) string {
	rows := strings.Split(strings.TrimSpace(s), "\n")
	return rows[len(rows)-1]
}

// A person changes their mind half way, in both directions, under writers: each
// run goes on from what it finds, and neither write nor node is lost.
func TestTurnRoundHalfWay(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 12*time.Minute)
	w, err := lab.StartWriters(ctx, l.Nodes[0], 4, "/load")
	rig.Must(t, err)
	defer w.Stop()
	pivot := l.PivotArgs(0)
	for _, n := range []int{5, 13, 18} { // among learners, among voters, when the seed is going
		if turnRound(t, l, pivot, unpivotArgs(l, 0), n) == "" {
			t.Errorf("a pivot has no %d steps", n)
		}
		l.CheckUnpivoted(ctx, "cp-1")
	}
	ran(t, l, pivot)
	l.CheckMembers(ctx)
	for _, n := range []int{4, 9, 12, 20} { // a learner, its node's member gone, the seed a voter, the next gone
		if turnRound(t, l, unpivotArgs(l, 1), pivot, n) == "" {
			t.Errorf("an unpivot has no %d steps", n)
		}
		l.CheckMembers(ctx)
	}
	w.Stop()
	noneLost(ctx, t, l, w)
}

// sweepTurns turns round after each step, in one direction and then the other.
func sweepTurns(t *testing.T) {
	t.Parallel()
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 40*time.Minute)
	w, err := lab.StartWriters(ctx, l.Nodes[0], 2, "/load")
	rig.Must(t, err)
	defer w.Stop()
	pivot := l.PivotArgs(0)
	for n := 1; turnRound(t, l, pivot, unpivotArgs(l, 0), n) != ""; n++ {
		l.CheckUnpivoted(ctx, "cp-1")
	}
	for n := 1; turnRound(t, l, unpivotArgs(l, 2), pivot, n) != ""; n++ {
		l.CheckMembers(ctx)
	}
	w.Stop()
	noneLost(ctx, t, l, w)
}

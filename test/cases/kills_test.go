//go:build cases || sweep

package cases

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// pivotUntil is runUntil of `bootstrap pivot`.
func pivotUntil(t *testing.T, l *rig.Lab, kill func(step string) bool) (steps []string, ended bool) {
	t.Helper()
	return runUntil(t, l, l.PivotArgs(0), kill)
}

// runUntil runs the binary as a process and SIGKILLs it as soon as it printed a
// step for which kill says so. It returns the steps seen, and whether the run
// came to its own end.
func runUntil(t *testing.T, l *rig.Lab, args []string, kill func(step string) bool) (steps []string, ended bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.Binary, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	rig.Must(t, err)
	rig.Must(t, cmd.Start())
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		step := stepOf(sc.Text())
		if step == "" {
			continue
		}
		steps = append(steps, step)
		if kill(step) {
			rig.Must(t, cmd.Process.Signal(syscall.SIGKILL))
			_ = cmd.Wait() // killed is what we want
			return steps, false
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v after %v\n%s", args[0], err, steps, errs.String())
	}
	return steps, true
}

// stepOf reads "   0.52 s  RegisterLearner cp-1/member: why (0.02 s)".
func stepOf(line string) string {
	_, rest, ok := strings.Cut(line, " s  ")
	if !ok || !strings.HasSuffix(line, " s)") {
		return ""
	}
	step, _, ok := strings.Cut(rest, ": ")
	if !ok {
		return ""
	}
	return step
}

func kindOf(step string) string { return strings.Fields(step)[0] }

// The driver is killed with SIGKILL after every step in turn and started again:
// the same end state, every acknowledged write there.
func TestDriverKilledAfterEveryStepInTurn(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 8*time.Minute)
	rig.Must(t, lab.Fill(ctx, l.Client(0), "/fill", 5))
	w, err := lab.StartWriters(ctx, l.Nodes[0], 4, "/load")
	rig.Must(t, err)
	defer w.Stop()
	seen, killed := map[string]int{}, map[string]bool{}
	kills := 0
	for ended := false; !ended; {
		var steps []string
		steps, ended = pivotUntil(t, l, func(step string) bool {
			// A new driver begins with the grant and proves anew; killed there each
			// time, none would come further.
			k := kindOf(step)
			phase := k + map[bool]string{true: " after the removal"}[seen["RemoveMember"] > 0]
			again := k == "TakeGrant" || k == "WriteSpec" || k == "ProveHashes"
			if again && killed[phase] {
				return false
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
		if kills > 60 {
			t.Fatalf("killed %d times and never done; steps %v", kills, seen)
		}
	}
	w.Stop()
	t.Logf("killed %d times; steps %v", kills, seen)
	for _, k := range []string{"TakeGrant", "RegisterLearner", "StartMember", "PromoteLearner", "ProveHashes", "RouteProxies", "MoveLeader", "StopMember", "RemoveMember", "RetireDirectory"} {
		if seen[k] == 0 {
			t.Errorf("no driver was killed after %s", k)
		}
	}
	if kills < 15 {
		t.Errorf("only %d kills", kills)
	}
	l.CheckPivoted(ctx)
	noneLost(ctx, t, l, w)
}

func noneLost(ctx context.Context, t *testing.T, l *rig.Lab, w *lab.Writers) {
	t.Helper()
	ok, failed, errs := w.Counts()
	lost, err := w.Lost(ctx, l.Client(0))
	rig.Must(t, err)
	t.Logf("%d writes acknowledged, %d failed: %v", ok, failed, errs)
	if len(lost) > 0 || ok == 0 {
		t.Errorf("acknowledged writes lost: %v", lost)
	}
}

// Each step alone: a fresh pivot, one kill after the k-th step, then to the end.
func sweepKills(t *testing.T) {
	total := 1
	for k := 1; k <= total; k++ {
		t.Run(fmt.Sprintf("step-%02d", k), func(t *testing.T) {
			l := rig.Up(t, 3)
			ctx := rig.Context(t, 3*time.Minute)
			w, err := lab.StartWriters(ctx, l.Nodes[0], 4, "/load")
			rig.Must(t, err)
			defer w.Stop()
			n := 0
			steps, ended := pivotUntil(t, l, func(string) bool { n++; return n == k })
			if !ended {
				total = k + 1
				t.Logf("killed after %s", steps[len(steps)-1])
				_, _ = pivotUntil(t, l, func(string) bool { return false })
			}
			w.Stop()
			l.CheckPivoted(ctx)
			noneLost(ctx, t, l, w)
		})
	}
}

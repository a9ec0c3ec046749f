//go:build cases || sweep

package cases

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// drive pivots from node i by a driver of this process, so that something can
// happen exactly between two steps: after is called when the n-th step (from 1)
// worked, and the driver goes on when it returns. It returns the steps.
func drive(ctx context.Context, t *testing.T, l *rig.Lab, i int, after func(n int, step pivot.Step)) []string {
	t.Helper()
	var steps []string
	d, release, err := l.Nodes[i].Driver("pivot", driver.Config{Nodes: l.Refs(), AfterStep: func(s pivot.Step) error {
		steps = append(steps, s.String())
		after(len(steps), s)
		return nil
	}})
	rig.Must(t, err)
	defer release()
	if _, err := d.Run(ctx, wire.Spec{Target: wire.TargetMembers, Nodes: l.Refs()}, nil); err != nil {
		t.Fatalf("pivot: %v after %s", err, strings.Join(steps, ", "))
	}
	return steps
}

// load starts four writers through the first node's proxy.
func load(ctx context.Context, t *testing.T, l *rig.Lab) *lab.Writers {
	t.Helper()
	w, err := lab.StartWriters(ctx, l.Nodes[0], 4, "/load")
	rig.Must(t, err)
	t.Cleanup(w.Stop)
	return w
}

// finish ends every case: the same command once more, then the end state of a
// pivot, and every acknowledged write there.
func finish(ctx context.Context, t *testing.T, l *rig.Lab, w *lab.Writers) {
	t.Helper()
	w.Stop()
	rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatalf("the same command again: %s", r)
	}
	l.CheckPivoted(ctx)
	noneLost(ctx, t, l, w)
}

// accident is something that happens to processes between two steps; what it
// leaves to be undone (a pause, a power loss) undoes itself, and wait waits for that.
type accident struct {
	name string
	do   func(t *testing.T, l *rig.Lab, wait *sync.WaitGroup)
}

// agentDies: SIGKILL, and started again at once, as its supervisor would.
func agentDies(i int) accident {
	return accident{fmt.Sprintf("agent of cp-%d", i+1), func(t *testing.T, l *rig.Lab, _ *sync.WaitGroup) {
		rig.Must(t, l.Nodes[i].Kill("agent"))
		rig.Must(t, l.Nodes[i].StartAgent())
	}}
}

// dies: SIGKILL to a slot's process, if there is one; its agent starts it again.
func dies(i int, which string) accident {
	return accident{fmt.Sprintf("%s of cp-%d", which, i+1), func(t *testing.T, l *rig.Lab, _ *sync.WaitGroup) {
		rig.Must(t, l.Nodes[i].Kill(which))
	}}
}

// losesPower: SIGKILL to everything of a node; its agent is started again later.
func losesPower(i int, dark time.Duration) accident {
	return accident{fmt.Sprintf("power of cp-%d", i+1), func(t *testing.T, l *rig.Lab, wait *sync.WaitGroup) {
		n := l.Nodes[i]
		rig.Must(t, n.Kill("agent")) // first, so that it starts nothing again
		rig.Must(t, n.Kill("all"))
		wait.Go(func() {
			time.Sleep(dark)
			if err := n.StartAgent(); err != nil {
				t.Errorf("power on: %v", err)
			}
		})
	}}
}

// pausedFor: SIGSTOP, and SIGCONT later, to a slot's process, if there is one.
func pausedFor(i int, which string, pause time.Duration) accident {
	return accident{fmt.Sprintf("%s of cp-%d paused", which, i+1), func(t *testing.T, l *rig.Lab, wait *sync.WaitGroup) {
		n := l.Nodes[i]
		if n.Signal(which, syscall.SIGSTOP) != nil {
			return // nobody there to pause
		}
		wait.Go(func() {
			time.Sleep(pause)
			_ = n.Signal(which, syscall.SIGCONT) // ended meanwhile is as good
		})
	}}
}

// inTurn pivots once; pick names the accident after each step.
func inTurn(t *testing.T, l *rig.Lab, from int, pick func(n int, step pivot.Step) *accident) []string {
	t.Helper()
	ctx := rig.Context(t, 5*time.Minute)
	w := load(ctx, t, l)
	var wait sync.WaitGroup
	steps := drive(ctx, t, l, from, func(n int, step pivot.Step) {
		if a := pick(n, step); a != nil {
			t.Logf("after step %d, %s: %s", n, step, a.name)
			a.do(t, l, &wait)
		}
	})
	wait.Wait()
	finish(ctx, t, l, w)
	return steps
}

// count of steps that begin with prefix.
func count(steps []string, prefix string) int {
	n := 0
	for _, s := range steps {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

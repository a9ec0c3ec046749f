//go:build cases || sweep

package cases

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// Two drivers at once, from two nodes: one drives, the other waits and says for
// whom, and finds everything done.
func TestTwoDriversAtOnce(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 3*time.Minute)
	w, err := lab.StartWriters(ctx, l.Nodes[0], 4, "/load")
	rig.Must(t, err)
	var wg sync.WaitGroup
	var ran [2]rig.Ran
	for i := range ran {
		wg.Go(func() { ran[i] = l.Run(l.PivotArgs(i)...) })
	}
	wg.Wait()
	w.Stop()
	waited := false
	for i, r := range ran {
		if r.Code != 0 {
			t.Errorf("driver %d: %s", i, r)
		}
		waited = waited || strings.Contains(r.Stdout, "GrantHeld") && strings.Contains(r.Stdout, "pivot on cp-")
	}
	if !waited {
		t.Errorf("no driver said for whom it waits:\n%s\n%s", ran[0], ran[1])
	}
	l.CheckPivoted(ctx)
	noneLost(ctx, t, l, w)
	// Every step was done by one driver alone: each removal and promotion stands once in the journals.
	entries := map[string]int{}
	for _, n := range l.Nodes {
		for _, e := range journal(ctx, t, l, n) {
			if e.Outcome == "ok" && (e.Step == "RemoveMember" || e.Step == "MoveLeader") {
				entries[e.Step]++
			}
		}
	}
	if entries["RemoveMember"] != 1 || entries["MoveLeader"] != 1 {
		t.Errorf("done more than once: %v", entries)
	}
}

func agents(t *testing.T, l *rig.Lab) *agentclient.Client {
	t.Helper()
	tc, err := pki.ClientConfig(l.Nodes[0].PKIDir(), pki.RoleDriver)
	rig.Must(t, err)
	c := agentclient.NewClient(tc, wire.DefaultPorts.Agent)
	t.Cleanup(c.Close)
	return c
}

func journal(ctx context.Context, t *testing.T, l *rig.Lab, n *lab.Node) []wire.JournalEntry {
	t.Helper()
	j, err := agents(t, l).Journal(ctx, n.Ref.Address, 1000)
	rig.Must(t, err)
	return j.Entries
}

// Two processes with one state directory: the second is told who holds it.
// Then grants: late at one agent alone, and with equal numbers.
func TestGrants(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 3*time.Minute)
	c := agents(t, l)

	t.Run("two processes with one state directory", func(t *testing.T) {
		d, release, err := l.Nodes[0].Driver("first", driverConfig(l))
		rig.Must(t, err)
		defer release()
		_ = d
		r := l.Run(l.PivotArgs(0)...)
		if r.Code != 3 || !strings.Contains(r.Stderr, "DriverRunning") || !strings.Contains(r.Stderr, "pid") {
			t.Errorf("the second: %s", r)
		}
		if r := l.Run("agent", "--state-dir", l.Nodes[0].StateDir()); r.Code == 0 || !strings.Contains(r.Stderr, "pid") {
			t.Errorf("a second agent on the same state: %s", r)
		}
	})

	spec := wire.Spec{V: wire.V, Epoch: 1, Target: wire.TargetMembers, Nodes: l.Refs(), Ports: wire.DefaultPorts}
	take := func(n *lab.Node, driver string, number uint64) *wire.Refusal {
		v := l.Look(ctx)
		_, err := c.GrantTake(ctx, n.Ref.Address, wire.GrantRequest{Driver: driver, DriverName: driver, Number: number, Round: 1, TTLMillis: 10000, Epoch: v.Epoch, Spec: spec})
		if r := agentclient.AsRefusal(err); r != nil {
			return r
		}
		rig.Must(t, err)
		return nil
	}

	t.Run("equal numbers", func(t *testing.T) {
		if r := take(l.Nodes[1], "stranger-a", 41); r != nil {
			t.Fatalf("a free agent refused: %v", r)
		}
		rig.Must(t, c.GrantDrop(ctx, l.Nodes[1].Ref.Address, wire.Act{Driver: "stranger-a", Number: 41, Round: 1, Epoch: 1}))
		if r := take(l.Nodes[1], "stranger-b", 41); r == nil {
			t.Error("the same number was granted to a second holder")
		}
		if r := take(l.Nodes[1], "stranger-b", 40); r == nil {
			t.Error("a lower number was granted")
		}
	})

	t.Run("late at one agent alone", func(t *testing.T) {
		if r := take(l.Nodes[2], "stranger-late", 77); r != nil {
			t.Fatalf("a free agent refused: %v", r)
		}
		// A majority of agents is free: the driver goes above the stray number there.
		if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
			t.Fatal(r)
		}
		l.CheckPivoted(ctx)
		for _, n := range l.Nodes[:2] {
			f, err := c.Fence(ctx, n.Ref.Address)
			rig.Must(t, err)
			if f.Number <= 77 {
				t.Errorf("%s: number %d, must be above the stray 77", n.Name, f.Number)
			}
		}
	})
}

// One of three nodes unreachable: refused, by name; nothing is changed.
func TestOneNodeUnreachable(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 2*time.Minute)
	rig.Must(t, l.Nodes[2].Kill("agent"))
	r := l.Run(l.PivotArgs(0)...)
	if r.Code != 3 || !strings.Contains(r.Stderr, "NodeSilent") || !strings.Contains(r.Stderr, "cp-3") || strings.Contains(r.Stderr, "cp-2") {
		t.Errorf("want exit 3 and NodeSilent for cp-3 alone: %s", r)
	}
	if v := l.Look(ctx); len(v.Members) != 1 || v.Spec.Target != wire.TargetSeed {
		t.Errorf("something was changed: %+v, target %s", v.Members, v.Spec.Target)
	}
	rig.Must(t, l.Nodes[2].StartAgent())
	rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatal(r)
	}
	l.CheckPivoted(ctx)
}

//go:build cases || sweep

package cases

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// withClock ends the node's agent and runs one in this process whose clock is
// off; the children are the real binary's.
func withClock(t *testing.T, l *rig.Lab, n *lab.Node, off time.Duration) {
	t.Helper()
	rig.Must(t, n.Kill("agent"))
	path := n.Identity().State(wire.FileIdentity)
	id := n.Identity()
	rig.Must(t, json.Unmarshal(must(os.ReadFile(path)), &id))
	id.Binary = l.Binary
	rig.Must(t, os.WriteFile(path, must(json.Marshal(id)), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- agent.Run(ctx, agent.Config{StateDir: n.StateDir(), Logger: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return time.Now().Add(off) }, Ready: func() { close(ready) }})
	}()
	t.Cleanup(func() { // before the lab kills who holds the locks
		cancel()
		if err := <-done; err != nil {
			t.Errorf("agent of %s: %v", n.Name, err)
		}
	})
	select {
	case <-ready:
	case <-time.After(20 * time.Second):
		t.Fatalf("the agent of %s is not ready", n.Name)
	}
}

// The hands of two nodes have clocks two hours off, one each way (the machine's
// own clock is left alone). Grants and steps do not care; a certificate that is
// not valid by the node's clock is refused as what it is, a matter of clocks;
// the journals carry each node's own time.
func TestClocksTwoHoursOff(t *testing.T) {
	l := rig.New(t, 3)
	ctx := rig.Context(t, 3*time.Minute)
	// A CA that is old enough for certificates that a slow clock takes.
	first := l.Nodes[0]
	_, _, err := pki.EnsureNode(pki.Params{PKIDir: first.PKIDir(), Node: first.Ref, ProxyAddresses: pki.ProxyAddresses(l.Refs()),
		DialAddresses: []string{"127.0.0.1"}, Now: func() time.Time { return time.Now().Add(-5 * time.Hour) }})
	rig.Must(t, err)
	rig.Must(t, l.Init(ctx))
	for _, n := range l.Nodes[1:] {
		rig.Must(t, l.Join(n))
	}
	rig.Must(t, l.AwaitSeed(ctx))
	rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	fast, slow := l.Nodes[1], l.Nodes[2]
	withClock(t, l, fast, 2*time.Hour)
	withClock(t, l, slow, -2*time.Hour)
	rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))

	// Bundles are backdated by one hour.
	pivotRefused(ctx, t, l, "NodeUnfit", "cp-3", "not yet valid: valid from", "this clock says", "check the clocks")
	swap(t, slow, made(t, l, slow, false, func(p *pki.Params) { p.Now = func() time.Time { return time.Now().Add(-3 * time.Hour) } }), false,
		pki.Server, pki.Peer, pki.HealthcheckClient)

	w, err := lab.StartWriters(ctx, first, 4, "/load")
	rig.Must(t, err)
	defer w.Stop()
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 || strings.Contains(r.Stdout, "GrantHeld") {
		t.Fatal(r)
	}
	w.Stop()
	l.CheckPivoted(ctx)
	noneLost(ctx, t, l, w)
	for n, off := range map[*lab.Node]time.Duration{first: 0, fast: 2 * time.Hour, slow: -2 * time.Hour} {
		es := journal(ctx, t, l, n)
		last := es[len(es)-1]
		if d := last.Time.Sub(time.Now().Add(off)); d > time.Second || d < -2*time.Minute {
			t.Errorf("%s: the last entry, %s, is %s from its clock", n.Name, last.Step, d)
		}
		for i := 1; i < len(es); i++ {
			if es[i].Step != "AgentStart" && es[i].Seq != es[i-1].Seq+1 {
				t.Errorf("%s: entry %d follows %d", n.Name, es[i].Seq, es[i-1].Seq)
			}
		}
	}
}

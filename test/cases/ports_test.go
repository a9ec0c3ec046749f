//go:build cases || sweep

package cases

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// Each port of a node is another process's: who holds it is named, nothing is
// begun, and once it is free everything goes on. The same under a member that
// was up before.
func TestPortsTaken(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 3*time.Minute)
	me := fmt.Sprintf("pid %d (", os.Getpid())
	second, third := l.Nodes[1], l.Nodes[2]

	for name, port := range map[string]int{"client": 2379, "peer": 2380, "metrics": 2381} {
		t.Run(name, func(t *testing.T) {
			addr := second.Ref.HostPort(port)
			release := hold(t, addr)
			pivotRefused(ctx, t, l, "NodeUnfit", "cp-2", addr, me)
			statusSays(t, l, "no member can start here", addr, me)
			release()
		})
	}
	t.Run("agent", func(t *testing.T) {
		rig.Must(t, second.Kill("agent"))
		release := hold(t, second.Ref.HostPort(2382))
		if r := l.Run("agent", "--state-dir", second.StateDir()); r.Code != 1 || !strings.Contains(r.Stderr, me) || !strings.Contains(r.Stderr, "2382") {
			t.Errorf("want exit 1, naming %s: %s", me, r)
		}
		release()
		rig.Must(t, second.StartAgent())
		rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	})
	t.Run("proxy", func(t *testing.T) {
		addr := net.JoinHostPort(third.Ref.Proxy(), "2379")
		rig.Must(t, third.Kill("agent"))
		rig.Must(t, third.Kill("proxy"))
		release := hold(t, addr)
		rig.Must(t, third.StartAgent())
		rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
		statusSays(t, l, "cp-3", "it is down", addr, me)
		pivotRefused(ctx, t, l, "NodeUnfit", "cp-3", addr, me)
		release()
		l.Eventually(20*time.Second, "the proxy to answer", func() (bool, string) {
			nv := l.Look(ctx).Node("cp-3")
			return nv.Obs != nil && nv.Obs.Proxy != nil, fmt.Sprint(nv.Err)
		})
	})
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatal(r)
	}
	l.CheckPivoted(ctx)

	t.Run("under a member that ran", func(t *testing.T) {
		stopped(t, second)
		release := hold(t, second.Ref.HostPort(2380))
		rig.Must(t, second.StartAgent())
		statusSays(t, l, "cp-2", "PortTaken", second.Ref.HostPort(2380), me)
		writes(ctx, t, l, 0)
		writes(ctx, t, l, 1)
		release()
		serving(ctx, t, l, second, wire.SlotMember)
	})
}

// An address that no interface of this host has: init and a bundle are refused
// by name, nothing is written, and the bundle can still be used.
func TestAddressNotOurs(t *testing.T) {
	l := rig.New(t, 2)
	n := l.Nodes[0]
	const other = "192.0.2.7" // TEST-NET-1, nobody's
	r := l.Run("init", "--node-name", "cp-1", "--address", other, "--data-dir", n.DataDir(), "--state-dir", n.StateDir(), "--pki-dir", n.PKIDir())
	if r.Code != 3 || !strings.Contains(r.Stderr, "AddressNotOurs") || !strings.Contains(r.Stderr, other) {
		t.Errorf("init: want exit 3 naming %s: %s", other, r)
	}
	for _, dir := range []string{n.DataDir(), n.StateDir(), n.PKIDir()} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("a refused init left %s", dir)
		}
	}
	ctx := rig.Context(t, time.Minute)
	rig.Must(t, l.Init(ctx))
	rig.Must(t, l.AwaitSeed(ctx))
	b, err := pki.NewBundle(pki.BundleParams{Identity: n.Identity(), Params: pki.Params{PKIDir: n.PKIDir(), Node: wire.NodeRef{Name: "cp-2", Address: other}}})
	rig.Must(t, err)
	second := l.Nodes[1]
	file := filepath.Join(second.Dir, "bundle.json")
	rig.Must(t, b.WriteFile(file))
	r = l.Run("agent", "--bundle", file, "--state-dir", second.StateDir(), "--data-dir", second.DataDir(), "--pki-dir", second.PKIDir())
	if r.Code != 3 || !strings.Contains(r.Stderr, "AddressNotOurs") || !strings.Contains(r.Stderr, other) {
		t.Errorf("agent: want exit 3 naming %s: %s", other, r)
	}
	if _, err := os.Stat(filepath.Join(second.StateDir(), wire.FileIdentity)); !os.IsNotExist(err) {
		t.Errorf("a refused bundle left an identity: %v", err)
	}
	if b, err := pki.ReadBundle(file); err != nil || !b.Spent.IsZero() || b.Claim != "" {
		t.Errorf("a refused bundle was spent or claimed: %v", err)
	}
}

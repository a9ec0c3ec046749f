//go:build cases || sweep

package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// Two agents where there should be one: on one data directory, with one
// identity, and with one name at two addresses.
func TestAgentsTwice(t *testing.T) {
	l := rig.Up(t, 2)
	ctx := rig.Context(t, 3*time.Minute)
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatal(r)
	}
	n := l.Nodes[1]
	pid := strings.TrimSpace(string(must(os.ReadFile(n.Identity().State(wire.FileAgentLock)))))

	t.Run("two states, one data directory", func(t *testing.T) {
		before := tree(t, n.DataDir()+"/data.gate.json")
		third := wire.NodeRef{Name: "cp-3", Address: l.Block.IP(13)}
		b, err := pki.NewBundle(pki.BundleParams{Identity: n.Identity(), Params: pki.Params{PKIDir: l.Nodes[0].PKIDir(), Node: third}})
		rig.Must(t, err)
		dir := t.TempDir()
		file := filepath.Join(dir, "bundle.json")
		rig.Must(t, b.WriteFile(file))
		args := []string{"agent", "--bundle", file, "--state-dir", filepath.Join(dir, "state"), "--pki-dir", filepath.Join(dir, "pki", "etcd"), "--data-dir", n.DataDir()}
		r := l.Run(args...)
		if r.Code != 3 || !strings.Contains(r.Stderr, "DataDirInUse") || !strings.Contains(r.Stderr, "pid "+pid) {
			t.Errorf("want exit 3 naming pid %s: %s", pid, r)
		}
		if after := tree(t, n.DataDir()+"/data.gate.json"); after != before {
			t.Errorf("the first one's gate was changed:\n%s\n%s", before, after)
		}
	})
	t.Run("the same identity from another state directory", func(t *testing.T) {
		state := filepath.Join(t.TempDir(), "state")
		copyTree(t, n.StateDir(), state)
		if r := l.Run("agent", "--state-dir", state); r.Code != 3 || !strings.Contains(r.Stderr, "IdentityDiffers") || !strings.Contains(r.Stderr, n.StateDir()) {
			t.Errorf("want exit 3 naming the state directory it is of: %s", r)
		}
		file := filepath.Join(state, wire.FileIdentity) // and made to fit
		rig.Must(t, os.WriteFile(file, bytes.ReplaceAll(must(os.ReadFile(file)), []byte(n.StateDir()), []byte(state)), 0o600))
		if r := l.Run("agent", "--state-dir", state); r.Code != 3 || !strings.Contains(r.Stderr, "DataDirInUse") || !strings.Contains(r.Stderr, "pid "+pid) {
			t.Errorf("want exit 3 naming pid %s: %s", pid, r)
		}
	})
	t.Run("a copy of the whole node, same address", func(t *testing.T) {
		clone := cloned(t, n, nil)
		if r := l.Run("agent", "--state-dir", clone.StateDir); r.Code != 1 || !strings.Contains(r.Stderr, "pid "+pid) {
			t.Errorf("want exit 1 naming pid %s: %s", pid, r)
		}
	})
	t.Run("a copy of the whole node, another address", func(t *testing.T) { copyElsewhere(ctx, t, l) })
	writes(ctx, t, l, 0)
	writes(ctx, t, l, 1)
	l.CheckPivoted(ctx)
}

// cloned copies a node's state and data, as a copied disk image would.
func cloned(t *testing.T, n *lab.Node, change func(*wire.Identity)) wire.Identity {
	t.Helper()
	dir := t.TempDir()
	id := n.Identity()
	rig.Must(t, json.Unmarshal(must(os.ReadFile(n.Identity().State(wire.FileIdentity))), &id))
	copyTree(t, n.StateDir(), filepath.Join(dir, "state"))
	copyTree(t, n.DataDir(), filepath.Join(dir, "data"))
	slots := filepath.Join(dir, "state", wire.FileSlots)
	rig.Must(t, os.WriteFile(slots, bytes.ReplaceAll(must(os.ReadFile(slots)), []byte(n.DataDir()), []byte(filepath.Join(dir, "data"))), 0o600))
	id.StateDir, id.DataDir = filepath.Join(dir, "state"), filepath.Join(dir, "data")
	if change != nil {
		change(&id)
	}
	rig.Must(t, os.WriteFile(id.State(wire.FileIdentity), must(json.Marshal(id)), 0o600))
	return id
}

// copyElsewhere: the copy was given an address and certificates of its own and
// kept the name. Neither it nor the node is believed; no second process of the
// member's identity starts, whether the node answers or not.
func copyElsewhere(ctx context.Context, t *testing.T, l *rig.Lab) {
	n := l.Nodes[1]
	at := wire.NodeRef{Name: n.Name, Address: l.Block.IP(99), ProxyAddress: l.Block.IP(98)}
	id := cloned(t, n, func(id *wire.Identity) {
		id.Node = at
		id.PKIDir = made(t, l, n, false, func(p *pki.Params) { p.Node = at })
	})
	clone := startClone(t, l, id)
	defer clone()
	refused := func(what string) {
		t.Helper()
		r := l.Run("pivot", "--state-dir", l.Nodes[0].StateDir(), "--log-level", "warn", "--nodes", "cp-1="+l.Nodes[0].Ref.Address+",cp-2="+at.Address)
		if r.Code != 3 || !strings.Contains(r.Stderr, "two agents go by the name cp-2") || !strings.Contains(r.Stderr, at.Address) || !strings.Contains(r.Stderr, n.Ref.Address) {
			t.Errorf("%s: want exit 3 naming both: %s", what, r)
		}
	}
	l.Eventually(20*time.Second, "the copy's agent to answer", func() (bool, string) {
		r := l.Run("status", "--state-dir", l.Nodes[0].StateDir(), "--agents", l.Nodes[0].Ref.Address+","+at.Address)
		return strings.Contains(strings.Join(strings.Fields(r.Stdout), " "), "two agents go by the name cp-2"), r.String()
	})
	refused("both answer")
	rig.Must(t, n.Kill("agent"))
	refused("the node is silent")
	rig.Must(t, n.StartAgent())
	rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	log := ""
	l.Eventually(20*time.Second, "the copy's member to be kept down by the ports of the first", func() (bool, string) {
		log = string(must(os.ReadFile(id.State("logs/member.log"))))
		return strings.Contains(log, "PortTaken"), log
	})
	if strings.Contains(log, "starting an etcd server") {
		t.Errorf("the copy's member was started:\n%s", log)
	}
}

// startClone runs the agent of a cloned node; end ends it and what it started.
func startClone(t *testing.T, l *rig.Lab, id wire.Identity) (end func()) {
	t.Helper()
	rig.Must(t, os.Truncate(id.State("logs/member.log"), 0)) // the first one's, copied
	cmd := exec.Command(l.Binary, "agent", "--state-dir", id.StateDir)
	rig.Must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // killed is what ends it
	return func() {
		_ = cmd.Process.Kill()
		<-ended
		for _, lock := range []string{id.State(wire.FileProxyLock), id.SlotLock(wire.SlotMember)} {
			for range 100 {
				pid, err := datadir.HolderPID(lock)
				if err != nil || pid == 0 {
					break
				}
				_ = syscall.Kill(pid, syscall.SIGKILL)
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

//go:build cases || sweep

package cases

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// inNamespace is set in the copy of this test that has a network of its own.
const inNamespace = "ETCD_SELFHOST_TEST_OWN_NETWORK"

// L8: three nodes that have IPv6 addresses only. The machine's network is left
// alone: the test runs once more in a network namespace of its own.
func TestL8IPv6(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		rig.Binary(t) // built out here
		if out, err := exec.Command("unshare", "--net", "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			t.Skipf("this machine gives the test no network of its own: %v %s", err, out)
		}
		cmd := exec.Command("unshare", "--net", os.Args[0], "-test.run=^TestL8IPv6$", "-test.v", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil || !strings.Contains(string(out), "--- PASS: TestL8IPv6") {
			t.Fatal(err)
		}
		return
	}
	ip(t, "link", "set", "lo", "up")
	l := rig.New(t, 3)
	for i, n := range l.Nodes {
		n.Ref.Address, n.Ref.ProxyAddress = fmt.Sprintf("fd00:e5::%d", 11+i), fmt.Sprintf("fd00:e5::%d", 21+i)
		ip(t, "addr", "add", n.Ref.Address+"/128", "dev", "lo", "nodad")
		ip(t, "addr", "add", n.Ref.ProxyAddress+"/128", "dev", "lo", "nodad")
	}
	// What cannot be dialled, and other spellings of one address, are refused before anything is written.
	for _, addr := range []string{"fe80::1", "fe80::1%lo", "::ffff:10.0.0.1", "fd00:e5:0::11", "FD00:E5::11"} {
		n := l.Nodes[0]
		if r := l.Run("init", "--dry-run", "--node-name", "cp-1", "--address", addr, "--data-dir", n.DataDir(), "--state-dir", n.StateDir(), "--pki-dir", n.PKIDir()); r.Code != 2 || !strings.Contains(r.Stderr, addr) {
			t.Errorf("--address %s: want exit 2: %s", addr, r)
		}
	}
	ctx := rig.Context(t, 3*time.Minute)
	rig.Must(t, l.Init(ctx))
	for _, n := range l.Nodes[1:] {
		rig.Must(t, l.Join(n))
	}
	rig.Must(t, l.AwaitSeed(ctx))
	rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	w, err := lab.StartWriters(ctx, l.Nodes[0], 4, "/load")
	rig.Must(t, err)
	defer w.Stop()
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatal(r)
	}
	// The list's URLs are told to be ours by address, not by spelling: a second run finds nothing to do.
	if r := l.Run(l.PivotArgs(1)...); r.Code != 0 || !strings.Contains(r.Stdout, "nothing to do") {
		t.Error(r)
	}
	w.Stop()
	l.CheckPivoted(ctx)
	noneLost(ctx, t, l, w)
	for _, m := range l.Look(ctx).Members {
		if len(m.PeerURLs) != 1 || !strings.HasPrefix(m.PeerURLs[0], "https://[fd00:e5::") {
			t.Errorf("member %s: %v", m.Name, m.PeerURLs)
		}
	}
	// All nodes restart: each has the address it had.
	rig.Must(t, l.PowerOff())
	rig.Must(t, l.PowerOn())
	for i, n := range l.Nodes {
		serving(ctx, t, l, n, wire.SlotMember)
		writes(ctx, t, l, i)
	}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v %s", args, err, out)
	}
}

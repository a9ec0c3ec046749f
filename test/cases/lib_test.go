//go:build cases || sweep

package cases

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// pivotRefused runs the pivot from cp-1: exit 3, every word of want told, and
// the member list as long as before.
func pivotRefused(ctx context.Context, t *testing.T, l *rig.Lab, want ...string) {
	t.Helper()
	before := len(l.Look(ctx).Members)
	r := l.Run(l.PivotArgs(0)...)
	for _, w := range want {
		if r.Code != 3 || !strings.Contains(r.Stderr, w) {
			t.Errorf("pivot: want exit 3 and %q: %s", w, r)
		}
	}
	if after := len(l.Look(ctx).Members); after != before {
		t.Errorf("the list was changed: %d members, before %d", after, before)
	}
}

// statusSays waits until `status` tells every word of want; lines are joined, so
// that wrapping does not matter.
func statusSays(t *testing.T, l *rig.Lab, want ...string) {
	t.Helper()
	var agents []string
	for _, n := range l.Nodes {
		agents = append(agents, n.Ref.Address)
	}
	l.Eventually(40*time.Second, "status to say "+strings.Join(want, ", "), func() (bool, string) {
		r := l.Run("status", "--state-dir", l.Nodes[0].StateDir(), "--agents", strings.Join(agents, ","))
		flat := strings.Join(strings.Fields(r.Stdout), "")
		for _, w := range want {
			if !strings.Contains(flat, strings.Join(strings.Fields(w), "")) {
				return false, w + " is not in:\n" + r.String()
			}
		}
		return true, ""
	})
}

// writes proves that node i's proxy still takes writes.
func writes(ctx context.Context, t *testing.T, l *rig.Lab, i int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := l.Nodes[i].AwaitWritable(ctx); err != nil {
		t.Errorf("through %s: %v", l.Nodes[i].Name, err)
	}
}

// serving waits until the node's slot serves clients.
func serving(ctx context.Context, t *testing.T, l *rig.Lab, n *lab.Node, slot wire.Slot) {
	t.Helper()
	l.Eventually(60*time.Second, n.Name+"/"+string(slot)+" to serve", func() (bool, string) {
		nv := l.Look(ctx).Node(n.Name)
		if nv.Obs == nil {
			return false, nv.Err.Error()
		}
		sl := nv.Obs.SlotOf(slot)
		return sl.Process.State == wire.ProcServing, string(sl.Process.State) + " " + sl.Reason + " " + sl.Process.LastExit
	})
}

// stopped ends agent and member of a node for good and returns the member's directory.
func stopped(t *testing.T, n *lab.Node) string {
	t.Helper()
	rig.Must(t, n.Kill("agent"))
	rig.Must(t, n.Kill("member"))
	return n.Identity().SlotDir(wire.SlotMember)
}

// hold listens on an address as a foreign process would.
func hold(t *testing.T, addr string) (release func()) {
	t.Helper()
	var ln net.Listener
	var err error
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if ln, err = net.Listen("tcp", addr); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { ln.Close() })
	return func() { ln.Close() }
}

// tree is every file under dir with its content's size, to see that nothing was touched.
func tree(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("find", dir, "-type", "f", "-exec", "sha256sum", "{}", "+").Output()
	rig.Must(t, err)
	return strings.ReplaceAll(string(out), dir, "")
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	rig.Must(t, os.MkdirAll(filepath.Dir(to), 0o700))
	rig.Must(t, os.Rename(from, to))
}

// running waits until the node's member is another process than old, whether
// it serves or not.
func running(ctx context.Context, t *testing.T, l *rig.Lab, n *lab.Node, old int) {
	t.Helper()
	l.Eventually(30*time.Second, n.Name+"'s member to run", func() (bool, string) {
		nv := l.Look(ctx).Node(n.Name)
		if nv.Obs == nil {
			return false, nv.Err.Error()
		}
		p := nv.Obs.SlotOf(wire.SlotMember).Process
		return p.State != wire.ProcDown && p.PID != 0 && p.PID != old && p.MetricsUp, fmt.Sprintf("%+v", p)
	})
}

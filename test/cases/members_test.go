//go:build cases || sweep

package cases

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

func driverConfig(l *rig.Lab) driver.Config { return driver.Config{Nodes: l.Refs()} }

// M1: a joiner's address is proved to be its node's before anything is added;
// a voter is never added directly.
func TestM1WrongAddressIsRefusedBeforeTheAdd(t *testing.T) {
	l := rig.Up(t, 2)
	ctx := rig.Context(t, 2*time.Minute)
	first := l.Nodes[0]
	for name, tc := range map[string]struct{ nodes, want, where string }{
		"nobody there":         {"cp-1=" + first.Ref.Address + ",cp-2=" + l.Block.IP(99), "NodeSilent", "cp-2"},
		"another node's agent": {"cp-1=" + first.Ref.Address + ",cp-9=" + l.Nodes[1].Ref.Address, "cp-9", "cp-2"},
	} {
		r := l.Run("pivot", "--state-dir", first.StateDir(), "--log-level", "warn", "--nodes", tc.nodes)
		if r.Code != 3 || !strings.Contains(r.Stderr, tc.want) || !strings.Contains(r.Stderr, tc.where) {
			t.Errorf("%s: want exit 3 naming %s and %s: %s", name, tc.want, tc.where, r)
		}
		if v := l.Look(ctx); len(v.Members) != 1 {
			t.Fatalf("%s: the list was changed: %+v", name, v.Members)
		}
	}
	// Found in the state that other tools leave: an unstarted voter stops the cluster; it is named.
	c := l.Client(0)
	_, err := c.MemberAdd(ctx, []string{"https://" + l.Block.IP(99) + ":2380"})
	rig.Must(t, err)
	l.Eventually(20*time.Second, "status to name the voter that never started", func() (bool, string) {
		r := l.Run("status", "--state-dir", first.StateDir())
		return strings.Contains(r.Stdout, "never started") && strings.Contains(r.Stdout, l.Block.IP(99)), r.String()
	})
}

// M2, M4 and M12 on one cluster.
func TestM2M4M12Learners(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 4*time.Minute)
	c := l.Client(0)
	w, err := lab.StartWriters(ctx, l.Nodes[0], 2, "/load")
	rig.Must(t, err)
	defer w.Stop()

	t.Run("M2 a learner that never started", func(t *testing.T) {
		url := "https://" + l.Block.IP(98) + ":2380"
		r, err := c.MemberAddAsLearner(ctx, []string{url})
		rig.Must(t, err)
		id := wire.ID(r.Member.ID).String()
		ran := l.Run(l.PivotArgs(0)...)
		for _, want := range []string{"learner " + id, url, "never started", "--forget-learner"} {
			if ran.Code != 3 || !strings.Contains(ran.Stderr, want) {
				t.Fatalf("want exit 3 and %q: %s", want, ran)
			}
		}
		// A person says it will never come; it goes by ID, and the next join works (below).
		w.Gap()
		tmp := l.Run("pivot", "--state-dir", l.Nodes[0].StateDir(), "--log-level", "warn", "--dry-run", "--forget-learner", id, l.NodesFlag(3))
		if !strings.Contains(tmp.Stdout, "RemoveMember "+id) {
			t.Fatalf("the plan does not remove it by ID: %s", tmp)
		}
		_, err = c.MemberRemove(ctx, r.Member.ID) // what M4 below wants out of its way
		rig.Must(t, err)
		if gap := w.Gap(); gap > time.Second {
			t.Errorf("writes stalled for %s", gap)
		}
	})

	t.Run("M4 a join aborted between add and start", func(t *testing.T) {
		url := "https://" + l.Nodes[1].Ref.HostPort(2380)
		_, err := c.MemberAddAsLearner(ctx, []string{url})
		rig.Must(t, err)
		pauseM12(t, l)
		l.CheckPivoted(ctx)
		n := 0
		for _, m := range l.Look(ctx).Members {
			for _, u := range m.PeerURLs {
				if u == url {
					n++
				}
			}
		}
		if n != 1 {
			t.Errorf("%d entries for %s, want exactly one", n, url)
		}
	})
	w.Stop()
	noneLost(ctx, t, l, w)
}

// pauseM12 (M12): a member paused while the pivot runs; the seed stays until it
// is back, with the reason.
func pauseM12(t *testing.T, l *rig.Lab) {
	t.Helper()
	p := startPivot(t, l, l.PivotArgs(0)...)
	text := p.text
	l.Eventually(30*time.Second, "the learner of cp-3 to be started", func() (bool, string) {
		return strings.Contains(text(), "StartMember cp-3"), text()
	})
	l.Eventually(5*time.Second, "the member of cp-3 to run", func() (bool, string) {
		err := l.Nodes[2].Signal("member", syscall.SIGSTOP)
		return err == nil, fmt.Sprint(err)
	})
	time.Sleep(8 * time.Second) // longer than any timer of the pivot before the seed goes
	said := text()
	if strings.Contains(said, "RemoveMember") || strings.Contains(said, "StopMember") {
		t.Errorf("M12: the seed was let go while cp-3 was paused:\n%s", said)
	}
	if !strings.Contains(said, "cp-3") || !(strings.Contains(said, "NotServing") || strings.Contains(said, "NotInSync") || strings.Contains(said, "PeerNotUp")) {
		t.Errorf("M12: no reason is given for the wait:\n%s", said)
	}
	rig.Must(t, l.Nodes[2].Signal("member", syscall.SIGCONT))
	if err := p.wait(); err != nil {
		t.Fatalf("M12: after SIGCONT: %v\n%s", err, text())
	}
}

// lockedBuffer is written by a process and read by a test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *lockedBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *lockedBuffer) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// M2, the other half: the forgotten learner is removed by ID and the join goes on.
func TestM2ForgottenLearnerGoesByID(t *testing.T) {
	l := rig.Up(t, 2)
	ctx := rig.Context(t, 2*time.Minute)
	r, err := l.Client(0).MemberAddAsLearner(ctx, []string{"https://" + l.Block.IP(98) + ":2380"})
	rig.Must(t, err)
	id := wire.ID(r.Member.ID).String()
	ran := l.Run(l.PivotArgs(0, "--forget-learner", id)...)
	if ran.Code != 0 || !strings.Contains(ran.Stdout, "RemoveMember "+id) {
		t.Fatal(ran)
	}
	l.CheckPivoted(ctx)
}

// M13: names and addresses are unique, checked before anything is added.
func TestM13SameNameOrAddressTwice(t *testing.T) {
	l := rig.Up(t, 2)
	ctx := rig.Context(t, time.Minute)
	a, b := l.Nodes[0].Ref.Address, l.Nodes[1].Ref.Address
	for _, nodes := range []string{"cp-1=" + a + ",cp-1=" + b, "cp-1=" + a + ",cp-2=" + a, "cp-1=" + a + ",=" + b} {
		r := l.Run("pivot", "--state-dir", l.Nodes[0].StateDir(), "--nodes", nodes)
		if r.Code != 2 {
			t.Errorf("--nodes %s: want exit 2: %s", nodes, r)
		}
	}
	// The same at the agent, whoever asks: an address that is a member's already.
	if v := l.Look(ctx); len(v.Members) != 1 {
		t.Errorf("the list was changed: %+v", v.Members)
	}
}

// L3: init refuses an old data directory, printing what it found; nothing is changed.
func TestL3ReinstallOverOldData(t *testing.T) {
	l := rig.Up(t, 1)
	ctx := rig.Context(t, time.Minute)
	n := l.Nodes[0]
	_, err := l.Client(0).Put(ctx, "/old", "1")
	rig.Must(t, err)
	id := l.Look(ctx).Epoch
	rig.Must(t, n.Kill("agent"))
	rig.Must(t, n.Kill("all"))
	state := filepath.Join(t.TempDir(), "state")
	r := l.Run("init", "--node-name", "cp-1", "--address", n.Ref.Address, "--data-dir", n.DataDir(), "--state-dir", state, "--pki-dir", n.PKIDir())
	for _, want := range []string{id.ClusterID.String(), id.SeedID.String(), "revision", n.DataDir()} {
		if r.Code != 3 || !strings.Contains(r.Stderr, want) {
			t.Fatalf("want exit 3 and %q: %s", want, r)
		}
	}
	if _, err := os.Stat(filepath.Join(state, wire.FileIdentity)); !os.IsNotExist(err) {
		t.Errorf("a refused init left an identity: %v", err)
	}
	// The node itself just starts again, with its data (I9).
	rig.Must(t, n.StartAgent())
	rig.Must(t, l.AwaitSeed(ctx))
	got, err := l.Client(0).Get(ctx, "/old")
	if err != nil || got.Count != 1 {
		t.Errorf("the old key: %v, %v", got, err)
	}
}

// L6: a second etcd on one data directory is refused, naming the process that holds it.
func TestL6TwoEtcdsOnOneDirectory(t *testing.T) {
	l := rig.Up(t, 1)
	ctx := rig.Context(t, time.Minute)
	sl := l.Look(ctx).Nodes[0].Obs.SlotOf(wire.SlotSeed)
	args := append([]string{"etcd", "--state-dir", l.Nodes[0].StateDir(), "--slot", "seed", "--"}, sl.Process.Args...)
	r := l.Run(args...)
	pid := strings.TrimSpace(string(must(os.ReadFile(l.Nodes[0].Identity().SlotLock(wire.SlotSeed)))))
	if r.Code != 3 && r.Code != 1 || !strings.Contains(r.Stderr, pid) {
		t.Errorf("want a refusal naming pid %s: %s", pid, r)
	}
	if _, err := l.Client(0).Put(ctx, "/still", "1"); err != nil {
		t.Errorf("the first one was disturbed: %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

//go:build cases || sweep

package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// M3, M10, M11 and S6 on one cluster of a stock etcd, whose agents were started
// in an environment full of ETCD_*; it grows to two nodes, then to three.
func TestM3M10M11S6(t *testing.T) {
	binary := rig.Etcd(t, "v3.6.16", "etcd")
	// The accident itself: etcd dies of it.
	t.Setenv("ETCD_NAME", "x")
	if r := rig.RunBinary(t, binary, "--name", "y", "--data-dir", t.TempDir()); r.Code == 0 || !strings.Contains(r.Stderr, "conflicting environment variable") {
		t.Fatalf("S6 is not what it was: %s", r)
	}
	for _, e := range []string{"ETCD_DATA_DIR=/nowhere", "ETCD_INITIAL_CLUSTER_STATE=new", "ETCD_CONFIG_FILE=/nowhere", "ETCD_LISTEN_PEER_URLS=http://192.0.2.1:1"} {
		k, v, _ := strings.Cut(e, "=")
		t.Setenv(k, v)
	}
	l := rig.Up(t, 3, "--etcd-binary", binary)
	ctx := rig.Context(t, 5*time.Minute)
	w, err := lab.StartWriters(ctx, l.Nodes[0], 2, "/load")
	rig.Must(t, err)
	defer w.Stop()

	t.Run("M3 an unstarted member has no name", func(t *testing.T) {
		r, err := l.Client(0).MemberAddAsLearner(ctx, []string{"https://" + l.Nodes[1].Ref.HostPort(2380)})
		rig.Must(t, err)
		id := wire.ID(r.Member.ID).String()
		statusSays(t, l, id, "cp-2", "unstarted") // its place is known from the moment of the add
		for _, name := range []string{"cp-2", " ", "0"} {
			if r := l.Run(l.PivotArgs(0, "--forget-learner="+name)...); r.Code != 2 {
				t.Errorf("--forget-learner=%q: a member is an ID; want exit 2: %s", name, r)
			}
		}
		if r := l.Run(l.PivotArgs(0, "--forget-learner=", "--dry-run")...); strings.Contains(r.Stdout, "RemoveMember "+id) {
			t.Errorf("no name at all means nobody: %s", r)
		}
		if n := len(l.Look(ctx).Members); n != 2 {
			t.Errorf("%d members, want the seed and the learner", n)
		}
	})
	if r := l.Run("pivot", "--state-dir", l.Nodes[0].StateDir(), "--log-level", "warn", l.NodesFlag(2)); r.Code != 0 {
		t.Fatal(r)
	}
	t.Run("M10 the seed is gone from what later joiners are told", func(t *testing.T) {
		if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
			t.Fatal(r)
		}
		args := strings.Join(l.Look(ctx).Node("cp-3").Obs.SlotOf(wire.SlotMember).Process.Args, " ")
		if strings.Contains(args, "seed") || strings.Contains(args, ":12380") || !strings.Contains(args, "cp-1=") {
			t.Errorf("cp-3 was started with %s", args)
		}
		args = strings.Join(l.Look(ctx).Node("cp-2").Obs.SlotOf(wire.SlotMember).Process.Args, " ")
		if !strings.Contains(args, "cp-1-seed-1=") {
			t.Errorf("cp-2 joined while the seed was there: %s", args)
		}
		// cp-2's arguments name the seed for ever; its log counts, and it starts.
		rig.Must(t, l.Nodes[1].Kill("member"))
		serving(ctx, t, l, l.Nodes[1], wire.SlotMember)
	})
	t.Run("M10 a wiped node, and nobody to ask", func(t *testing.T) { wipedAlone(t, l) })
	t.Run("M11 the removed seed is started again", func(t *testing.T) { seedAgain(t, l) })
	t.Run("S6 no etcd of ours sees the environment", func(t *testing.T) {
		for _, n := range l.Nodes {
			pid := must(datadir.HolderPID(n.Identity().SlotLock(wire.SlotMember)))
			env := must(os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)))
			exe := must(os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)))
			if strings.Contains("\x00"+string(env), "\x00ETCD_") || exe != binary {
				t.Errorf("%s: pid %d runs %s with %q", n.Name, pid, exe, env)
			}
		}
	})
	w.Stop()
	noneLost(ctx, t, l, w)
}

// wipedAlone: a node loses its directory while every other agent is down. It
// makes no cluster of its own, whatever its arguments said once.
func wipedAlone(t *testing.T, l *rig.Lab) {
	ctx := rig.Context(t, 2*time.Minute)
	n := l.Nodes[2]
	dir := stopped(t, n)
	for _, o := range l.Nodes[:2] {
		rig.Must(t, o.Kill("agent"))
	}
	keep := filepath.Join(n.Dir, "away")
	rig.Must(t, os.Rename(dir, keep))
	rig.Must(t, n.StartAgent())
	l.Eventually(20*time.Second, "cp-3 to say why it stays down", func() (bool, string) {
		b, _ := os.ReadFile(n.Identity().State("logs/member.log"))
		return strings.Contains(string(b), "EmptyButRecorded"), string(b[max(0, len(b)-300):])
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("something was made in its place: %v", err)
	}
	writes(ctx, t, l, 0)
	stopped(t, n)
	rig.Must(t, os.Rename(keep, dir))
	for _, o := range l.Nodes {
		rig.Must(t, o.StartAgent())
	}
	rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	serving(ctx, t, l, n, wire.SlotMember)
}

// seedAgain: somebody puts the seed's directory back and starts it by its old
// command line, or restarts the node. It stays down and says since when; the
// member's ports are not touched.
func seedAgain(t *testing.T, l *rig.Lab) {
	ctx := rig.Context(t, 2*time.Minute)
	n := l.Nodes[0]
	dir := n.Identity().SlotDir(wire.SlotSeed)
	args := []string{"etcd", "--state-dir", n.StateDir(), "--slot", "seed", "--", "--name=cp-1-seed-1", "--data-dir=" + dir,
		"--listen-peer-urls=https://" + n.Ref.HostPort(12380), "--initial-cluster=cp-1-seed-1=https://" + n.Ref.HostPort(12380), "--initial-cluster-state=new"}
	refused := func(what string) {
		t.Helper()
		r := l.Run(args...)
		if r.Code != 3 || !strings.Contains(r.Stderr, "Parked") || !strings.Contains(r.Stderr, "retired "+time.Now().UTC().Format("2006-01-02")) {
			t.Errorf("%s: want exit 3 and when it was retired: %s", what, r)
		}
	}
	refused("its directory in the attic")
	attic := must(filepath.Glob(filepath.Join(n.DataDir(), "attic", "*-seed-*[0-9a-f]")))
	if len(attic) != 1 {
		t.Fatalf("attic: %v", attic)
	}
	copyTree(t, attic[0], dir)
	refused("its directory put back")
	rig.Must(t, n.Kill("agent"))
	rig.Must(t, n.StartAgent())
	rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	sl := l.Look(ctx).Node("cp-1").Obs.SlotOf(wire.SlotSeed)
	if sl.Process.State != wire.ProcDown || !sl.Parked {
		t.Errorf("after a restart of the agent: %+v", sl)
	}
	// The next pivot puts it away again.
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Error(r)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the seed's directory is still in its place: %v", err)
	}
	if again := must(filepath.Glob(filepath.Join(n.DataDir(), "attic", "*-seed-*[0-9a-f]"))); len(again) != 2 {
		t.Errorf("attic: %v", again)
	}
}

// All agents are killed and started, one after the other, all the while a pivot
// drives: their grants count as fresh, no round of before is taken, and it ends.
func TestAgentsRestartedUnderAGrant(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 4*time.Minute)
	w, err := lab.StartWriters(ctx, l.Nodes[0], 4, "/load")
	rig.Must(t, err)
	defer w.Stop()
	run := startPivot(t, l, l.PivotArgs(0)...)
	run.await(30*time.Second, "TakeGrant") // before, a silent node would be refused
	done := make(chan error, 1)
	go func() { done <- run.wait() }()
	c, kills := agents(t, l), 0
	for ended := false; !ended; kills++ {
		n := l.Nodes[kills%3]
		rig.Must(t, n.Kill("agent"))
		rig.Must(t, n.StartAgent())
		l.Eventually(30*time.Second, "the agent to answer", func() (bool, string) { // one at a time, however slow the machine is
			_, err := c.Fence(ctx, n.Ref.Address)
			return err == nil, fmt.Sprint(err)
		})
		select {
		case err := <-done:
			ended = true
			if err != nil {
				t.Errorf("%v\n%s", err, run.text())
			}
		case <-time.After(time.Second):
		}
	}
	if kills < 3 {
		t.Errorf("only %d kills: the pivot was over before every agent was restarted under its grant", kills)
	}
	t.Logf("%d agents killed", kills)
	rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	w.Stop()
	l.CheckPivoted(ctx)
	noneLost(ctx, t, l, w)
	// Each removal and move stands once as done.
	once := map[string]int{}
	for _, n := range l.Nodes {
		for _, e := range journal(ctx, t, l, n) {
			if e.Outcome == "ok" {
				once[e.Step]++
			}
		}
	}
	if once["RemoveMember"] != 1 || once["AgentStart"] < kills {
		t.Errorf("journals: %v after %d kills", once, kills)
	}
}

//go:build cases || sweep

package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// Learners that die while they join, on one cluster, whose log is cut so short
// that they receive the database: killed while receiving; killed with their
// directory gone before their name was in the list; the same after they served.
func TestLearnersThatDieWhileJoining(t *testing.T) {
	t.Parallel()
	l := rig.Up(t, 3, "--snapshot-count", "1000")
	ctx := rig.Context(t, 4*time.Minute)
	rig.Must(t, lab.Fill(ctx, l.Client(0), "/fill", 60))
	w := load(ctx, t, l)
	first, done := map[string]wire.ID{}, map[string]bool{}
	var left *lab.Node
	once := func(what string) bool { was := done[what]; done[what] = true; return !was }
	steps := drive(ctx, t, l, 0, func(_ int, s pivot.Step) {
		if s.Kind == pivot.StartMember && first[s.Node] == 0 {
			first[s.Node] = wire.ID(s.ID)
		}
		switch {
		case s.Kind == pivot.StartMember && s.Node == "cp-3" && once("killed"):
			killReceiving(t, l, l.Nodes[2])
		case s.Kind == pivot.StartMember && s.Node == "cp-2" && once("lost"):
			l.Eventually(20*time.Second, "the agent to record the log of cp-2", func() (bool, string) {
				sl := l.LookFrom(ctx, 2).Node("cp-2").Obs.SlotOf(wire.SlotMember)
				return sl.Recorded, fmt.Sprintf("%+v", sl)
			})
			loseDirectory(t, l, l.Nodes[1])
		case s.Kind == pivot.PromoteLearner && once("left over"): // the other one served too
			if left = l.Nodes[1]; s.Node == left.Name {
				left = l.Nodes[2]
			}
			loseDirectory(t, l, left)
		}
	})
	t.Log(strings.Join(steps, ", "))
	if len(done) != 3 {
		t.Errorf("only %v happened", done)
	}
	if count(steps, fmt.Sprintf("RemoveMember cp-2/member %s", first["cp-2"])) != 1 {
		t.Errorf("want the first entry of cp-2 removed by its ID, %s", first["cp-2"])
	}
	want := map[string]int{"cp-2": 1}
	want[left.Name]++
	for node, n := range want { // and another one, where cp-3 was killed too early for a whole directory
		if got := count(steps, "RemoveMember "+node+"/member"); got < n || got > n+1 {
			t.Errorf("%s lost its directory %d times and was removed %d times", node, n, got)
		}
		if removed, added := count(steps, "RemoveMember "+node+"/member"), count(steps, "RegisterLearner "+node); added != removed+1 {
			t.Errorf("%s was removed %d times and added %d times", node, removed, added)
		}
	}
	finish(ctx, t, l, w)
}

// killReceiving sends SIGKILL while a database snapshot is being received.
func killReceiving(t *testing.T, l *rig.Lab, n *lab.Node) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for {
		tmp, err := filepath.Glob(filepath.Join(n.Identity().SlotDir(wire.SlotMember), "member", "snap", "tmp*"))
		rig.Must(t, err)
		if len(tmp) > 0 {
			rig.Must(t, n.Kill("member"))
			t.Logf("killed while receiving %s", filepath.Base(tmp[0]))
			return
		}
		if time.Now().After(end) {
			t.Fatal("no database was being received")
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// loseDirectory takes a member's directory away under its agent's nose.
func loseDirectory(t *testing.T, l *rig.Lab, n *lab.Node) {
	t.Helper()
	rig.Must(t, n.Kill("agent"))
	rig.Must(t, n.Kill("member"))
	rig.Must(t, os.Rename(n.Identity().SlotDir(wire.SlotMember), filepath.Join(n.Dir, fmt.Sprintf("lost-%d", time.Now().UnixNano()))))
	rig.Must(t, n.StartAgent())
}

// A learner whose process cannot start (here: an etcd that lacks a library on
// one node) is named with the process's last words, by pivot and by status, is
// not started again and again, and is not evicted; put right, the same command
// goes on with the same entry.
func TestLearnerThatCannotStart(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "broken")
	rig.Must(t, os.WriteFile(broken, nil, 0o600))
	l := rig.Up(t, 3, "--etcd-binary", wrapper(t, `
case " $* " in *" --name=cp-3 "*)
	if [ -e `+broken+` ]; then
		echo "etcd: error while loading shared libraries: libetcd.so.1: cannot open shared object file" >&2
		exit 127
	fi ;;
esac`))
	ctx := rig.Context(t, 4*time.Minute)
	w := load(ctx, t, l)
	r := l.Run(l.PivotArgs(0, "--timeout", "7s")...)
	for _, want := range []string{"ProcessEnds", "cp-3", "libetcd.so.1: cannot open shared object"} {
		if r.Code != 3 || !strings.Contains(r.Stderr, want) {
			t.Errorf("want exit 3 and %q: %s", want, r)
		}
	}
	st := strings.Join(strings.Fields(l.Run("status", "--state-dir", l.Nodes[1].StateDir()).Stdout), " ")
	if !strings.Contains(st, "cp-3: member ") || !strings.Contains(st, "libetcd.so.1") {
		t.Errorf("status does not say why: %s", st)
	}
	entry := memberOf(l.Look(ctx).Members, l.Nodes[2])
	if entry.ID == 0 || !entry.Learner {
		t.Fatalf("its entry: %+v", entry)
	}
	starts := 0
	for _, e := range journal(ctx, t, l, l.Nodes[2]) {
		if e.Step == "StartMember" && e.Outcome == "begun" {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("%d steps began to start it, want one: its agent tries again by itself", starts)
	}
	rig.Must(t, os.Remove(broken))
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatal(r)
	}
	if now := memberOf(l.Look(ctx).Members, l.Nodes[2]); now.ID != entry.ID {
		t.Errorf("member %s, want the entry of before, %s", now.ID, entry.ID)
	}
	finish(ctx, t, l, w)
}

func memberOf(ms []wire.Member, n *lab.Node) wire.Member {
	for _, m := range ms {
		for _, u := range m.PeerURLs {
			if u == "https://"+n.Ref.HostPort(2380) {
				return m
			}
		}
	}
	return wire.Member{}
}

// wrapper is an etcd 3.7.3 behind a shell script.
func wrapper(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "etcd")
	text := "#!/bin/sh\n" + script + "\nexec " + rig.Etcd(t, "v3.7.3", "etcd") + " \"$@\"\n"
	rig.Must(t, os.WriteFile(path, []byte(text), 0o700))
	return path
}

// A learner that gets a tenth of the time, for 12 s.
func TestSlowLearner(t *testing.T) {
	t.Parallel()
	slowLearner(t, 12*time.Second)
}

// slowLearner: with a learner that is very slow the pivot waits, says for whom,
// and evicts nobody; given its time, it finishes.
func slowLearner(t *testing.T, slow time.Duration) {
	l := rig.Up(t, 2, "--snapshot-count", "1000")
	ctx := rig.Context(t, slow+3*time.Minute)
	rig.Must(t, lab.Fill(ctx, l.Client(0), "/fill", 60))
	w := load(ctx, t, l)
	p := startPivot(t, l, l.PivotArgs(0)...)
	p.await(30*time.Second, "StartMember cp-2")
	id := memberOf(l.LookFrom(ctx, 1).Members, l.Nodes[1]).ID
	for end := time.Now().Add(slow); time.Now().Before(end); {
		_ = l.Nodes[1].Signal("member", syscall.SIGSTOP) // between two lives of it there is nobody to stop
		time.Sleep(450 * time.Millisecond)
		_ = l.Nodes[1].Signal("member", syscall.SIGCONT)
		time.Sleep(50 * time.Millisecond)
		if said := p.text(); strings.Contains(said, "RemoveMember") {
			t.Fatalf("evicted, or the seed let go, while it was slow:\n%s", said)
		}
	}
	if said := p.text(); !strings.Contains(said, "cp-2") || !strings.Contains(said, "Not") {
		t.Errorf("the wait is not explained:\n%s", said)
	}
	if err := p.wait(); err != nil {
		t.Fatalf("given its time again: %v\n%s", err, p.text())
	}
	if now := memberOf(l.Look(ctx).Members, l.Nodes[1]).ID; id == 0 || now != id {
		t.Errorf("member %s, want the entry of before, %s", now, id)
	}
	finish(ctx, t, l, w)
}

// process is a run of the binary that goes on beside the test.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	out lockedBuffer
}

func startPivot(t *testing.T, l *rig.Lab, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	p := &process{t: t, cmd: exec.CommandContext(ctx, l.Binary, args...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	rig.Must(t, p.cmd.Start())
	return p
}

func (p *process) text() string { return p.out.String() }

// wait until it ends.
func (p *process) wait() error { return p.cmd.Wait() }

// await until it says so.
func (p *process) await(d time.Duration, said string) {
	p.t.Helper()
	for end := time.Now().Add(d); !strings.Contains(p.text(), said); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("waited %s for %q:\n%s", d, said, p.text())
		}
	}
}

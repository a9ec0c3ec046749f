package integration

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// There, back and there again, with writers through every node's proxy: no
// acknowledged write is lost, none fails, and what is left is the journal,
// tombstones and the attic.
func TestPivotUnpivotPivot(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 4*time.Minute)
	rig.Must(t, lab.Fill(ctx, l.Client(0), "/fill", 5))
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatal(r)
	}
	l.CheckPivoted(ctx)
	before := epochs(ctx, l)

	var load []*lab.Writers
	for _, n := range l.Nodes {
		w, err := lab.StartWriters(ctx, n, 3, "/load/"+n.Name)
		rig.Must(t, err)
		defer w.Stop()
		load = append(load, w)
		l.Eventually(20*time.Second, "the writers of "+n.Name, func() (bool, string) {
			ok, _, errs := w.Counts()
			return ok > 0, strings.Join(keys(errs), "; ")
		})
	}
	dry := l.Run("unpivot", "--state-dir", l.Nodes[1].StateDir(), "--to", "cp-2", "--dry-run")
	for _, want := range []string{"RegisterLearner cp-2/seed", "RemoveMember cp-2/member", "RetireDirectory cp-3/member", "done: the seed serves"} {
		if dry.Code != 0 || !strings.Contains(dry.Stdout, want) {
			t.Fatalf("the dry run does not show %q: %s", want, dry)
		}
	}
	if v := l.Look(ctx); len(v.Members) != 3 || v.Spec.Target != wire.TargetMembers {
		t.Fatalf("the dry run changed something: %+v, target %s", v.Members, v.Spec.Target)
	}

	began := time.Now()
	r := l.Run("unpivot", "--state-dir", l.Nodes[0].StateDir(), "--to", "cp-2")
	t.Logf("unpivot in %.1f s:\n%s", time.Since(began).Seconds(), r.Stdout)
	if r.Code != 0 {
		t.Fatal(r)
	}
	order(t, r.Stdout, "StopMember cp-2/member", "RemoveMember cp-2/member", "PromoteLearner cp-2/seed", "MoveLeader cp-2/seed", "RestartMember cp-3/member", "RemoveMember cp-1/member", "RemoveMember cp-3/member")
	gaps(t, "unpivot", load)
	l.CheckUnpivoted(ctx, "cp-2")
	if again := l.Run("unpivot", "--state-dir", l.Nodes[2].StateDir()); again.Code != 0 || !strings.Contains(again.Stdout, "nothing to do") {
		t.Errorf("a second unpivot: %s", again)
	}

	// The stored spec names the nodes: --nodes is not needed a second time.
	r = l.Run("pivot", "--state-dir", l.Nodes[0].StateDir())
	if r.Code != 0 {
		t.Fatal(r)
	}
	gaps(t, "second pivot", load)
	for _, w := range load {
		w.Stop()
		if lost, err := w.Lost(ctx, l.Client(0)); err != nil || len(lost) > 0 {
			t.Errorf("lost %v, %v", lost, err)
		}
		if ok, failed, errs := w.Counts(); failed != 0 || ok == 0 {
			t.Errorf("%d writes acknowledged, %d failed: %v", ok, failed, errs)
		}
	}
	l.CheckMembers(ctx)
	if after := epochs(ctx, l); after != before {
		t.Errorf("the epoch changed from %s to %s", before, after)
	}
	for _, n := range l.Nodes { // every directory that was left is in the attic of its node
		entries, _ := filepath.Glob(filepath.Join(n.DataDir(), "attic", "*-member-*[0-9a-f]"))
		if len(entries) != 1 {
			t.Errorf("%s: members in the attic: %v", n.Name, entries)
		}
	}
}

// One control-plane node: the seed is promoted beside the member, which is
// removed before it is stopped. A write under way at the removal may fail, since
// with two voters nobody can be sent on first; none that was acknowledged is lost.
func TestUnpivotOfOne(t *testing.T) {
	l := rig.Up(t, 1)
	ctx := rig.Context(t, 2*time.Minute)
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatal(r)
	}
	w, err := lab.StartWriters(ctx, l.Nodes[0], 4, "/load")
	rig.Must(t, err)
	defer w.Stop()
	r := l.Run("unpivot", "--state-dir", l.Nodes[0].StateDir())
	w.Stop()
	if r.Code != 0 {
		t.Fatal(r)
	}
	order(t, r.Stdout, "PromoteLearner cp-1/seed", "RemoveMember cp-1/member", "StopMember cp-1/member", "RetireDirectory cp-1/member")
	l.CheckUnpivoted(ctx, "cp-1")
	ok, failed, errs := w.Counts()
	t.Logf("%d writes acknowledged, %d failed: %v", ok, failed, errs)
	if lost, err := w.Lost(ctx, l.Client(0)); err != nil || len(lost) > 0 || ok == 0 {
		t.Errorf("lost %v, %v", lost, err)
	}
	// With two voters nobody can be sent on first: until the removed process has
	// ended, a writer that retries at once meets it again, how often is a matter of
	// its speed. It is told so each time: a stopped server ("raft: stopped",
	// "server stopped") or an ended connection (Unavailable).
	for text := range errs {
		if !strings.Contains(text, "stopped") && !strings.Contains(text, "Unavailable") {
			t.Errorf("a write failed otherwise than by the removed process's end: %s", text)
		}
	}
}

// order wants the words one after the other.
func order(t *testing.T, text string, words ...string) {
	t.Helper()
	at := 0
	for _, w := range words {
		i := strings.Index(text[at:], w)
		if i < 0 {
			t.Fatalf("%q is missing, or not after what comes before it:\n%s", w, text)
		}
		at += i
	}
}

func gaps(t *testing.T, what string, load []*lab.Writers) {
	t.Helper()
	for i, w := range load {
		ok, failed, errs := w.Counts()
		t.Logf("%s: writers of cp-%d: longest gap %d ms, %d acknowledged, %d failed %v", what, i+1, w.Gap().Milliseconds(), ok, failed, errs)
	}
}

func epochs(ctx context.Context, l *rig.Lab) string {
	v := l.Look(ctx)
	out := ""
	for _, n := range l.Nodes {
		e := v.Node(n.Name).Obs.Epoch
		out += n.Name + " " + e.SeedID.String() + " " + e.ClusterID.String() + ";"
	}
	return out
}

func keys(m map[string]int) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

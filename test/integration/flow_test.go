package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/demo"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// The whole story under a real kube-apiserver, as `make demo` tells it.
func TestDemoUnderAPIServer(t *testing.T) {
	bin, api := rig.Binary(t), rig.KubeAPIServer(t)
	t.Setenv("KUBEBUILDER_ASSETS", filepath.Dir(api))
	report := filepath.Join(t.TempDir(), "report.json")
	r := rig.RunBinary(t, bin, "demo", "--size-mb", "20", "--report", report, "--log-level", "warn")
	t.Log(r.Stdout)
	if r.Code != 0 {
		t.Fatal(r)
	}
	b, err := os.ReadFile(report)
	rig.Must(t, err)
	var got demo.Report
	rig.Must(t, json.Unmarshal(b, &got))
	p, c := got.Pivot, got.PowerCycle
	if p == nil || c == nil {
		t.Fatalf("a chapter is missing: %s", b)
	}
	if p.APIErrors != 0 || !p.HashEqual || p.ObjectsBefore == 0 || p.ObjectsAfter != p.ObjectsBefore || c.ObjectsLost != 0 {
		t.Errorf("something was lost: %s", b)
	}
	if p.APIWrites == 0 || p.WritesOK == 0 {
		t.Errorf("the load did not work: %s", b)
	}
	if p.WritesFailed != 0 {
		t.Errorf("%d writes failed through the pivot", p.WritesFailed)
	}
	if !strings.Contains(r.Stdout, "HashKV equal on all members") {
		t.Error("no table at the end")
	}
}

// The commands a person types: init, agents, dry run, pivot, status, journal.
func TestPivotByCommand(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 2*time.Minute)
	rig.Must(t, lab.Fill(ctx, l.Client(0), "/fill", 5))

	dry := l.Run(l.PivotArgs(0, "--dry-run")...)
	for _, want := range []string{"RegisterLearner cp-3", "MoveLeader cp-1", "RetireDirectory cp-1/seed", "done: every named node"} {
		if dry.Code != 0 || !strings.Contains(dry.Stdout, want) {
			t.Fatalf("the dry run does not show %q: %s", want, dry)
		}
	}
	if v := l.Look(ctx); len(v.Members) != 1 {
		t.Fatalf("the dry run changed the member list: %+v", v.Members)
	}

	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatal(r)
	}
	l.CheckPivoted(ctx)
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 || !strings.Contains(r.Stdout, "nothing to do") {
		t.Errorf("a second pivot: %s", r)
	}
	// From another node, with its own identity.
	st := l.Run("status", "--state-dir", l.Nodes[2].StateDir())
	if st.Code != 0 || !strings.Contains(st.Stdout, "quorum held 3/3") {
		t.Errorf("status: %s", st)
	}
	for _, line := range strings.Split(st.Stdout, "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("status line of %d columns: %q", len([]rune(line)), line)
		}
	}
	j := l.Run("journal", "--state-dir", l.Nodes[0].StateDir(), "-o", "json")
	for _, want := range []string{"MoveLeader", "RemoveMember", "StopMember", "pivot on cp-1"} {
		if j.Code != 0 || !strings.Contains(j.Stdout, want) {
			t.Errorf("the journal does not say %q", want)
		}
	}
}

// One control-plane node: the seed is removed before it is stopped.
func TestPivotOfOne(t *testing.T) {
	l := rig.Up(t, 1)
	ctx := rig.Context(t, time.Minute)
	w, err := lab.StartWriters(ctx, l.Nodes[0], 4, "/load")
	rig.Must(t, err)
	r := l.Run(l.PivotArgs(0)...)
	w.Stop()
	if r.Code != 0 {
		t.Fatal(r)
	}
	l.CheckPivoted(ctx)
	if lost, err := w.Lost(ctx, l.Client(0)); err != nil || len(lost) > 0 {
		t.Errorf("lost %v, %v", lost, err)
	}
	rm, stop := strings.Index(r.Stdout, "RemoveMember cp-1/seed"), strings.Index(r.Stdout, "StopMember cp-1/seed")
	if rm < 0 || stop < 0 || stop < rm {
		t.Errorf("the seed must be removed before it is stopped:\n%s", r.Stdout)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// The first five minutes of a person with this binary, on real processes: init,
// agent, bundles, status, plan, pivot, the same again; then what is refused.
func TestStory(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := lab.New(lab.Options{Dir: t.TempDir(), Binary: exe, Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := l.Init(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.AwaitSeed(ctx); err != nil {
		t.Fatal(err)
	}
	first := l.Nodes[0]
	state := "--state-dir=" + first.StateDir()
	// want runs a verb, its exit code must be code and all texts in what it printed.
	want := func(code int, args []string, texts ...string) (stdout string) {
		t.Helper()
		got, out, errs := cli(t, args...)
		if got != code {
			t.Errorf("%v: exit code %d, want %d\n%s%s", args, got, code, out, errs)
		}
		for _, text := range texts {
			if !strings.Contains(out+errs, text) {
				t.Errorf("%v: %q is not in\n%s%s", args, text, out, errs)
			}
		}
		return out
	}
	want(exitDone, []string{"status", state}, "quorum held 1/1", "leader cp-1/seed", "one seed on cp-1")

	nodes := []string{"cp-1=" + first.Ref.Address}
	for _, n := range l.Nodes[1:] {
		if err := l.Join(n); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n.Name+"="+n.Ref.Address)
	}
	if err := l.AwaitAgents(ctx, l.Nodes...); err != nil {
		t.Fatal(err)
	}
	pivotArgs := []string{"pivot", state, "--nodes=" + strings.Join(nodes, ",")}
	want(exitDone, append(pivotArgs, "--dry-run"), "RegisterLearner cp-2/member\n", "RetireDirectory cp-1/seed", "done:")
	want(exitDone, []string{"status", state}, "cp-1/seed") // the plan did nothing
	interruptAfterFirstLine(t, pivotArgs)
	want(exitDone, pivotArgs, "RetireDirectory", "done:")
	want(exitDone, []string{"pivot", state}, "nothing to do")

	want(exitDone, []string{"status", "--state-dir=" + l.Nodes[1].StateDir()}, "quorum held 3/3", "managed members only", "next: nothing;")
	elsewhere := []string{"--state-dir=" + t.TempDir(), "--agents=" + l.Nodes[2].Ref.Address, "--identity=" + first.PKIDir()}
	var r statusReport
	if err := json.Unmarshal([]byte(want(exitDone, append([]string{"status", "-o", "json"}, elsewhere...))), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Members) != 3 || len(r.Nodes) != 3 || r.Next.Step != "Done" || r.Certificate == nil || r.Leader == 0 {
		t.Errorf("status from elsewhere: %+v", r)
	}
	var j journalReport
	if err := json.Unmarshal([]byte(want(exitDone, append([]string{"journal", "-o", "json"}, elsewhere...))), &j); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(j.Entries, func(e wire.JournalEntry) bool { return e.Step == "RemoveMember" && e.Outcome == "ok" }) {
		t.Errorf("no removal in the journal's %d entries", len(j.Entries))
	}
	want(exitDone, []string{"journal", state, "--last=2"}, "by: pivot on cp-1")
	kept(t, l, want)

	again := []string{"init", "--node-name=cp-1", "--address=" + first.Ref.Address, "--proxy-address=" + first.Ref.ProxyAddress,
		state, "--data-dir=" + first.DataDir(), "--pki-dir=" + first.PKIDir()}
	want(exitDone, again, "made before")
	reinstalled(t, l, want)

	if err := l.Nodes[2].Kill("agent"); err != nil {
		t.Fatal(err)
	}
	want(exitRefused, []string{"attic", "prune", state, "--yes"}, "refused:", "NotSettled", "cp-3", "does not answer")
	want(exitDone, []string{"attic", "list", state}, "silent: cp-3 at "+l.Nodes[2].Ref.Address)
	want(exitDone, []string{"status", state}, "quorum held 2/3", "cp-3 at "+l.Nodes[2].Ref.Address+" is silent: ")
	want(exitRefused, []string{"pivot", state}, "refused:", "NodeSilent", "cp-3")
}

// kept is what the nodes keep of the past, and how it goes: never without --yes,
// and only what the live members hold.
func kept(t *testing.T, l *lab.Lab, want func(int, []string, ...string) string) {
	t.Helper()
	first := l.Nodes[0]
	state := "--state-dir=" + first.StateDir()
	seed := func() int {
		found, _ := filepath.Glob(filepath.Join(first.DataDir(), "attic", "*-seed-*"))
		return len(found) // the directory and its note
	}
	want(exitDone, []string{"attic", "list", state}, "cp-1  20", "whole, seed, member ", "retired 20", "stays: among the 2 newest")
	want(exitDone, []string{"attic", "list", state, "cp-2"}, "nothing lies in the attic")
	want(exitDone, []string{"attic", "prune", state, "--yes"}, "nothing may go; kept: 1 entry")
	want(exitDone, []string{"attic", "prune", state, "--keep=0"}, "may go: 1 entry", "nothing was removed")
	if seed() != 2 {
		t.Fatal("a prune without --yes removed the seed's directory")
	}
	var r atticReport
	out := want(exitDone, []string{"attic", "prune", state, "--keep=0", "--yes", "-o", "json", "cp-1", "cp-3"})
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Nodes) != 2 || len(r.Removed) != 1 || r.Removed[0].Bytes == 0 || seed() != 0 {
		t.Errorf("%v %+v, %d left", err, r, seed())
	}
	want(exitDone, []string{"journal", state, "--last=3"}, "PruneAttic: ok", "3 of 3 voters of cluster", "by: attic prune on cp-1")
	old := filepath.Join(first.StateDir(), "journal-1.jsonl")
	if err := os.WriteFile(old, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(exitDone, []string{"journal", "files", state}, "cp-3  journal.jsonl", "journal-1.jsonl 2B")
	want(exitDone, []string{"journal", "prune", state, "--keep=0"}, "journal-1.jsonl 2B, may go", "may go: 1 file")
	want(exitDone, []string{"journal", "prune", state, "--keep=0", "--yes"}, "cp-1: removed journal files: 1")
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// reinstalled is CASES L3: a new cluster over a node's old data directory is
// refused with what was found, whether its etcd runs or not, and changes nothing.
func reinstalled(t *testing.T, l *lab.Lab, want func(int, []string, ...string) string) {
	t.Helper()
	n := l.Nodes[2]
	dir := t.TempDir()
	args := []string{"init", "--node-name=new", "--address=" + n.Ref.Address, "--proxy-address=" + n.Ref.ProxyAddress,
		"--state-dir=" + filepath.Join(dir, "state"), "--pki-dir=" + filepath.Join(dir, "pki", "etcd"), "--data-dir=" + n.DataDir()}
	want(exitRefused, args, "DataFound", "running directory", "no etcd running there")
	if err := n.Kill("all"); err != nil {
		t.Fatal(err)
	}
	want(exitRefused, args, "DataFound", "whole directory of member ", " of cluster ", ", revision ", ", last written 20", n.Identity().Attic())
	want(exitDone, append(args, "--dry-run"), "warnings: init would be refused", "whole directory of member ")
	if left := tree(t, dir); len(left) != 0 {
		t.Errorf("a refused init wrote %d files", len(left))
	}
	if err := n.StartAgent(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := n.AwaitWritable(ctx); err != nil {
		t.Fatal(err)
	}
}

// interruptAfterFirstLine is Ctrl-C early in a pivot: it must say how to go on.
func interruptAfterFirstLine(t *testing.T, args []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs bytes.Buffer
	a := newApp(writerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil }), &errs, nil)
	a.configFile = ""
	if code := a.run(ctx, args); code != exitFailed || !strings.Contains(errs.String(), "run the same command again to go on") {
		t.Errorf("an interrupted pivot: exit code %d, %s", code, errs.String())
	}
}

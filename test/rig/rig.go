// Package rig gives tests a lab: real agents, proxies and etcds of the built
// binary on loopback addresses of their own, cleaned up after the test.
package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Root is the repository's root.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

var build = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(Root(), "bin", "bootstrap")
	cmd := exec.Command("make", "build")
	cmd.Dir = Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make build: %w\n%s", err, out)
	}
	return bin, nil
})

// Binary is the bootstrap binary of this tree, built once per test process.
func Binary(t testing.TB) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Etcd is the path of a real etcd's binary ("etcd", "etcdctl", "etcdutl"),
// built on first need.
func Etcd(t testing.TB, version, name string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(Root(), "test", "kube", "ensure"), "etcd", version)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), name)
}

// KubeAPIServer is the path of a real kube-apiserver, built on first need.
func KubeAPIServer(t testing.TB) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(Root(), "test", "kube", "ensure"), "kube")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "kube-apiserver")
}

// Lab is a lab of a test.
type Lab struct {
	*lab.Lab
	t testing.TB
}

// New makes a lab of n nodes; nothing runs yet.
func New(t testing.TB, n int, flags ...string) *Lab {
	t.Helper()
	l, err := lab.New(lab.Options{Dir: t.TempDir(), Binary: Binary(t), Nodes: n, Flags: flags, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("clean up: %v", err)
		}
		if t.Failed() {
			dump(t, l)
		}
	})
	return &Lab{Lab: l, t: t}
}

// dump logs the ends of every log of a failed test.
func dump(t testing.TB, l *lab.Lab) {
	for _, n := range l.Nodes {
		logs, _ := filepath.Glob(filepath.Join(n.StateDir(), "logs", "*.log"))
		for _, f := range append([]string{filepath.Join(n.Dir, "agent.log")}, logs...) {
			b, err := os.ReadFile(f)
			if err != nil || len(b) == 0 {
				continue
			}
			if len(b) > 3000 {
				b = b[len(b)-3000:]
			}
			rel, _ := filepath.Rel(l.Dir, f)
			t.Logf("--- end of %s\n%s", rel, b)
		}
	}
}

// Up makes a lab whose seed serves and whose agents all answer.
func Up(t testing.TB, n int, flags ...string) *Lab {
	t.Helper()
	l := New(t, n, flags...)
	ctx := Context(t, 60*time.Second)
	Must(t, l.Init(ctx))
	for _, node := range l.Nodes[1:] {
		Must(t, l.Join(node))
	}
	Must(t, l.AwaitSeed(ctx))
	Must(t, l.AwaitAgents(ctx, l.Nodes...))
	return l
}

// Context ends with the test or after d.
func Context(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Must fails the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Ran is how a run of the binary ended.
type Ran struct {
	Code           int
	Stdout, Stderr string
}

func (r Ran) String() string {
	return fmt.Sprintf("exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
}

// Run runs the binary to its end.
func (l *Lab) Run(args ...string) Ran {
	l.t.Helper()
	return RunBinary(l.t, l.Binary, args...)
}

// RunBinary runs any binary to its end, five minutes at most.
func RunBinary(t testing.TB, bin string, args ...string) Ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	r := Ran{Stdout: out.String(), Stderr: errs.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		t.Fatalf("%s: %v", cmd, err)
	}
	return r
}

// NodesFlag is --nodes for the first n nodes.
func (l *Lab) NodesFlag(n int) string {
	var rows []string
	for _, node := range l.Nodes[:n] {
		rows = append(rows, node.Name+"="+node.Ref.Address)
	}
	return "--nodes=" + strings.Join(rows, ",")
}

// PivotArgs are the words of `bootstrap pivot` from node i over all nodes.
func (l *Lab) PivotArgs(i int, more ...string) []string {
	return append([]string{"pivot", "--state-dir", l.Nodes[i].StateDir(), "--log-level", "warn", l.NodesFlag(len(l.Nodes))}, more...)
}

// Look asks all agents once.
func (l *Lab) Look(ctx context.Context) *driver.View {
	l.t.Helper()
	d, release, err := l.Nodes[0].Driver("test", driver.Config{Nodes: l.Refs()})
	if err != nil { // a driver runs with that state directory: look from another
		return l.LookFrom(ctx, len(l.Nodes)-1)
	}
	defer release()
	v, err := d.Look(ctx)
	Must(l.t, err)
	return v
}

// LookFrom asks all agents once, with the driver's identity of node i.
func (l *Lab) LookFrom(ctx context.Context, i int) *driver.View {
	l.t.Helper()
	d, release, err := l.Nodes[i].Driver("test", driver.Config{Nodes: l.Refs()})
	Must(l.t, err)
	defer release()
	v, err := d.Look(ctx)
	Must(l.t, err)
	return v
}

// Client connects through node i's proxy, or to endpoints.
func (l *Lab) Client(i int, endpoints ...string) *clientv3.Client {
	l.t.Helper()
	c, err := l.Nodes[i].Client(endpoints...)
	Must(l.t, err)
	l.t.Cleanup(func() { c.Close() })
	return c
}

// Eventually polls until ok says so, or fails after d with what was last said.
func (l *Lab) Eventually(d time.Duration, what string, ok func() (bool, string)) {
	l.t.Helper()
	end := time.Now().Add(d)
	for {
		done, found := ok()
		if done {
			return
		}
		if time.Now().After(end) {
			l.t.Fatalf("waited %s for %s; last found: %s", d, what, found)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// CheckPivoted asserts the end state of a pivot: one voter per node, all
// serving, no seed in list, slot or targets, equal hashes, one attic entry.
func (l *Lab) CheckPivoted(ctx context.Context) {
	l.t.Helper()
	l.CheckMembers(ctx)
	for i, n := range l.Nodes {
		attic, _ := filepath.Glob(filepath.Join(n.DataDir(), "attic", "*-seed-*[0-9a-f]"))
		if want := map[bool]int{true: 1}[i == 0]; len(attic) != want {
			l.t.Errorf("%s: %d seeds in the attic, want %d", n.Name, len(attic), want)
		}
	}
}

// CheckMembers is CheckPivoted wherever seeds were before.
func (l *Lab) CheckMembers(ctx context.Context) {
	l.t.Helper()
	Must(l.t, l.AwaitAgents(ctx, l.Nodes...)) // one look of a busy machine may miss one
	v := l.Look(ctx)
	if len(v.Members) != len(l.Nodes) {
		l.t.Fatalf("%d members, want one on each of %d nodes: %+v", len(v.Members), len(l.Nodes), v.Members)
	}
	for _, m := range v.Members {
		if m.Learner || m.Name == "" {
			l.t.Errorf("member %s %q: learner=%t", m.ID, m.Name, m.Learner)
		}
	}
	var endpoints []string
	for _, n := range l.Nodes {
		obs := v.Node(n.Name).Obs
		if obs == nil {
			l.t.Fatalf("%s is silent: %v", n.Name, v.Node(n.Name).Err)
		}
		if sl := obs.SlotOf(wire.SlotSeed); sl.Class != wire.ClassAbsent {
			l.t.Errorf("%s: the seed's slot is %s", n.Name, sl.Class)
		}
		if sl := obs.SlotOf(wire.SlotMember); sl.Process.State != wire.ProcServing {
			l.t.Errorf("%s: the member is %s", n.Name, sl.Process.State)
		}
		if p := obs.Proxy; p == nil || len(p.Targets) != len(l.Nodes) {
			l.t.Errorf("%s: proxy %+v", n.Name, p)
		}
		for _, tomb := range obs.Tombstones {
			if tomb.Phase == wire.TombIntended {
				l.t.Errorf("%s: tombstone of %s is still %s", n.Name, tomb.MemberID, tomb.Phase)
			}
		}
		endpoints = append(endpoints, n.Ref.HostPort(2379))
	}
	equal, words, err := l.Nodes[0].HashKV(ctx, endpoints)
	Must(l.t, err)
	if !equal {
		l.t.Errorf("hashes differ: %s", words)
	}
}

// CheckUnpivoted asserts the end state of an unpivot: the seed on that node is
// the only member and target, every member's slot is empty, no removal is left
// half decided.
func (l *Lab) CheckUnpivoted(ctx context.Context, node string) {
	l.t.Helper()
	v := l.Look(ctx)
	if len(v.Members) != 1 || v.Members[0].Learner {
		l.t.Fatalf("the seed is to be the only member: %+v", v.Members)
	}
	for _, n := range l.Nodes {
		obs := v.Node(n.Name).Obs
		if obs == nil {
			l.t.Fatalf("%s is silent: %v", n.Name, v.Node(n.Name).Err)
		}
		seed, member := obs.SlotOf(wire.SlotSeed), obs.SlotOf(wire.SlotMember)
		if serves := seed.Process.State == wire.ProcServing; serves != (n.Name == node) {
			l.t.Errorf("%s: its seed slot is %s, %s", n.Name, seed.Class, seed.Process.State)
		}
		if member.Class != wire.ClassAbsent || member.Wanted {
			l.t.Errorf("%s: its member slot is %s, wanted %t", n.Name, member.Class, member.Wanted)
		}
		if p := obs.Proxy; p == nil || len(p.Targets) != 1 || p.Targets[0].MemberID != v.Members[0].ID || !p.Targets[0].Admitted {
			l.t.Errorf("%s: proxy %+v", n.Name, p)
		}
		for _, tomb := range obs.Tombstones {
			if tomb.Phase == wire.TombIntended {
				l.t.Errorf("%s: tombstone of %s is still %s", n.Name, tomb.MemberID, tomb.Phase)
			}
		}
	}
}

package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/proxy"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// The test binary is also the bootstrap binary that agents start children with.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "etcd", "proxy", datadir.ChildVerb:
			os.Exit(bootstrap(os.Args[1], os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

func bootstrap(verb string, args []string) int {
	if verb == datadir.ChildVerb {
		return datadir.ChildMain(args, os.Stdout)
	}
	fs := flag.NewFlagSet(verb, flag.ExitOnError)
	state, slot, binary := fs.String("state-dir", "", ""), fs.String("slot", "", ""), fs.String("etcd-binary", "", "")
	_ = fs.Parse(args)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	if verb == "etcd" {
		err = member.Run(ctx, member.Options{StateDir: *state, Slot: wire.Slot(*slot), EtcdBinary: *binary, Args: fs.Args(), Log: log})
	} else {
		var id wire.Identity
		if id, err = ReadIdentity(*state); err == nil {
			err = proxy.Run(ctx, proxy.Config{Identity: id, Logger: log})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return member.ExitCode(err)
}

// rig is a few nodes in one block of loopback, each with an agent that the test
// can end and start again.
type rig struct {
	t      *testing.T
	ids    []wire.Identity
	ends   map[string]func()
	client *agentclient.Client
	act    wire.Act
}

var testPorts = wire.DefaultPorts

// freeBlock finds a 127.x.y.0/24 in which nobody listens on our ports, and
// keeps it by listening on .1 until the test is over.
func freeBlock(t *testing.T) string {
	t.Helper()
	for range 50 {
		var b [2]byte
		_, _ = rand.Read(b[:])
		block := fmt.Sprintf("127.%d.%d.", 1+int(b[0])%254, b[1])
		l, err := net.Listen("tcp", fmt.Sprintf("%s1:%d", block, testPorts.Agent))
		if err != nil {
			continue
		}
		t.Cleanup(func() { l.Close() })
		return block
	}
	t.Fatal("no free block of loopback")
	return ""
}

func newRig(t *testing.T, n int) *rig {
	t.Helper()
	root, block := t.TempDir(), freeBlock(t)
	r := &rig{t: t, ends: map[string]func(){}}
	var nodes []wire.NodeRef
	for i := range n {
		nodes = append(nodes, wire.NodeRef{Name: fmt.Sprintf("cp-%d", i+1), Address: fmt.Sprintf("%s%d", block, 11+i), ProxyAddress: fmt.Sprintf("%s%d", block, 21+i)})
	}
	for _, node := range nodes {
		dir := filepath.Join(root, node.Name)
		id := wire.Identity{V: wire.V, Node: node, Ports: testPorts, DataDir: filepath.Join(dir, "etcd"), StateDir: filepath.Join(dir, "state"),
			PKIDir: filepath.Join(dir, "pki", "etcd"), Runtime: wire.RuntimeProcess, SeedRuntime: wire.RuntimeProcess}
		r.pki(id, nodes)
		r.ids = append(r.ids, id)
	}
	conf, err := pki.ClientConfig(r.ids[0].PKIDir, pki.RoleDriver)
	if err != nil {
		t.Fatal(err)
	}
	r.client = agentclient.NewClient(conf, testPorts.Agent)
	t.Cleanup(r.client.Close)
	t.Cleanup(r.killAll)
	return r
}

// pki makes the node's certificates under the first node's CA.
func (r *rig) pki(id wire.Identity, nodes []wire.NodeRef) {
	r.t.Helper()
	if err := os.MkdirAll(id.PKIDir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	if len(r.ids) > 0 {
		for _, file := range []func(string, pki.Name) string{pki.CertFile, pki.KeyFile} {
			b, err := os.ReadFile(file(r.ids[0].PKIDir, pki.CA))
			if err == nil {
				err = os.WriteFile(file(id.PKIDir, pki.CA), b, 0o600)
			}
			if err != nil {
				r.t.Fatal(err)
			}
		}
	}
	if _, _, err := pki.EnsureNode(pki.Params{PKIDir: id.PKIDir, Node: id.Node, ProxyAddresses: pki.ProxyAddresses(nodes), DialAddresses: []string{"127.0.0.1"}}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) nodes() (out []wire.NodeRef) {
	for _, id := range r.ids {
		out = append(out, id.Node)
	}
	return out
}

// prepare makes the first node a seed's and the others empty ones.
func (r *rig) prepare() {
	r.t.Helper()
	token, err := member.NewToken(1, rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	in := Initial{Identity: r.ids[0], SeedToken: token, Spec: wire.Spec{Target: wire.TargetSeed, Nodes: r.nodes()[:1], Ports: testPorts}}
	for range 2 { // done again it changes nothing
		if err := Prepare(in); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, id := range r.ids[1:] {
		if err := WriteBundleState(id); err != nil {
			r.t.Fatal(err)
		}
	}
}

// start runs node i's agent until end.
func (r *rig) start(i int) {
	r.t.Helper()
	id := r.ids[i]
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	log := slog.New(slog.NewTextHandler(r.t.Output(), nil)).With("node", id.Node.Name)
	go func() { done <- Run(ctx, Config{StateDir: id.StateDir, Logger: log, Ready: func() { close(ready) }}) }()
	select {
	case <-ready:
	case err := <-done:
		cancel()
		r.t.Fatalf("agent of %s: %v", id.Node.Name, err)
	}
	r.ends[id.Node.Name] = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("agent of %s: %v", id.Node.Name, err)
		}
		delete(r.ends, id.Node.Name)
	}
}

func (r *rig) end(i int) { r.ends[r.ids[i].Node.Name]() }

// killAll ends agents, then whatever still holds a lock of this rig.
func (r *rig) killAll() {
	for _, id := range r.ids {
		if r.ends[id.Node.Name] == nil {
			continue
		}
		// A proxy started a moment ago holds no lock yet, and could not be found.
		for range 500 {
			if pid, err := datadir.HolderPID(id.State(wire.FileProxyLock)); err != nil || pid != 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for _, end := range r.ends {
		end()
	}
	for _, id := range r.ids {
		for _, lock := range []string{id.State(wire.FileProxyLock), id.SlotLock(wire.SlotSeed), id.SlotLock(wire.SlotMember)} {
			for range 200 {
				pid, err := datadir.HolderPID(lock)
				if err != nil || pid == 0 || pid == os.Getpid() {
					break
				}
				_ = syscall.Kill(pid, syscall.SIGKILL)
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

func (r *rig) observe(i int) *wire.Observation {
	r.t.Helper()
	o, err := r.client.Observe(r.t.Context(), r.ids[i].Node.Address)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// await observes node i until ok.
func (r *rig) await(i int, what string, ok func(*wire.Observation) bool) *wire.Observation {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		o := r.observe(i)
		if ok(o) {
			return o
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: not within 20 s: %+v", what, o)
		}
	}
}

// grant takes number at every node, for round 1 and on.
func (r *rig) grant(driver string, number uint64, epoch wire.Epoch) {
	r.t.Helper()
	spec := wire.Spec{V: wire.V, Epoch: epoch.Number, Fence: number, Count: 1, Target: wire.TargetMembers, Nodes: r.nodes(), Ports: testPorts}
	r.act = wire.Act{V: wire.V, Driver: driver, Number: number, Round: 1, Epoch: epoch.Number}
	for _, n := range r.nodes() {
		r.must(errOf(r.client.GrantTake(r.t.Context(), n.Address, wire.GrantRequest{Driver: driver, DriverName: driver, Number: number, Round: 1, TTLMillis: time.Minute.Milliseconds(), Epoch: epoch, Spec: spec})))
		r.must(r.client.Spec(r.t.Context(), n.Address, wire.SpecRequest{Act: r.act, Spec: spec}))
	}
}

func errOf[T any](_ T, err error) error { return err }

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) refused(err error, name string) {
	r.t.Helper()
	var ref *wire.Refusal
	if !errors.As(err, &ref) || ref.Name != name {
		r.t.Errorf("got %v, want refusal %s", err, name)
	}
}

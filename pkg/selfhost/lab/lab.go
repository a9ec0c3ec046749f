package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Options of a lab.
type Options struct {
	// Dir takes a folder per node; it must exist and is the caller's to remove.
	Dir string
	// Binary is the bootstrap binary every node runs.
	Binary string
	// Nodes is how many; the first is the seed's.
	Nodes int
	// Flags are given to `bootstrap init`, for example --quota-bytes or --etcd-binary.
	Flags  []string
	Logger *slog.Logger
}

// Lab is some nodes on one machine.
type Lab struct {
	Options
	Block *Block
	Nodes []*Node
}

// Node is one machine of the lab: a folder, an address, an agent.
type Node struct {
	Name  string
	Ref   wire.NodeRef
	Dir   string
	lab   *Lab
	agent *exec.Cmd
}

// New takes a block of addresses; no process is started.
func New(o Options) (*Lab, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b, err := TakeBlock()
	if err != nil {
		return nil, err
	}
	l := &Lab{Options: o, Block: b}
	for i := range o.Nodes {
		name := fmt.Sprintf("cp-%d", i+1)
		n := &Node{Name: name, Dir: filepath.Join(o.Dir, name), lab: l,
			Ref: wire.NodeRef{Name: name, Address: b.Node(i), ProxyAddress: b.Proxy(i)}}
		if err := os.MkdirAll(n.Dir, 0o700); err != nil {
			b.Release()
			return nil, err
		}
		l.Nodes = append(l.Nodes, n)
	}
	return l, nil
}

// Refs of all nodes.
func (l *Lab) Refs() []wire.NodeRef {
	var out []wire.NodeRef
	for _, n := range l.Nodes {
		out = append(out, n.Ref)
	}
	return out
}

// StateDir, DataDir and PKIDir of a node; no two nodes share any.
func (n *Node) StateDir() string { return filepath.Join(n.Dir, "state") }

// DataDir holds the slots and the attic.
func (n *Node) DataDir() string { return filepath.Join(n.Dir, "data") }

// PKIDir is in kubeadm's layout: apiserver-etcd-client lies in its parent.
func (n *Node) PKIDir() string { return filepath.Join(n.Dir, "pki", "etcd") }

// Identity as far as paths go.
func (n *Node) Identity() wire.Identity {
	return wire.Identity{V: wire.V, Node: n.Ref, Ports: wire.DefaultPorts, DataDir: n.DataDir(), StateDir: n.StateDir(), PKIDir: n.PKIDir(),
		Runtime: wire.RuntimeProcess, SeedRuntime: wire.RuntimeProcess}
}

// certParams name the proxies of all five possible nodes, so that nodes may join
// later, and as addresses to dial from those of all nodes: all are this machine.
func (l *Lab) certParams(n *Node) pki.Params {
	p := pki.Params{PKIDir: n.PKIDir(), Node: n.Ref, Hostname: n.Name, DialAddresses: []string{"127.0.0.1"}}
	for i := range 5 {
		p.ProxyAddresses = append(p.ProxyAddresses, l.Block.Proxy(i))
	}
	for _, o := range l.Nodes {
		p.ProxyAddresses = append(p.ProxyAddresses, o.Ref.Proxy())
		p.DialAddresses = append(p.DialAddresses, o.Ref.Address)
	}
	return p
}

// Command runs the binary with args and returns what it printed; an error
// carries its stderr.
func (l *Lab) Command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, l.Binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", cmd, err, errs.String())
	}
	return out.String(), nil
}

// Init prepares the first node and starts its agent, which starts the seed.
func (l *Lab) Init(ctx context.Context) error {
	n := l.Nodes[0]
	// The lab's proxies have addresses of their own, which init cannot know: it
	// uses the certificates that are there.
	if _, _, err := pki.EnsureNode(l.certParams(n)); err != nil {
		return err
	}
	args := append([]string{"init", "--node-name", n.Name, "--address", n.Ref.Address, "--proxy-address", n.Ref.ProxyAddress,
		"--data-dir", n.DataDir(), "--state-dir", n.StateDir(), "--pki-dir", n.PKIDir()}, l.Flags...)
	if _, err := l.Command(ctx, args...); err != nil {
		return err
	}
	return n.StartAgent()
}

// Join gives a further node its bundle and starts its agent.
func (l *Lab) Join(n *Node) error {
	first := l.Nodes[0]
	p := l.certParams(n)
	p.PKIDir = first.PKIDir()
	b, err := pki.NewBundle(pki.BundleParams{Params: p, Identity: first.Identity()})
	if err != nil {
		return err
	}
	file := filepath.Join(n.Dir, "bundle.json")
	if err := b.WriteFile(file); err != nil {
		return err
	}
	return n.startAgent("--bundle", file, "--data-dir", n.DataDir(), "--pki-dir", n.PKIDir())
}

// StartAgent starts the node's agent in a session of its own, its log in the
// node's folder.
func (n *Node) StartAgent() error { return n.startAgent() }

func (n *Node) startAgent(more ...string) error {
	log, err := os.OpenFile(filepath.Join(n.Dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(n.lab.Binary, append([]string{"agent", "--state-dir", n.StateDir()}, more...)...)
	cmd.Stderr, cmd.Stdout = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the agent of %s: %w", n.Name, err)
	}
	n.agent = cmd
	go cmd.Wait() //nolint:errcheck // reaped here; how it ended is in its log
	return nil
}

// Locks of a node's processes, the agent's first, so that nothing restarts what is killed next.
func (n *Node) locks() []string {
	id := n.Identity()
	return []string{id.State(wire.FileAgentLock), id.State(wire.FileProxyLock), id.SlotLock(wire.SlotSeed), id.SlotLock(wire.SlotMember)}
}

// Kill sends SIGKILL to whatever holds one of the node's locks and waits until
// it is free. Which: "agent", "proxy", "seed", "member" or "all".
func (n *Node) Kill(which string) error { return n.Signal(which, syscall.SIGKILL) }

// Signal sends sig to the processes; SIGKILL waits for their end.
func (n *Node) Signal(which string, sig syscall.Signal) error {
	for i, lock := range n.locks() {
		if which != "all" && which != [...]string{"agent", "proxy", "seed", "member"}[i] {
			continue
		}
		if err := signalHolder(lock, sig); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	return nil
}

func signalHolder(lock string, sig syscall.Signal) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		pid, err := datadir.HolderPID(lock)
		if err == nil && pid == 0 {
			if sig == syscall.SIGKILL {
				return nil
			}
			return fmt.Errorf("nobody holds %s, so there is nobody to signal", lock)
		}
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal %d to pid %d, which holds %s: %w", sig, pid, lock, err)
		}
		if sig != syscall.SIGKILL {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("pid %d still holds %s", pid, lock)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// PowerOff is SIGKILL to everything but the disks.
func (l *Lab) PowerOff() error {
	var errs []error
	for _, which := range []string{"agent", "all"} { // all agents first
		for _, n := range l.Nodes {
			errs = append(errs, n.Kill(which))
		}
	}
	return errors.Join(errs...)
}

// PowerOn starts every agent; in the process runtime that is what power on means.
func (l *Lab) PowerOn() error {
	var errs []error
	for _, n := range l.Nodes {
		errs = append(errs, n.StartAgent())
	}
	return errors.Join(errs...)
}

// Close kills everything and releases the addresses; the folders stay.
func (l *Lab) Close() error {
	err := l.PowerOff()
	l.Block.Release()
	return err
}

// Driver makes a driver with node n's identity and key.
func (n *Node) Driver(name string, c driver.Config) (*driver.Driver, func(), error) {
	tc, err := pki.ClientConfig(n.PKIDir(), pki.RoleDriver)
	if err != nil {
		return nil, nil, err
	}
	key, release, err := driver.Key(n.StateDir())
	if err != nil {
		return nil, nil, err
	}
	c.TLS, c.Key, c.Name = tc, key, fmt.Sprintf("%s on %s, pid %d", name, n.Name, os.Getpid())
	if len(c.Nodes) == 0 {
		c.Nodes = []wire.NodeRef{n.Ref}
	}
	if c.Logger == nil {
		c.Logger = n.lab.Logger
	}
	d := driver.New(c)
	return d, func() { d.Close(); release() }, nil
}

// EtcdTLS is the apiserver's client identity towards etcd on node n.
func (n *Node) EtcdTLS() (*tls.Config, error) {
	return pki.ClientConfig(n.PKIDir(), pki.RoleEtcdClient)
}

// Client connects to etcd at endpoints (host:port), default the node's proxy.
func (n *Node) Client(endpoints ...string) (*clientv3.Client, error) {
	tc, err := n.EtcdTLS()
	if err != nil {
		return nil, err
	}
	if len(endpoints) == 0 {
		endpoints = []string{net.JoinHostPort(n.Ref.Proxy(), "2379")}
	}
	for i, e := range endpoints {
		endpoints[i] = "https://" + e
	}
	return clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: tc, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
}

// AwaitSeed waits until a write through the first node's proxy is acknowledged.
func (l *Lab) AwaitSeed(ctx context.Context) error { return l.Nodes[0].AwaitWritable(ctx) }

// AwaitWritable writes through the node's proxy until one is acknowledged.
func (n *Node) AwaitWritable(ctx context.Context) error {
	c, err := n.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := c.Put(once, "/lab/writable", time.Now().UTC().Format(time.RFC3339Nano))
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no write through the proxy of %s was acknowledged: %w (agent log: %s)", n.Name, err, filepath.Join(n.Dir, "agent.log"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// AwaitAgents waits until every node's agent answers.
func (l *Lab) AwaitAgents(ctx context.Context, nodes ...*Node) error {
	d, release, err := l.Nodes[0].Driver("lab", driver.Config{Nodes: refs(nodes)})
	if err != nil {
		return err
	}
	defer release()
	for {
		v, err := d.Look(ctx)
		if err != nil {
			return err
		}
		silent := ""
		for _, nv := range v.Nodes {
			if nv.Obs == nil {
				silent += fmt.Sprintf(" %s: %v;", nv.Ref.Name, nv.Err)
			}
		}
		if silent == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("agents do not answer:%s %w", silent, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func refs(nodes []*Node) []wire.NodeRef {
	var out []wire.NodeRef
	for _, n := range nodes {
		out = append(out, n.Ref)
	}
	return out
}

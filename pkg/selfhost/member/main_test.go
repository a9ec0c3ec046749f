package member_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// The test binary is also `bootstrap etcd` and the reader.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case datadir.ChildVerb:
			os.Exit(datadir.ChildMain(os.Args[2:], os.Stdout))
		case "test-run":
			err := member.Run(context.Background(), member.Options{
				StateDir: os.Args[2], Slot: wire.Slot(os.Args[3]), EtcdBinary: os.Args[4], Args: os.Args[5:],
				Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), LockWait: 200 * time.Millisecond,
			})
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			os.Exit(member.ExitCode(err))
		}
	}
	os.Exit(m.Run())
}

// node is a node on a loopback address of its own, with certificates.
type node struct {
	t  *testing.T
	id wire.Identity
}

func newNode(t *testing.T) *node {
	t.Helper()
	root := t.TempDir()
	id := wire.Identity{V: wire.V, Node: wire.NodeRef{Name: "cp-1", Address: freeAddress(t)}, Ports: wire.DefaultPorts,
		DataDir: filepath.Join(root, "etcd"), StateDir: filepath.Join(root, "state"), PKIDir: filepath.Join(root, "pki", "etcd")}
	if _, _, err := pki.EnsureNode(pki.Params{PKIDir: id.PKIDir, Node: id.Node}); err != nil {
		t.Fatal(err)
	}
	if err := durable.MkdirAll(id.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteJSON(id.State(wire.FileIdentity), id); err != nil {
		t.Fatal(err)
	}
	return &node{t, id}
}

// settings elect fast.
var settings = wire.Spec{Settings: wire.Settings{HeartbeatMillis: 10, ElectionMillis: 100}}

func (n *node) seedArgs(version string) []string {
	n.t.Helper()
	token, err := member.NewToken(1, rand.Reader)
	if err != nil {
		n.t.Fatal(err)
	}
	args, err := member.Args(n.id, settings, wire.SlotSeed, member.StartInfo{Epoch: 1, State: member.StateNew, Token: token, EtcdVersion: version})
	if err != nil {
		n.t.Fatal(err)
	}
	return args
}

// process is a `bootstrap etcd` with its log.
type process struct {
	*exec.Cmd
	t   *testing.T
	log string
}

func (n *node) start(slot wire.Slot, binary string, args ...string) *process {
	n.t.Helper()
	log, err := os.CreateTemp(n.t.TempDir(), "log")
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	p := &process{Cmd: exec.Command(os.Args[0], append([]string{"test-run", n.id.StateDir, string(slot), binary}, args...)...), t: n.t, log: log.Name()}
	p.Stderr = log
	// Neither may reach etcd: it would refuse to start, or listen elsewhere.
	p.Env = append(os.Environ(), "ETCD_LISTEN_CLIENT_URLS=http://192.0.2.1:1", "ETCD_SELFHOST_STATE_DIR=/nowhere")
	if err := p.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	return p
}

// exit waits for the end and returns exit code and log.
func (p *process) exit(within time.Duration) (int, string) {
	p.t.Helper()
	done := make(chan struct{})
	go func() { _ = p.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(within):
		_ = p.Process.Kill()
		<-done
		p.t.Fatalf("still there after %s:\n%s", within, p.tail())
	}
	return p.ProcessState.ExitCode(), p.tail()
}

func (p *process) term() (int, string) {
	p.t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	return p.exit(15 * time.Second)
}

func (p *process) tail() string {
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

func (n *node) client(slot wire.Slot) *clientv3.Client {
	n.t.Helper()
	tls, err := transport.TLSInfo{
		CertFile: filepath.Join(n.id.PKIDir, "healthcheck-client.crt"), KeyFile: filepath.Join(n.id.PKIDir, "healthcheck-client.key"),
		TrustedCAFile: filepath.Join(n.id.PKIDir, "ca.crt"),
	}.ClientConfig()
	if err != nil {
		n.t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{member.ClientURL(n.id.Node, n.id.Ports, slot)}, TLS: tls})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	return c
}

func (n *node) put(slot wire.Slot, key string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := n.client(slot)
	defer c.Close()
	// Refused until it listens; the client redials, its own backoff bounds the rate.
	for {
		_, err := c.Put(ctx, key, "v")
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			n.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (n *node) has(slot wire.Slot, key string) bool {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := n.client(slot).Get(ctx, key, clientv3.WithSerializable())
	if err != nil {
		n.t.Fatal(err)
	}
	return r.Count == 1
}

// stockEtcd finds a built etcd, or skips.
func stockEtcd(t *testing.T, version string) string {
	t.Helper()
	cache := os.Getenv("ETCD_SELFHOST_CACHE")
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Skip("no cache directory:", err)
		}
		cache = filepath.Join(base, "etcd-selfhost")
	}
	path := filepath.Join(cache, "etcd", version, "etcd")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not built; `test/kube/ensure etcd %s` builds it", path, version)
	}
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		a := fmt.Sprintf("127.%d.%d.1", 1+mathrand.IntN(250), 1+mathrand.IntN(250))
		l, err := net.Listen("tcp", a+":12380")
		if err != nil {
			continue
		}
		l.Close()
		return a
	}
	t.Fatal("no free loopback address")
	return ""
}

func read(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

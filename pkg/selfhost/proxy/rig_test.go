package proxy

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

const (
	testCluster = wire.ID(0xc1)
	patience    = 10 * time.Second // for what must happen; never slept through
)

// rig is a proxy's surroundings: a loopback block of its own, a PKI, a state directory.
type rig struct {
	testing.TB
	prefix string // "127.x.y."
	id     wire.Identity
	serial uint64
	client Client
}

func newRig(t testing.TB) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{TB: t}
	for i := 0; r.prefix == ""; i++ {
		n := (os.Getpid()*7 + i) % (250 * 250)
		prefix := fmt.Sprintf("127.%d.%d.", 4+n/250, 1+n%250)
		if l, err := net.Listen("tcp", prefix+"1:2378"); err == nil { // reserves the block
			t.Cleanup(func() { l.Close() })
			r.prefix = prefix
		} else if i > 1000 {
			t.Fatal("no free loopback block: ", err)
		}
	}
	r.id = wire.Identity{V: wire.V, Ports: wire.DefaultPorts, StateDir: filepath.Join(dir, "state"), PKIDir: filepath.Join(dir, "pki"),
		Node: wire.NodeRef{Name: "cp-1", Address: r.prefix + "11", ProxyAddress: r.prefix + "21"}}
	r.client = Client{Sock: r.id.State(wire.FileProxySock)}
	for _, d := range []string{r.id.StateDir, r.id.PKIDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.makePKI()
	return r
}

// makePKI writes ca, server and healthcheck-client certificates for the block.
func (r *rig) makePKI() {
	caKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd-ca"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	write := func(name string, tmpl *x509.Certificate, key *ecdsa.PrivateKey) {
		der, err := x509.CreateCertificate(rand.Reader, tmpl, ca, &key.PublicKey, caKey)
		if err != nil {
			r.Fatal(err)
		}
		k, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			r.Fatal(err)
		}
		for ext, b := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: k}} {
			if err := os.WriteFile(filepath.Join(r.id.PKIDir, name+ext), pem.EncodeToMemory(b), 0o600); err != nil {
				r.Fatal(err)
			}
		}
	}
	write("ca", ca, caKey)
	leaf := func(n int64, ips ...net.IP) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(n), Subject: pkix.Name{CommonName: fmt.Sprint("leaf-", n)}, IPAddresses: ips,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter}
	}
	ips := []net.IP{net.ParseIP("127.0.0.1")} // where peers on loopback dial from
	for i := 11; i <= 25; i++ {
		ips = append(ips, net.ParseIP(fmt.Sprint(r.prefix, i)))
	}
	for i, name := range []string{"server", "healthcheck-client"} {
		key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		write(name, leaf(int64(2+i), ips[:len(ips)*(1-i)]...), key)
	}
}

func (r *rig) path(name string) string { return filepath.Join(r.id.PKIDir, name) }

// run starts a proxy; stop ends it and fails the test unless it ends cleanly.
func (r *rig) run(change func(*Config)) (stop func()) {
	r.Helper()
	cfg := Config{Identity: r.id, Logger: slog.New(slog.NewTextHandler(logTo{r.TB}, nil))}
	if _, bench := r.TB.(*testing.B); bench {
		cfg.Logger = nil
	}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					r.Error("proxy: ", err)
				}
			case <-time.After(patience):
				r.Error("the proxy did not stop")
			}
		})
	}
	r.Cleanup(stop)
	r.await("the control socket answers", func() bool { _, err := r.client.Status(context.Background()); return err == nil })
	return stop
}

type logTo struct{ testing.TB }

func (l logTo) Write(b []byte) (int, error) {
	l.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func (r *rig) await(what string, ok func() bool) {
	r.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			s, err := r.client.Status(context.Background())
			r.Fatalf("in %v never: %s; status %+v, %v", patience, what, s, err)
		}
	}
}

func (r *rig) status() *wire.ProxyStatus {
	r.Helper()
	s, err := r.client.Status(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// verdict is the status of the target at address.
func (r *rig) verdict(address string) wire.ProxyTargetStatus {
	r.Helper()
	for _, t := range r.status().Targets {
		if t.Address == address {
			return t
		}
	}
	return wire.ProxyTargetStatus{}
}

func (r *rig) targets(ts ...wire.ProxyTarget) {
	r.Helper()
	r.serial++
	r.write(wire.Targets{V: wire.V, Serial: r.serial, Epoch: 1, ClusterID: testCluster, Targets: ts, ConfirmedBoot: BootID()})
}

func (r *rig) write(ts wire.Targets) {
	r.Helper()
	if err := durable.WriteJSON(r.id.State(wire.FileTargets), ts); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) proxyAddr() string { return r.prefix + "21:2379" }

// dial connects to the proxy, raw.
func (r *rig) dial() *net.TCPConn {
	r.Helper()
	c, err := net.Dial("tcp", r.proxyAddr())
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(2 * patience))
	return c.(*net.TCPConn)
}

// who connects to the proxy and returns the connection and which fake greets.
func (r *rig) who() (*net.TCPConn, string) {
	r.Helper()
	c := r.dial()
	if _, err := c.Write([]byte("\n")); err != nil {
		r.Fatal(err)
	}
	name, err := bufio.NewReaderSize(c, 16).ReadString('\n')
	if err != nil {
		r.Fatal("no greeting: ", err)
	}
	return c, strings.TrimSpace(name)
}

// fake is a target that answers probes over TLS and hands every connection whose
// first byte is not TLS's to raw.
type fake struct {
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedKVServer
	name, addr string
	ln         net.Listener
	srv        *grpc.Server
	state      atomic.Pointer[pb.StatusResponse]
	probes     atomic.Int64

	mu   sync.Mutex
	raws map[net.Conn]struct{}
}

// fakeHost is the address of fake or etcd n.
func (r *rig) fakeHost(n int) string { return fmt.Sprint(r.prefix, 11+n) }

// fake starts one at .11+n; raw nil: it greets with its name, then echoes.
func (r *rig) fake(n int, raw func(net.Conn)) *fake {
	r.Helper()
	f := &fake{name: fmt.Sprint("fake-", n), addr: r.fakeHost(n) + ":2379", raws: map[net.Conn]struct{}{}}
	f.set(func(s *pb.StatusResponse) {
		s.Header = &pb.ResponseHeader{ClusterId: uint64(testCluster), MemberId: uint64(100 + n)}
		s.Leader, s.RaftIndex, s.RaftAppliedIndex = 100, 10, 10
	})
	if raw == nil {
		raw = f.echo
	}
	f.listen(r, raw)
	r.Cleanup(f.stop)
	return f
}

func (f *fake) listen(r *rig, raw func(net.Conn)) {
	r.Helper()
	pair, err := tls.LoadX509KeyPair(r.path("server.crt"), r.path("server.key"))
	if err != nil {
		r.Fatal(err)
	}
	pool := x509.NewCertPool()
	ca, _ := os.ReadFile(r.path("ca.crt"))
	pool.AppendCertsFromPEM(ca)
	f.srv = grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair},
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})))
	pb.RegisterMaintenanceServer(f.srv, f)
	pb.RegisterKVServer(f.srv, f)
	if f.ln, err = net.Listen("tcp", f.addr); err != nil {
		r.Fatal(err)
	}
	tlsConns := &chanListener{addr: f.ln.Addr(), ch: make(chan net.Conn), done: make(chan struct{})}
	go f.srv.Serve(tlsConns)
	go f.accept(f.ln, tlsConns, raw)
}

func (f *fake) accept(ln net.Listener, tlsConns *chanListener, raw func(net.Conn)) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.raws[c] = struct{}{}
		f.mu.Unlock()
		go func() {
			var first [1]byte
			if _, err := c.Read(first[:]); err != nil {
				c.Close()
				return
			}
			if first[0] == 0x16 {
				select {
				case tlsConns.ch <- &peeked{Conn: c, first: first[:]}:
				case <-tlsConns.done:
					c.Close()
				}
				return
			}
			raw(c)
		}()
	}
}

// stop ends the fake as a killed process would: port closed, connections gone.
func (f *fake) stop() {
	f.ln.Close()
	f.mu.Lock()
	for c := range f.raws {
		c.Close()
	}
	clear(f.raws)
	f.mu.Unlock()
	f.srv.Stop()
}

func (f *fake) echo(c net.Conn) {
	defer c.Close()
	if _, err := c.Write([]byte(f.name + "\n")); err != nil {
		return
	}
	buf := make([]byte, 1<<16)
	for {
		n, err := c.Read(buf)
		if _, werr := c.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (f *fake) set(change func(*pb.StatusResponse)) {
	s := &pb.StatusResponse{Header: &pb.ResponseHeader{}}
	if o := f.state.Load(); o != nil {
		s = &pb.StatusResponse{Header: o.Header, Leader: o.Leader, RaftIndex: o.RaftIndex,
			RaftAppliedIndex: o.RaftAppliedIndex, IsLearner: o.IsLearner, Errors: o.Errors}
	}
	change(s)
	f.state.Store(s)
}

func (f *fake) target(mode wire.TargetMode, local bool) wire.ProxyTarget {
	return wire.ProxyTarget{Node: f.name, Slot: wire.SlotMember, Address: f.addr, Mode: mode, Local: local}
}

func (f *fake) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	f.probes.Add(1)
	return f.state.Load(), nil
}

func (f *fake) Put(context.Context, *pb.PutRequest) (*pb.PutResponse, error) {
	return &pb.PutResponse{Header: f.state.Load().Header}, nil
}

type chanListener struct {
	addr net.Addr
	ch   chan net.Conn
	done chan struct{}
	once sync.Once
}

func (l *chanListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ch:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *chanListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *chanListener) Addr() net.Addr { return l.addr }

// peeked gives the first byte back.
type peeked struct {
	net.Conn
	first []byte
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) > 0 && len(b) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

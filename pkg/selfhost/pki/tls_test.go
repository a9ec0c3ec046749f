package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// node makes a node's PKI valid now; a non-empty ca lends it its CA.
func node(t *testing.T, name, addr, ca string) Params {
	t.Helper()
	p := params(t, name, addr)
	p.Now = nil
	if ca != "" {
		mkdir(t, p.PKIDir)
		copyPair(t, ca, p.PKIDir, CA)
	}
	ensure(t, p)
	return p
}

// serve answers each TLS connection with who called, as an agent would.
func serve(t *testing.T, conf *tls.Config) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			go func() {
				defer c.Close()
				tc := c.(*tls.Conn)
				if tc.Handshake() != nil {
					return
				}
				role, name, err := Caller(tc.ConnectionState())
				fmt.Fprintf(c, "%s|%s|%v", role, name, err != nil)
			}()
		}
	}()
	return l.Addr().String()
}

// call dials and returns what the server said.
func call(t *testing.T, addr string, conf *tls.Config) (string, *x509.Certificate, error) {
	t.Helper()
	d := &net.Dialer{Timeout: 5 * time.Second}
	c, err := tls.DialWithDialer(d, "tcp", addr, conf)
	if err != nil {
		return "", nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	b, err := io.ReadAll(c)
	return string(b), c.ConnectionState().PeerCertificates[0], err
}

func clientConf(t *testing.T, dir string, r Role) *tls.Config {
	t.Helper()
	c, err := ClientConfig(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// withPair is a client without our checks that shows pair n.
func withPair(t *testing.T, dir string, n Name) *tls.Config {
	t.Helper()
	crt, err := loadPair(CertFile(dir, n), KeyFile(dir, n))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := caPool(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{*crt}}
}

func TestCallers(t *testing.T) {
	a := node(t, "cp-1", "127.91.7.11", "")
	b := node(t, "cp-2", "127.91.7.12", a.PKIDir)
	stranger := node(t, "cp-1", "127.91.7.11", "")
	conf, err := ServerConfig(a.PKIDir)
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, conf)
	for role, want := range map[Role]string{RoleAgent: "agent|cp-2|false", RoleDriver: "driver|cp-2|false"} {
		if got, _, err := call(t, addr, clientConf(t, b.PKIDir, role)); got != want || err != nil {
			t.Errorf("%s: %q, %v", role, got, err)
		}
	}
	// Of the same CA and good for etcd: the handshake passes, the caller is nobody.
	for _, n := range []Name{APIServerEtcdClient, HealthcheckClient, Server, Peer} {
		if got, _, err := call(t, addr, withPair(t, b.PKIDir, n)); got != "||true" || err != nil {
			t.Errorf("%s: %q, %v", n, got, err)
		}
	}
	// Another CA, or no certificate at all: no handshake.
	pool, _ := caPool(a.PKIDir)
	wrong := withPair(t, stranger.PKIDir, Driver)
	wrong.RootCAs = pool
	for name, c := range map[string]*tls.Config{"other CA": wrong, "none": {RootCAs: pool}} {
		if got, _, err := call(t, addr, c); err == nil || got != "" {
			t.Errorf("%s: answered %q", name, got)
		}
	}
	if _, _, err := call(t, addr, clientConf(t, stranger.PKIDir, RoleDriver)); err == nil {
		t.Error("a driver took an agent of another CA")
	}
	old := clientConf(t, b.PKIDir, RoleDriver)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, _, err := call(t, addr, old); err == nil {
		t.Error("TLS 1.2 was taken")
	}
	if _, err := ClientConfig(a.PKIDir, "root"); err == nil {
		t.Error("an unknown role got a configuration")
	}
}

func TestCallerRefusesMixedOrganizations(t *testing.T) {
	for _, orgs := range [][]string{nil, {"system:masters"}, {OrgDrivers, OrgAgents}, {OrgDrivers, "x"}, {"ETCD-selfhost:drivers"}} {
		c := &x509.Certificate{}
		c.Subject.CommonName, c.Subject.Organization = "cp-1", orgs
		s := tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
		if role, _, err := Caller(s); err == nil || role != "" {
			t.Errorf("%v: taken for %q", orgs, role)
		}
		c.Subject.Organization = []string{OrgDrivers}
		s.VerifiedChains = nil
		if _, _, err := Caller(s); err == nil {
			t.Error("an unverified certificate was taken")
		}
		s.VerifiedChains, c.Subject.CommonName = [][]*x509.Certificate{{c}}, ""
		if _, _, err := Caller(s); err == nil {
			t.Error("a certificate without a name was taken")
		}
	}
}

// etcd's certificate is good for the agent's address; it is not an agent's.
func TestDialTakesAgentsOnly(t *testing.T) {
	a := node(t, "cp-1", "127.91.7.11", "")
	conf, err := ServerConfig(a.PKIDir)
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := loadPair(CertFile(a.PKIDir, Server), KeyFile(a.PKIDir, Server))
	if err != nil {
		t.Fatal(err)
	}
	conf.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return etcd, nil }
	addr := serve(t, conf)
	for _, r := range []Role{RoleDriver, RoleAgent} {
		_, _, err := call(t, addr, clientConf(t, a.PKIDir, r))
		wantError(t, err, "not an agent")
	}
	if _, _, err := call(t, addr, clientConf(t, a.PKIDir, RoleEtcdClient)); err != nil {
		t.Errorf("an etcd client: %v", err)
	}
}

// Every certificate of a server is good for each address it may be dialled at,
// in a real handshake on that address.
func TestHandshakeOnEachAddress(t *testing.T) {
	a := node(t, "cp-1", "127.91.7.11", "")
	conf, err := ServerConfig(a.PKIDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, ip := range []string{"127.91.7.11", "127.91.7.21", "127.91.7.25", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			if ip == "::1" {
				continue // a host without IPv6
			}
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = tls.Server(c, conf).Handshake()
			_ = c.Close()
		}()
		if _, _, err := call(t, l.Addr().String(), clientConf(t, a.PKIDir, RoleDriver)); err != nil {
			t.Errorf("%s: %v", ip, err)
		}
		_ = l.Close()
	}
	conf2, _ := ServerConfig(a.PKIDir)
	_, port, _ := net.SplitHostPort(serve(t, conf2))
	c := clientConf(t, a.PKIDir, RoleDriver)
	c.ServerName = "127.91.7.99"
	if _, _, err := call(t, net.JoinHostPort("127.0.0.1", port), c); err == nil {
		t.Error("an address that is not in the certificate was taken")
	}
}

func TestReload(t *testing.T) {
	a := node(t, "cp-1", "127.91.7.11", "")
	conf, err := ServerConfig(a.PKIDir)
	if err != nil {
		t.Fatal(err)
	}
	client := clientConf(t, a.PKIDir, RoleDriver)
	addr := serve(t, conf)
	seen := func() string {
		t.Helper()
		got, c, err := call(t, addr, client)
		if err != nil || got != "driver|cp-1|false" {
			t.Fatalf("%q, %v", got, err)
		}
		return c.SerialNumber.String()
	}
	first := seen()
	next := node(t, "cp-1", "127.91.7.11", a.PKIDir)
	replace := func(file string) {
		t.Helper()
		to := filepath.Join(a.PKIDir, filepath.Base(file))
		copyFile(t, file, to+".new")
		if err := os.Rename(to+".new", to); err != nil {
			t.Fatal(err)
		}
	}
	// Between the two writes of a renewal the pair does not match: the old one stays.
	replace(KeyFile(next.PKIDir, Agent))
	if seen() != first {
		t.Error("a mismatched pair was used")
	}
	replace(CertFile(next.PKIDir, Agent))
	if got, want := seen(), load(t, CertFile(next.PKIDir, Agent)).SerialNumber.String(); got != want {
		t.Errorf("serial %s after renewal, want %s (first %s)", got, want, first)
	}
	remove(t, CertFile(a.PKIDir, Agent))
	if got := seen(); got == first {
		t.Error("back to the first")
	}
	if _, err := ServerConfig(a.PKIDir); err == nil {
		t.Error("a new start without certificate passed")
	}
}

func TestInspect(t *testing.T) {
	a := params(t, "cp-1", "127.91.7.11")
	ensure(t, a)
	other := params(t, "cp-1", "127.91.7.11")
	ensure(t, other)
	year := 366 * 24 * time.Hour
	for name, c := range map[string]struct {
		breakIt func(t *testing.T, d string)
		change  func(n *wire.NodeRef, proxies *[]string, now *time.Time)
		leaf    Name
		want    []string
	}{
		"expired":       {nil, func(_ *wire.NodeRef, _ *[]string, now *time.Time) { *now = t0.Add(year) }, Server, []string{"expired on 2027-03-01T12:00:00Z", "2027-03-02T12:00:00Z"}},
		"not yet":       {nil, func(_ *wire.NodeRef, _ *[]string, now *time.Time) { *now = t0.Add(-2 * time.Hour) }, Agent, []string{"2026-03-01T11:00:00Z", "2026-03-01T10:00:00Z", "clock"}},
		"CA not yet":    {nil, func(_ *wire.NodeRef, _ *[]string, now *time.Time) { *now = t0.Add(-2 * time.Hour) }, CA, []string{"not yet valid"}},
		"proxy missing": {nil, func(_ *wire.NodeRef, p *[]string, _ *time.Time) { *p = append(*p, "127.91.7.26") }, Server, []string{"missing SAN: 127.91.7.26"}},
		"addr missing":  {nil, func(n *wire.NodeRef, _ *[]string, _ *time.Time) { n.MoreAddresses = []string{"fd00::9"} }, Peer, []string{"missing SAN: fd00::9"}},
		"name missing":  {nil, func(n *wire.NodeRef, _ *[]string, _ *time.Time) { n.Name = "cp-9" }, Agent, []string{"missing SAN: cp-9"}},
		"wrong use": {func(t *testing.T, d string) {
			remove(t, KeyFile(d, Server))
			remove(t, CertFile(d, Server))
			copyFile(t, KeyFile(d, HealthcheckClient), KeyFile(d, Server))
			copyFile(t, CertFile(d, HealthcheckClient), CertFile(d, Server))
		}, nil, Server, []string{"server authentication is missing", "missing SAN: 127.91.7.11"}},
		"organization": {func(t *testing.T, d string) {
			copyFile(t, KeyFile(d, Agent), KeyFile(d, Driver))
			copyFile(t, CertFile(d, Agent), CertFile(d, Driver))
		}, nil, Driver, []string{OrgDrivers, "carries SANs"}},
		"other CA":  {func(t *testing.T, d string) { copyPair(t, other.PKIDir, d, Peer) }, nil, Peer, []string{"another CA"}},
		"other key": {func(t *testing.T, d string) { copyFile(t, KeyFile(d, Peer), KeyFile(d, Agent)) }, nil, Agent, []string{"key does not match"}},
		"no key":    {func(t *testing.T, d string) { remove(t, KeyFile(d, Agent)) }, nil, Agent, []string{"agent.key is missing"}},
		"gone":      {func(t *testing.T, d string) { remove(t, KeyFile(d, Agent)); remove(t, CertFile(d, Agent)) }, nil, Agent, []string{"are missing"}},
		"open key":  {func(t *testing.T, d string) { _ = os.Chmod(KeyFile(d, CA), 0o644) }, nil, CA, []string{"ca.key has mode 0644"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := params(t, "cp-1", "127.91.7.11")
			mkdir(t, p.PKIDir)
			for i, f := range writeOrder(a.PKIDir) {
				copyFile(t, f, writeOrder(p.PKIDir)[i])
			}
			n, proxies, now := p.Node, append([]string(nil), p.ProxyAddresses...), t0
			if c.breakIt != nil {
				c.breakIt(t, p.PKIDir)
			}
			if c.change != nil {
				c.change(&n, &proxies, &now)
			}
			got := Inspect(p.PKIDir, n, proxies, now)
			if len(got) != len(leaves)+1 || got[0].Name != "ca" {
				t.Fatalf("%d entries, first %s", len(got), got[0].Name)
			}
			for _, s := range got {
				switch {
				case s.Name == string(c.leaf):
					wantError(t, errors.New(s.Problem), c.want...)
				case c.change == nil && s.Problem != "":
					t.Errorf("%s has a problem too: %s", s.Name, s.Problem)
				}
			}
		})
	}
}

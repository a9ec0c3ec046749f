package pki

import (
	"bytes"
	"crypto/x509"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func clock(t time.Time) func() time.Time { return func() time.Time { return t } }

// params are a node's on the demo's block, PKI under a fresh parent.
func params(t *testing.T, name, addr string) Params {
	t.Helper()
	return Params{
		PKIDir:         filepath.Join(t.TempDir(), "pki", "etcd"),
		Node:           wire.NodeRef{Name: name, Address: addr, ProxyAddress: "127.91.7.21"},
		Hostname:       "host-of-" + name,
		ProxyAddresses: []string{"127.91.7.21", "127.91.7.22", "127.91.7.23", "127.91.7.24", "127.91.7.25"},
		Now:            clock(t0),
	}
}

func ensure(t *testing.T, p Params) (created, used []string) {
	t.Helper()
	created, used, err := EnsureNode(p)
	if err != nil {
		t.Fatal(err)
	}
	return created, used
}

// writeOrder are all files of a node, in the order they are written.
func writeOrder(pkiDir string) []string {
	var out []string
	for _, n := range append([]Name{CA}, Leaves()...) {
		out = append(out, KeyFile(pkiDir, n), CertFile(pkiDir, n))
	}
	return out
}

func snapshot(t *testing.T, pkiDir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range writeOrder(pkiDir) {
		if b, err := os.ReadFile(f); err == nil {
			out[f] = string(b)
		}
	}
	return out
}

func load(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cs, err := parseCerts(b)
	if err != nil {
		t.Fatal(err)
	}
	return cs[0]
}

func healthy(t *testing.T, p Params) {
	t.Helper()
	for _, s := range Inspect(p.PKIDir, p.Node, p.ProxyAddresses, t0) {
		if s.Problem != "" {
			t.Errorf("%s: %s", s.Name, s.Problem)
		}
	}
}

func TestLayoutAndModes(t *testing.T) {
	p := params(t, "cp-1", "127.91.7.11")
	created, used := ensure(t, p)
	if !slices.Equal(created, writeOrder(p.PKIDir)) || len(used) != 0 {
		t.Fatalf("created %v, used %v", created, used)
	}
	parent := filepath.Dir(p.PKIDir)
	for file, mode := range map[string]os.FileMode{
		parent: 0o700, p.PKIDir: 0o700,
		filepath.Join(parent, "apiserver-etcd-client.key"):      0o600,
		filepath.Join(parent, "apiserver-etcd-client.crt"):      0o644,
		filepath.Join(p.PKIDir, "ca.key"):                       0o600,
		filepath.Join(p.PKIDir, "ca.crt"):                       0o644,
		filepath.Join(p.PKIDir, "server.key"):                   0o600,
		filepath.Join(p.PKIDir, "peer.crt"):                     0o644,
		filepath.Join(p.PKIDir, "healthcheck-client.key"):       0o600,
		filepath.Join(p.PKIDir, "agent.key"):                    0o600,
		filepath.Join(p.PKIDir, "driver.key"):                   0o600,
		filepath.Join(p.PKIDir, "healthcheck-client.crt"):       0o644,
		filepath.Join(filepath.Dir(p.PKIDir), "etcd/agent.crt"): 0o644,
	} {
		st, err := os.Stat(file)
		if err != nil {
			t.Error(err)
		} else if st.Mode().Perm() != mode {
			t.Errorf("%s: mode %o, want %o", file, st.Mode().Perm(), mode)
		}
	}
	ca := load(t, CertFile(p.PKIDir, CA))
	if !ca.IsCA || !ca.NotBefore.Equal(t0.Add(-time.Hour)) || !ca.NotAfter.Equal(t0.Add(DefaultCALife)) {
		t.Errorf("CA %t %s..%s", ca.IsCA, ca.NotBefore, ca.NotAfter)
	}
	healthy(t, p)
}

func TestLeaves(t *testing.T) {
	p := params(t, "cp-1", "127.91.7.11")
	p.ExtraSANs = []string{"10.96.0.9", "etcd.example.org"}
	p.DialAddresses = []string{"172.20.0.4"}
	p.LeafLife = 90 * 24 * time.Hour
	ensure(t, p)
	ca := load(t, CertFile(p.PKIDir, CA))
	cns := map[Name]string{Server: "cp-1", Peer: "cp-1", Agent: "cp-1", Driver: "cp-1",
		HealthcheckClient: "kube-etcd-healthcheck-client", APIServerEtcdClient: "kube-apiserver-etcd-client"}
	orgs := map[Name][]string{Agent: {"etcd-selfhost:agents"}, Driver: {"etcd-selfhost:drivers"}}
	for _, n := range Leaves() {
		c := load(t, CertFile(p.PKIDir, n))
		if err := c.CheckSignatureFrom(ca); err != nil {
			t.Errorf("%s: %v", n, err)
		}
		if c.Subject.CommonName != cns[n] || !slices.Equal(c.Subject.Organization, orgs[n]) {
			t.Errorf("%s: subject %s", n, c.Subject)
		}
		if c.PublicKeyAlgorithm != x509.ECDSA || !c.NotBefore.Equal(t0.Add(-time.Hour)) || !c.NotAfter.Equal(t0.Add(p.LeafLife)) {
			t.Errorf("%s: %s %s..%s", n, c.PublicKeyAlgorithm, c.NotBefore, c.NotAfter)
		}
		if !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
			t.Errorf("%s: not good for a client", n)
		}
		server := n == Server || n == Peer || n == Agent
		if got := slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth); got != server {
			t.Errorf("%s: good for a server: %t", n, got)
		}
		if !server {
			if len(c.IPAddresses)+len(c.DNSNames) != 0 {
				t.Errorf("%s carries SANs %v %v", n, c.IPAddresses, c.DNSNames)
			}
			continue
		}
		for _, san := range []string{"cp-1", "host-of-cp-1", "localhost", "127.0.0.1", "::1", "127.91.7.11", "127.91.7.21",
			"127.91.7.22", "127.91.7.23", "127.91.7.24", "127.91.7.25", "10.96.0.9", "etcd.example.org"} {
			if err := c.VerifyHostname(san); err != nil {
				t.Errorf("%s: %v", n, err)
			}
		}
		if got := c.VerifyHostname("172.20.0.4") == nil; got != (n == Peer) {
			t.Errorf("%s: address to dial from in it: %t", n, got)
		}
	}
}

func TestSeveralAddressesAndIPv6(t *testing.T) {
	p := params(t, "cp-1", "fd00:7::11")
	p.Node.ProxyAddress = ""
	p.Node.MoreAddresses = []string{"10.0.0.11", "2001:DB8:0::1", "::ffff:10.0.0.12", "fd00:7:0::11"}
	p.ProxyAddresses = ProxyAddresses([]wire.NodeRef{p.Node, {Name: "cp-2", Address: "10.0.0.2", ProxyAddress: "fd00:7::22"}, {Name: "cp-3", Address: "10.0.0.3"}})
	if want := []string{"127.0.0.1", "fd00:7::22"}; !slices.Equal(p.ProxyAddresses, want) {
		t.Fatalf("proxies %v, want %v", p.ProxyAddresses, want)
	}
	ensure(t, p)
	for _, n := range []Name{Server, Peer, Agent} {
		c := load(t, CertFile(p.PKIDir, n))
		for _, a := range []string{"fd00:7::11", "10.0.0.11", "2001:db8::1", "10.0.0.12", "fd00:7::22", "127.0.0.1", "::1"} {
			if err := c.VerifyHostname(a); err != nil {
				t.Errorf("%s: %v", n, err)
			}
		}
		if len(c.IPAddresses) != 7 {
			t.Errorf("%s: %v, want 7 different ones", n, c.IPAddresses)
		}
	}
	healthy(t, p)
}

func TestBadParams(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Params)
		want   string
	}{
		"zone":      {func(p *Params) { p.Node.Address = "fe80::1%eth0" }, "zone"},
		"name":      {func(p *Params) { p.Node.Address = "cp-1.example.org" }, "not an IP address"},
		"no node":   {func(p *Params) { p.Node.Name = "" }, "no name"},
		"no addr":   {func(p *Params) { p.Node.Address = "" }, "no address"},
		"san":       {func(p *Params) { p.ExtraSANs = []string{"a b"} }, "a b"},
		"dial":      {func(p *Params) { p.DialAddresses = []string{"x"} }, "dial"},
		"life":      {func(p *Params) { p.LeafLife = -1 }, "positive"},
		"no folder": {func(p *Params) { p.PKIDir = "" }, "PKI directory"},
	} {
		t.Run(name, func(t *testing.T) {
			p := params(t, "cp-1", "127.91.7.11")
			dir := p.PKIDir
			c.change(&p)
			_, _, err := EnsureNode(p)
			wantError(t, err, c.want)
			if _, err := os.Stat(dir); err == nil {
				t.Error("something was written")
			}
		})
	}
}

func TestSecondRunUsesAll(t *testing.T) {
	p := params(t, "cp-1", "127.91.7.11")
	ensure(t, p)
	before := snapshot(t, p.PKIDir)
	p.Now, p.ExtraSANs = clock(t0.Add(400*24*time.Hour)), []string{"new.example.org"}
	created, used := ensure(t, p)
	if len(created) != 0 || !slices.Equal(used, writeOrder(p.PKIDir)) {
		t.Errorf("created %v, used %v", created, used)
	}
	if !maps.Equal(before, snapshot(t, p.PKIDir)) {
		t.Error("a file was overwritten")
	}
}

// A crash after any write leaves a prefix of the write order; the next run keeps
// each file of it and completes the rest.
func TestCrashAfterEachWrite(t *testing.T) {
	whole := params(t, "cp-1", "127.91.7.11")
	ensure(t, whole)
	order := writeOrder(whole.PKIDir)
	for k := range order {
		p := params(t, "cp-1", "127.91.7.11")
		mkdir(t, p.PKIDir)
		for i := range k {
			copyFile(t, order[i], writeOrder(p.PKIDir)[i])
		}
		before := snapshot(t, p.PKIDir)
		create, use, err := Plan(p)
		if err != nil {
			t.Fatalf("after %d writes: %v", k, err)
		}
		if !maps.Equal(before, snapshot(t, p.PKIDir)) {
			t.Fatal("Plan wrote")
		}
		created, used := ensure(t, p)
		if !slices.Equal(create, created) || !slices.Equal(use, used) {
			t.Errorf("after %d writes: planned %v %v, did %v %v", k, create, use, created, used)
		}
		if !slices.Equal(created, writeOrder(p.PKIDir)[k:]) {
			t.Errorf("after %d writes: created %v", k, created)
		}
		after := snapshot(t, p.PKIDir)
		for f, b := range before {
			if after[f] != b {
				t.Errorf("after %d writes: %s was overwritten", k, f)
			}
		}
		healthy(t, p)
	}
}

// A torn or empty file is named and stays; nothing else is written.
func TestTornFiles(t *testing.T) {
	whole := params(t, "cp-1", "127.91.7.11")
	ensure(t, whole)
	for i, src := range writeOrder(whole.PKIDir) {
		for _, part := range []int{0, 2} {
			p := params(t, "cp-1", "127.91.7.11")
			mkdir(t, p.PKIDir)
			for j, f := range writeOrder(p.PKIDir) {
				copyFile(t, writeOrder(whole.PKIDir)[j], f)
			}
			_ = os.Remove(KeyFile(p.PKIDir, Driver)) // and something that could be made
			_ = os.Remove(CertFile(p.PKIDir, Driver))
			torn := writeOrder(p.PKIDir)[i]
			b, err := os.ReadFile(src)
			if err != nil {
				t.Fatal(err)
			}
			if part > 0 {
				b = b[:len(b)/part]
			} else {
				b = nil
			}
			if err := os.WriteFile(torn, b, 0o600); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, p.PKIDir)
			_, _, err = EnsureNode(p)
			wantError(t, err, torn)
			if !maps.Equal(before, snapshot(t, p.PKIDir)) {
				t.Errorf("%s torn: something was written", torn)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	other := params(t, "cp-1", "127.91.7.11")
	ensure(t, other)
	for name, c := range map[string]struct {
		breakIt func(t *testing.T, dir string)
		want    []string
	}{
		"CA without key, something to sign": {func(t *testing.T, d string) {
			remove(t, KeyFile(d, CA))
			remove(t, KeyFile(d, Peer))
			remove(t, CertFile(d, Peer))
		}, []string{"ca.key", "cannot sign"}},
		"CA key of another":                 {func(t *testing.T, d string) { copyFile(t, KeyFile(other.PKIDir, CA), KeyFile(d, CA)) }, []string{"ca.key", "does not belong"}},
		"whole other CA":                    {func(t *testing.T, d string) { copyPair(t, other.PKIDir, d, CA) }, []string{"server.crt", "signed by"}},
		"no CA but leaves":                  {func(t *testing.T, d string) { remove(t, KeyFile(d, CA)); remove(t, CertFile(d, CA)) }, []string{"server.crt", "ca.crt"}},
		"CA certificate gone, leaves there": {func(t *testing.T, d string) { remove(t, CertFile(d, CA)) }, []string{"server.crt", "ca.crt"}},
		"leaf without key":                  {func(t *testing.T, d string) { remove(t, KeyFile(d, Agent)) }, []string{"agent.crt", "agent.key"}},
		"leaf with another key":             {func(t *testing.T, d string) { copyFile(t, KeyFile(d, Peer), KeyFile(d, Server)) }, []string{"server.key", "does not belong"}},
		"leaf of another CA":                {func(t *testing.T, d string) { copyPair(t, other.PKIDir, d, APIServerEtcdClient) }, []string{"apiserver-etcd-client.crt", "signed by"}},
		"CA is none":                        {func(t *testing.T, d string) { copyFile(t, CertFile(d, Server), CertFile(d, CA)) }, []string{"ca.crt", "no certificate authority"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := params(t, "cp-1", "127.91.7.11")
			ensure(t, p)
			c.breakIt(t, p.PKIDir)
			before := snapshot(t, p.PKIDir)
			_, _, err := EnsureNode(p)
			wantError(t, err, c.want...)
			_, _, err = Plan(p)
			wantError(t, err, c.want...)
			if !maps.Equal(before, snapshot(t, p.PKIDir)) {
				t.Error("something was written")
			}
		})
	}
}

func TestCAWithoutKeySuffices(t *testing.T) {
	p := params(t, "cp-1", "127.91.7.11")
	ensure(t, p)
	remove(t, KeyFile(p.PKIDir, CA))
	created, used := ensure(t, p)
	if len(created) != 0 || slices.Contains(used, KeyFile(p.PKIDir, CA)) {
		t.Errorf("created %v, used %v", created, used)
	}
}

func TestCAClockAndLife(t *testing.T) {
	p := params(t, "cp-1", "127.91.7.11")
	p.CALife = 100 * 24 * time.Hour
	ensure(t, p)
	if got, ca := load(t, CertFile(p.PKIDir, Server)).NotAfter, load(t, CertFile(p.PKIDir, CA)).NotAfter; !got.Equal(ca) {
		t.Errorf("leaf until %s, CA until %s", got, ca)
	}
	remove(t, KeyFile(p.PKIDir, Peer))
	remove(t, CertFile(p.PKIDir, Peer))
	p.Now = clock(t0.Add(101 * 24 * time.Hour))
	_, _, err := EnsureNode(p)
	wantError(t, err, "peer.crt", "ca.crt", "expired")
	p.Now = clock(t0.Add(-24 * time.Hour))
	_, _, err = EnsureNode(p)
	wantError(t, err, "check the clock", "2026-03-01T11:00:00Z", "2026-02-28T12:00:00Z")
}

func TestOneWriterAtATime(t *testing.T) {
	p := params(t, "cp-1", "127.91.7.11")
	mkdir(t, p.PKIDir)
	unlock, err := lockDirs(p.PKIDir, p.PKIDir+"/")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = EnsureNode(p)
	wantError(t, err, p.PKIDir, "another process")
	unlock()
	ensure(t, p)
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, w := range parts {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q, want %q in it", err, w)
		}
	}
	if strings.Contains(err.Error(), "PRIVATE KEY---") {
		t.Error("the error quotes a key")
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(to); err == nil && bytes.Equal(have, b) {
		t.Fatalf("%s already is %s", to, from)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyPair(t *testing.T, from, to string, n Name) {
	t.Helper()
	copyFile(t, KeyFile(from, n), KeyFile(to, n))
	copyFile(t, CertFile(from, n), CertFile(to, n))
}

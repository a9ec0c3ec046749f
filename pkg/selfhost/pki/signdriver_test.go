package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func TestSignDriver(t *testing.T) {
	dir := t.TempDir() + "/etcd"
	if _, _, err := EnsureNode(Params{PKIDir: dir, Node: wire.NodeRef{Name: "cp-1", Address: "10.0.0.1"}}); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(CertFile(dir, CA))
	if err != nil {
		t.Fatal(err)
	}
	key, csr, err := NewDriverRequest("operator")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	cert, err := SignDriver(dir, csr, now)
	if err != nil {
		t.Fatal(err)
	}
	conf, leaf, err := DriverConfigPEM(ca, cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if left := leaf.NotAfter.Sub(now); left > DriverLife || left < DriverLife-time.Minute {
		t.Errorf("valid for %s", left)
	}
	role, name, err := Caller(tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}, PeerCertificates: []*x509.Certificate{leaf}})
	if err != nil || role != RoleDriver || name != "operator" || len(leaf.IPAddresses)+len(leaf.DNSNames) > 0 || conf.VerifyConnection == nil {
		t.Errorf("role %s, name %s, %v; SANs %v %v", role, name, err, leaf.IPAddresses, leaf.DNSNames)
	}

	forged, _ := pem.Decode(csr)
	forged.Bytes[len(forged.Bytes)-1] ^= 1
	for what, b := range map[string][]byte{"nothing": nil, "a certificate": cert, "two": append(append([]byte{}, csr...), csr...), "forged": pem.EncodeToMemory(forged)} {
		if _, err := SignDriver(dir, b, now); err == nil {
			t.Errorf("signed %s", what)
		}
	}
	if _, nameless, err := NewDriverRequest(""); err != nil {
		t.Error(err)
	} else if _, err := SignDriver(dir, nameless, now); err == nil {
		t.Error("signed a request without a name")
	}
	if err := os.Remove(KeyFile(dir, CA)); err != nil {
		t.Fatal(err)
	}
	if _, err := SignDriver(dir, csr, now); !errors.Is(err, ErrNoCAKey) || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("without the CA's key: %v", err)
	}
}

// What is no driver's is refused before an agent does.
func TestDriverConfigPEM(t *testing.T) {
	dir, other := t.TempDir()+"/etcd", t.TempDir()+"/etcd"
	for _, d := range []string{dir, other} {
		if _, _, err := EnsureNode(Params{PKIDir: d, Node: wire.NodeRef{Name: "cp-1", Address: "10.0.0.1"}}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(file string) []byte {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for what, c := range map[string]struct {
		ca, leaf string
		name     Name
		want     string
	}{
		"a driver's":     {dir, dir, Driver, ""},
		"an agent's":     {dir, dir, Agent, "a driver's has"},
		"an apiserver's": {dir, dir, APIServerEtcdClient, "a driver's has"},
		"another CA's":   {other, dir, Driver, "was not signed by the CA"},
	} {
		_, _, err := DriverConfigPEM(read(CertFile(c.ca, CA)), read(CertFile(c.leaf, c.name)), read(KeyFile(c.leaf, c.name)))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

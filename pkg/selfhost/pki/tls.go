package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Role is what a caller, or a connection of ours, is.
type Role string

// The roles.
const (
	RoleAgent      Role = "agent"
	RoleDriver     Role = "driver"
	RoleEtcdClient Role = "etcd-client" // towards etcd only: no agent answers it
)

// ServerConfig is the agent's RPC listener: its agent certificate, and a client
// certificate of the CA required of every caller. A chain to the CA is no right
// yet: hand every request's connection state to Caller. Agent certificate and
// key are read again when the files change, the CA only here. Sessions are
// never resumed, so that every connection proves its certificate as it is now.
func ServerConfig(pkiDir string) (*tls.Config, error) {
	pool, err := caPool(pkiDir)
	if err != nil {
		return nil, err
	}
	r, err := newReloader(pkiDir, Agent)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              pool,
		SessionTicketsDisabled: true,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return r.get(), nil },
	}, nil
}

// ClientConfig dials as role: an agent or a driver dials agents, and takes
// nobody else's certificate for one (etcd's own is good for the same addresses);
// an etcd client dials etcd with the health check's certificate. The server's
// certificate is verified against the name or IP dialled. Certificate and key
// are read again when the files change, the CA only here.
func ClientConfig(pkiDir string, role Role) (*tls.Config, error) {
	name, ok := map[Role]Name{RoleAgent: Agent, RoleDriver: Driver, RoleEtcdClient: HealthcheckClient}[role]
	if !ok {
		return nil, fmt.Errorf("no certificate for role %q", role)
	}
	pool, err := caPool(pkiDir)
	if err != nil {
		return nil, err
	}
	r, err := newReloader(pkiDir, name)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		MinVersion:           tls.VersionTLS12,
		RootCAs:              pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return r.get(), nil },
	}
	if role != RoleEtcdClient {
		c.MinVersion = tls.VersionTLS13
		c.VerifyConnection = isAgent
	}
	return c, nil
}

func isAgent(s tls.ConnectionState) error {
	role, name, err := Caller(s)
	if err != nil {
		return fmt.Errorf("what answers is not an agent: %w", err)
	}
	if role != RoleAgent {
		return fmt.Errorf("what answers is not an agent but %s %s", role, name)
	}
	return nil
}

// Caller tells who is at the other end of a verified connection: role by the
// certificate's Organization, name (the node's) by its common name. Everything
// else the CA signed is refused, apiserver-etcd-client and etcd's own
// certificates too.
func Caller(s tls.ConnectionState) (role Role, name string, err error) {
	if len(s.VerifiedChains) == 0 || len(s.PeerCertificates) == 0 {
		return "", "", errors.New("the caller showed no certificate of this cluster's CA")
	}
	c := s.PeerCertificates[0]
	orgs := c.Subject.Organization
	switch {
	case slices.Equal(orgs, []string{OrgAgents}):
		role = RoleAgent
	case slices.Equal(orgs, []string{OrgDrivers}):
		role = RoleDriver
	default:
		return "", "", fmt.Errorf("certificate %q with organization %q is neither an agent's (%s) nor a driver's (%s); being of the same CA is not enough",
			c.Subject.CommonName, orgs, OrgAgents, OrgDrivers)
	}
	if c.Subject.CommonName == "" {
		return "", "", fmt.Errorf("the certificate of this %s carries no common name", role)
	}
	return role, c.Subject.CommonName, nil
}

func caPool(pkiDir string) (*x509.CertPool, error) {
	file := CertFile(pkiDir, CA)
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificate: %w", err)
	}
	cs, err := parseCerts(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	pool := x509.NewCertPool()
	for _, c := range cs {
		pool.AddCert(c)
	}
	return pool, nil
}

// reloader hands out one pair and reads it again when a file changed.
type reloader struct {
	certFile, keyFile string

	mu           sync.Mutex
	cert         *tls.Certificate
	certSt, kySt os.FileInfo // of the last attempt to read
}

// newReloader reads the pair once; that it cannot be used is an error here.
func newReloader(pkiDir string, n Name) (*reloader, error) {
	r := &reloader{certFile: CertFile(pkiDir, n), keyFile: KeyFile(pkiDir, n)}
	var err error
	if r.certSt, err = os.Stat(r.certFile); err != nil {
		return nil, fmt.Errorf("certificate %s: %w", n, err)
	}
	if r.kySt, err = os.Stat(r.keyFile); err != nil {
		return nil, fmt.Errorf("private key of certificate %s: %w", n, err)
	}
	if r.cert, err = loadPair(r.certFile, r.keyFile); err != nil {
		return nil, err
	}
	return r, nil
}

// get returns the newest whole pair. While the files are missing, torn or do
// not match (a renewal between its two writes) it stays with the last good
// one; Inspect reports their state.
func (r *reloader) get() *tls.Certificate {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, cerr := os.Stat(r.certFile)
	k, kerr := os.Stat(r.keyFile)
	if cerr != nil || kerr != nil || sameFile(c, r.certSt) && sameFile(k, r.kySt) {
		return r.cert
	}
	// Stat before reading: a change in between is seen as one again next time.
	r.certSt, r.kySt = c, k
	if p, err := loadPair(r.certFile, r.keyFile); err == nil {
		r.cert = p
	}
	return r.cert
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func loadPair(certFile, keyFile string) (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return &c, nil
}

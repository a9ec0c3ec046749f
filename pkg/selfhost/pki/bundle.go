package pki

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// PEMPair is a certificate and its key, PEM.
type PEMPair struct {
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// Bundle is a further node's whole identity in one file (mode 0600: it holds
// private keys), made where the CA's key is and used once on the node.
type Bundle struct {
	V int `json:"v"`
	// ID is random; the node's state directory records it when used.
	ID   string    `json:"id"`
	Made time.Time `json:"made"`
	// Identity is the node's, without the directories, which the node chooses.
	Identity wire.Identity `json:"identity"`
	CACert   string        `json:"caCert,omitempty"`
	// CAKey is there only if it was asked for.
	CAKey  string           `json:"caKey,omitempty"`
	Leaves map[Name]PEMPair `json:"leaves,omitempty"`
	// Claim is who began to use this file (UnpackFile); Spent: used, keys taken out.
	Claim string    `json:"claim,omitempty"`
	Spent time.Time `json:"spent,omitzero"`
}

// BundleParams say whose bundle NewBundle makes.
type BundleParams struct {
	// Params name the node; PKIDir is that of the existing node, whose CA signs.
	Params
	// Identity is the template: Ports, Runtime and SeedRuntime are taken from it.
	Identity wire.Identity
	// WithCAKey puts the CA's key in, so that the node can sign too.
	WithCAKey bool
}

// NewBundle makes and signs every certificate of a further node. It writes
// nothing; a CA that is missing or cannot sign is an error naming the file.
func NewBundle(p BundleParams) (*Bundle, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	ca, err := readCA(p.PKIDir)
	if err != nil {
		return nil, err
	}
	if err := ca.canSign(p.PKIDir, p.now()); err != nil {
		return nil, err
	}
	crt, err := os.ReadFile(CertFile(p.PKIDir, CA))
	if err != nil {
		return nil, err
	}
	id := p.Identity
	b := &Bundle{V: wire.V, ID: newID(), Made: p.now().UTC(), CACert: string(crt), Leaves: map[Name]PEMPair{},
		Identity: wire.Identity{V: wire.V, Node: p.Node, Ports: id.Ports, Runtime: id.Runtime, SeedRuntime: id.SeedRuntime}}
	if p.WithCAKey {
		k, err := os.ReadFile(KeyFile(p.PKIDir, CA))
		if err != nil {
			return nil, err
		}
		b.CAKey = string(k)
	}
	for _, k := range leaves {
		key, keyPEM, err := newKey()
		if err != nil {
			return nil, err
		}
		cert, err := ca.sign(k, &p.Params, key.Public())
		if err != nil {
			return nil, err
		}
		b.Leaves[k.name] = PEMPair{Cert: string(cert), Key: string(keyPEM)}
	}
	return b, nil
}

// WriteFile writes the bundle durably, mode 0600. An existing file is not
// replaced.
func (b *Bundle) WriteFile(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists and is not overwritten; name another file", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.WriteJSON(path, b)
}

// ReadBundle reads a bundle file. One that was used still reads (Spent set).
func ReadBundle(path string) (*Bundle, error) {
	b := &Bundle{}
	if err := durable.ReadJSON(path, wire.V, b); err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	if b.ID == "" || b.Identity.Node.Name == "" {
		return nil, fmt.Errorf("%s is no bundle: it has no ID or names no node", path)
	}
	return b, nil
}

// file is one file of a bundle at its place.
type file struct {
	path string
	data []byte
	mode fs.FileMode
}

// files checks that the bundle is whole and lists its files in write order:
// key before certificate, CA first. Only names of the layout are written.
func (b *Bundle) files(pkiDir string) ([]file, error) {
	bad := func(n Name, err error) error {
		return fmt.Errorf("bundle %s for node %s is damaged: %s: %w; make a new one", b.ID, b.Identity.Node.Name, n, err)
	}
	cas, err := parseCerts([]byte(b.CACert))
	if err != nil {
		return nil, bad(CA, err)
	}
	var out []file
	if b.CAKey != "" {
		key, err := parseKey([]byte(b.CAKey))
		if err != nil {
			return nil, bad(CA, err)
		}
		if (pair{certs: cas, key: key}).matching() == nil {
			return nil, bad(CA, errors.New("key and certificate do not match"))
		}
		out = append(out, file{KeyFile(pkiDir, CA), []byte(b.CAKey), modeKey})
	}
	out = append(out, file{CertFile(pkiDir, CA), []byte(b.CACert), modeCert})
	if len(b.Leaves) > len(leaves) {
		return nil, bad(CA, fmt.Errorf("%d certificates, at most %d known", len(b.Leaves), len(leaves)))
	}
	for _, k := range leaves {
		l, ok := b.Leaves[k.name]
		if !ok {
			return nil, bad(k.name, errors.New("missing"))
		}
		if err := checkPEM(l, cas); err != nil {
			return nil, bad(k.name, err)
		}
		out = append(out, file{KeyFile(pkiDir, k.name), []byte(l.Key), modeKey}, file{CertFile(pkiDir, k.name), []byte(l.Cert), modeCert})
	}
	return out, nil
}

func checkPEM(l PEMPair, cas []*x509.Certificate) error {
	cs, err := parseCerts([]byte(l.Cert))
	if err != nil {
		return err
	}
	key, err := parseKey([]byte(l.Key))
	if err != nil {
		return err
	}
	if !samePublic(cs[0].PublicKey, key) {
		return errors.New("key and certificate do not match")
	}
	if !signedBy(cs[0], cs[1:], cas) {
		return errors.New("not signed by the bundle's CA")
	}
	return nil
}

func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

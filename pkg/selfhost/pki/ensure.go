package pki

import (
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

const (
	modeKey  fs.FileMode = 0o600
	modeCert fs.FileMode = 0o644
	modeDir  fs.FileMode = 0o700
)

// Params say for which node certificates are made.
type Params struct {
	// PKIDir is the directory of ca.crt; its parent takes apiserver-etcd-client.
	PKIDir string
	Node   wire.NodeRef
	// Hostname is the host's own name, a SAN beside the node's; empty: left out.
	Hostname string
	// ProxyAddresses are the proxies of every node known (see ProxyAddresses);
	// the node's own and 127.0.0.1 are always in.
	ProxyAddresses []string
	// DialAddresses are further IPs the node may dial from (see HostAddresses):
	// in the peer certificate, since etcd checks a peer's source address.
	DialAddresses []string
	// ExtraSANs are IPs or DNS names added to server, peer and agent.
	ExtraSANs []string
	// CALife and LeafLife; zero: DefaultCALife, DefaultLeafLife.
	CALife, LeafLife time.Duration
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

func (p *Params) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

func (p *Params) leafLife() time.Duration {
	if p.LeafLife == 0 {
		return DefaultLeafLife
	}
	return p.LeafLife
}

func (p *Params) caLife() time.Duration {
	if p.CALife == 0 {
		return DefaultCALife
	}
	return p.CALife
}

// sans are the SANs of leaf k; none for clients.
func (p *Params) sans(k kind) (*sans, error) {
	if !k.server {
		return &sans{}, nil
	}
	s, err := nodeSANs(p.Node, p.ProxyAddresses)
	if err != nil {
		return nil, err
	}
	for _, v := range append([]string{p.Hostname}, p.ExtraSANs...) {
		if err := s.add(v); err != nil {
			return nil, fmt.Errorf("extra SAN: %w", err)
		}
	}
	if k.dials {
		for _, v := range p.DialAddresses {
			if err := s.addIP("address to dial from", v); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func (p *Params) check() error {
	if p.PKIDir == "" {
		return errors.New("no PKI directory given")
	}
	if p.leafLife() < 0 || p.caLife() < 0 {
		return fmt.Errorf("a certificate's life must be positive, not %s (leaf), %s (CA)", p.LeafLife, p.CALife)
	}
	_, err := p.sans(kind{server: true, dials: true})
	return err
}

// work is what one look at the disk found to be done.
type work struct {
	ca     authority
	todo   []todo // in write order
	create []string
	use    []string
}

type todo struct {
	kind kind
	key  crypto.Signer // an existing key to complete; nil: make one
}

func (w *work) note(pkiDir string, n Name, have half) {
	c, k := CertFile(pkiDir, n), KeyFile(pkiDir, n)
	switch have {
	case none:
		w.create = append(w.create, k, c)
	case keyOnly:
		w.use, w.create = append(w.use, k), append(w.create, c)
	case certOnly:
		w.use = append(w.use, c)
	case both:
		w.use = append(w.use, k, c)
	}
}

// look reads everything, writes nothing, and refuses what must not be built on.
func look(p *Params) (*work, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	ca, err := readCA(p.PKIDir)
	if err != nil {
		return nil, err
	}
	w := &work{ca: ca}
	w.note(p.PKIDir, CA, ca.have)
	for _, k := range leaves {
		certFile, keyFile := CertFile(p.PKIDir, k.name), KeyFile(p.PKIDir, k.name)
		pr, err := readPair(certFile, keyFile)
		if err != nil {
			return nil, err
		}
		if err := usable(pr, ca, certFile, keyFile, CertFile(p.PKIDir, CA)); err != nil {
			return nil, err
		}
		w.note(p.PKIDir, k.name, pr.have)
		if pr.have != both {
			w.todo = append(w.todo, todo{kind: k, key: pr.key})
		}
	}
	if len(w.todo) > 0 && ca.have != none && ca.have != keyOnly {
		if err := ca.canSign(p.PKIDir, p.now()); err != nil {
			return nil, fmt.Errorf("%s has to be made: %w", CertFile(p.PKIDir, w.todo[0].kind.name), err)
		}
	}
	return w, nil
}

// usable refuses a leaf that is not whole, not a key to complete, or of another CA.
func usable(pr pair, ca authority, certFile, keyFile, caFile string) error {
	switch pr.have {
	case none, keyOnly:
		return nil
	case certOnly:
		return fmt.Errorf("%s exists and its key %s does not; restore the key, or move the certificate away to have both made anew", certFile, keyFile)
	}
	if !samePublic(pr.certs[0].PublicKey, pr.key) {
		return fmt.Errorf("%s does not belong to %s: the keys differ; restore the one that was replaced, or move both away", keyFile, certFile)
	}
	if len(ca.certs) == 0 {
		return fmt.Errorf("%s exists and the CA that signed it, %s, does not; restore the CA, or move the certificates away", certFile, caFile)
	}
	if !signedBy(pr.certs[0], pr.certs[1:], ca.certs) {
		return fmt.Errorf("%s was signed by %q, not by the CA in %s (%q); use the CA that belongs to it, or move the pair away to have it made anew",
			certFile, pr.certs[0].Issuer, caFile, ca.certs[0].Subject)
	}
	return nil
}

// Plan lists, without writing, the files EnsureNode would create and those it
// would use as they are, in write order; it fails where EnsureNode would refuse.
func Plan(p Params) (create, use []string, err error) {
	w, err := look(&p)
	if err != nil {
		return nil, nil, err
	}
	return w.create, w.use, nil
}

// EnsureNode makes the CA (where there is none) and every certificate of the
// node that is missing. What exists is used and never overwritten; nothing is
// written where anything that exists cannot be used. After an error or a crash
// in between, the next call completes what is there. One caller at a time: a
// second is refused. An existing leaf that expired or lacks a SAN counts as
// used; Inspect tells.
func EnsureNode(p Params) (created, used []string, err error) {
	if err := p.check(); err != nil {
		return nil, nil, err
	}
	if err := durable.MkdirAll(p.PKIDir, modeDir); err != nil {
		return nil, nil, fmt.Errorf("make the PKI directory: %w", err)
	}
	unlock, err := lockDirs(p.PKIDir)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	w, err := look(&p)
	if err != nil {
		return nil, nil, err
	}
	if err := w.ensureCA(&p, &created); err != nil {
		return created, w.use, err
	}
	for _, t := range w.todo {
		key, err := ensureKey(t.key, KeyFile(p.PKIDir, t.kind.name), &created)
		if err != nil {
			return created, w.use, err
		}
		crt, err := w.ca.sign(t.kind, &p, key.Public())
		if err != nil {
			return created, w.use, err
		}
		if err := put(CertFile(p.PKIDir, t.kind.name), crt, modeCert, &created); err != nil {
			return created, w.use, err
		}
	}
	return created, w.use, nil
}

func (w *work) ensureCA(p *Params, created *[]string) error {
	if w.ca.have == both || w.ca.have == certOnly {
		return nil
	}
	key, err := ensureKey(w.ca.key, KeyFile(p.PKIDir, CA), created)
	if err != nil {
		return err
	}
	cert, crt, err := selfSign(key, p.now(), p.caLife())
	if err != nil {
		return err
	}
	w.ca = authority{certs: append(w.ca.certs, cert), cert: cert, key: key, have: both}
	return put(CertFile(p.PKIDir, CA), crt, modeCert, created)
}

// ensureKey returns the existing key, or a new one that is durable in file.
func ensureKey(have crypto.Signer, file string, created *[]string) (crypto.Signer, error) {
	if have != nil {
		return have, nil
	}
	key, b, err := newKey()
	if err != nil {
		return nil, err
	}
	return key, put(file, b, modeKey, created)
}

// put writes a new file durably; one that exists is never replaced.
func put(file string, b []byte, mode fs.FileMode, created *[]string) error {
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("%s appeared while certificates were made; it is not overwritten: run this again", file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.WriteFile(file, b, mode); err != nil {
		return err
	}
	*created = append(*created, file)
	return nil
}

// lockDirs makes this the only writer of ours in every dir until unlock: two at
// once could pair one's key with the other's certificate. It does not wait. A
// directory named twice is locked once.
func lockDirs(dirs ...string) (unlock func(), err error) {
	var held []*os.File
	unlock = func() {
		for _, d := range held {
			_ = d.Close()
		}
	}
	var seen []os.FileInfo
	for _, dir := range dirs {
		d, err := os.Open(dir)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, d)
		st, err := d.Stat()
		if err != nil {
			unlock()
			return nil, err
		}
		if slices.ContainsFunc(seen, func(s os.FileInfo) bool { return os.SameFile(s, st) }) {
			continue
		}
		seen = append(seen, st)
		if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			unlock()
			return nil, fmt.Errorf("lock %s (another process is writing certificates or state there; try again when it has ended): %w", dir, err)
		}
	}
	return unlock, nil
}

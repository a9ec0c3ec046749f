package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// Lives of certificates, and how far NotBefore lies back so that a node whose
// clock is somewhat behind takes them.
const (
	DefaultCALife   = 10 * 365 * 24 * time.Hour
	DefaultLeafLife = 365 * 24 * time.Hour
	Backdate        = time.Hour
)

// authority is the CA as far as it is there.
type authority struct {
	certs []*x509.Certificate // everything in ca.crt
	cert  *x509.Certificate   // the one that belongs to key; nil: cannot sign
	key   crypto.Signer
	have  half
}

// readCA reads the CA of pkiDir. A certificate without key is fine (it cannot
// sign); a key that belongs to no certificate of ca.crt is an error.
func readCA(pkiDir string) (authority, error) {
	certFile, keyFile := CertFile(pkiDir, CA), KeyFile(pkiDir, CA)
	p, err := readPair(certFile, keyFile)
	if err != nil {
		return authority{}, fmt.Errorf("certificate authority: %w", err)
	}
	a := authority{certs: p.certs, key: p.key, have: p.have}
	for _, c := range p.certs {
		if !c.IsCA || c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0 {
			return a, fmt.Errorf("%s: certificate %q is no certificate authority; put the CA that signs etcd's certificates there", certFile, c.Subject)
		}
	}
	if p.have == both {
		if a.cert = p.matching(); a.cert == nil {
			return a, fmt.Errorf("%s does not belong to %s: the keys differ; restore the one that was replaced", keyFile, certFile)
		}
	}
	return a, nil
}

// canSign says why the CA cannot sign at now, naming the file.
func (a authority) canSign(pkiDir string, now time.Time) error {
	certFile := CertFile(pkiDir, CA)
	switch {
	case a.have == certOnly:
		return fmt.Errorf("%s is missing, so the CA %s cannot sign; put the key there for this command, or bring certificates signed elsewhere (a bundle)", KeyFile(pkiDir, CA), certFile)
	case a.cert == nil:
		return fmt.Errorf("there is no CA at %s", certFile)
	case now.After(a.cert.NotAfter):
		return fmt.Errorf("the CA %s expired on %s (now %s): it cannot sign", certFile, stamp(a.cert.NotAfter), stamp(now))
	case now.Before(a.cert.NotBefore):
		return fmt.Errorf("the CA %s is valid from %s, and this clock says %s: check the clock", certFile, stamp(a.cert.NotBefore), stamp(now))
	}
	return nil
}

// selfSign makes the CA certificate for key; subject as kubeadm's.
func selfSign(key crypto.Signer, now time.Time, life time.Duration) (*x509.Certificate, []byte, error) {
	sn, err := serial()
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{
		SerialNumber:          sn,
		Subject:               pkix.Name{CommonName: "etcd-ca"},
		NotBefore:             now.Add(-Backdate),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the CA certificate: %w", err)
	}
	c, err := x509.ParseCertificate(der)
	return c, encodeCert(der), err
}

// sign makes the leaf k of p for the public key pub. It never outlives the CA.
func (a authority) sign(k kind, p *Params, pub crypto.PublicKey) ([]byte, error) {
	s, err := p.sans(k)
	if err != nil {
		return nil, err
	}
	sn, err := serial()
	if err != nil {
		return nil, err
	}
	now := p.now()
	t := &x509.Certificate{
		SerialNumber: sn,
		Subject:      pkix.Name{CommonName: k.commonName(p.Node)},
		NotBefore:    now.Add(-Backdate),
		NotAfter:     now.Add(p.leafLife()),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  k.usages(),
		DNSNames:     s.names,
		IPAddresses:  s.ips,
	}
	if k.org != "" {
		t.Subject.Organization = []string{k.org}
	}
	if t.NotAfter.After(a.cert.NotAfter) {
		t.NotAfter = a.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, pub, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate %s: %w", k.name, err)
	}
	return encodeCert(der), nil
}

func serial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

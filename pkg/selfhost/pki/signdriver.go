package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// DriverLife is how long a driver certificate lives that was signed by an
// agent: its holder asks for the next one long before.
const DriverLife = 24 * time.Hour

// ErrNoCAKey: this node cannot sign, another one may.
var ErrNoCAKey = errors.New("no CA key on this node")

// SignDriver signs a driver certificate for the key of a certificate request,
// valid for DriverLife, with the CA of pkiDir. Of the request only the key and
// the common name count: a driver is a driver, whatever else is asked for. The
// request must prove that its sender has the key. Where the CA's key is not on
// this node the error is ErrNoCAKey.
func SignDriver(pkiDir string, csr []byte, now time.Time) ([]byte, error) {
	req, err := parseRequest(csr)
	if err != nil {
		return nil, err
	}
	ca, err := readCA(pkiDir)
	if err != nil {
		return nil, err
	}
	if ca.have != both {
		return nil, fmt.Errorf("%s: %w", KeyFile(pkiDir, CA), ErrNoCAKey)
	}
	if err := ca.canSign(pkiDir, now); err != nil {
		return nil, err
	}
	p := &Params{LeafLife: DriverLife, Now: func() time.Time { return now }}
	return ca.sign(kind{name: Driver, cn: req.Subject.CommonName, org: OrgDrivers}, p, req.PublicKey)
}

func parseRequest(b []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(b)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 {
		return nil, errors.New("expected one CERTIFICATE REQUEST in PEM")
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate request is not signed by its own key: %w", err)
	}
	if n := len(req.Subject.CommonName); n == 0 || n > 64 {
		return nil, fmt.Errorf("certificate request with a common name of %d bytes; expected 1 to 64", n)
	}
	switch req.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return req, nil
	}
	return nil, fmt.Errorf("certificate request with a %T; expected ECDSA or Ed25519", req.PublicKey)
}

// NewDriverRequest makes a key and the request for SignDriver, both in PEM. The
// key never leaves its maker.
func NewDriverRequest(commonName string) (key, csr []byte, err error) {
	signer, key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	csr, err = newRequest(signer, commonName)
	return key, csr, err
}

func newRequest(key crypto.Signer, commonName string) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName}}, key)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

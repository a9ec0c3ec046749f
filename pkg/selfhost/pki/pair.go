package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// half says which files of a pair exist.
type half int

const (
	none half = iota
	keyOnly
	certOnly
	both
)

// pair is a certificate and its key as read from disk.
type pair struct {
	have  half
	certs []*x509.Certificate // the leaf (or CA) first
	key   crypto.Signer       // nil where have is none or certOnly
}

// readPair reads NAME.crt and NAME.key and proves that they belong together. A
// missing file is no error (see have); one that cannot be read, is empty, torn,
// or does not match is an error naming it (I10).
func readPair(certFile, keyFile string) (pair, error) {
	var p pair
	cb, cerr := os.ReadFile(certFile)
	if cerr != nil && !errors.Is(cerr, fs.ErrNotExist) {
		return p, fmt.Errorf("read certificate: %w", cerr)
	}
	kb, kerr := os.ReadFile(keyFile)
	if kerr != nil && !errors.Is(kerr, fs.ErrNotExist) {
		return p, fmt.Errorf("read private key: %w", kerr)
	}
	var err error
	if cerr == nil {
		if p.certs, err = parseCerts(cb); err != nil {
			return p, fmt.Errorf("%s: %w; restore it, or move it and %s away to have both made anew", certFile, err, keyFile)
		}
		p.have = certOnly
	}
	if kerr == nil {
		if p.key, err = parseKey(kb); err != nil {
			return p, fmt.Errorf("%s: %w; restore it, or move it and %s away to have both made anew", keyFile, err, certFile)
		}
		p.have = keyOnly
	}
	if cerr == nil && kerr == nil {
		p.have = both
	}
	return p, nil
}

// matching finds the certificate of the pair that carries its key's public
// half: the first for a leaf; any of a CA file that holds several.
func (p pair) matching() *x509.Certificate {
	for _, c := range p.certs {
		if samePublic(c.PublicKey, p.key) {
			return c
		}
	}
	return nil
}

func samePublic(pub any, key crypto.Signer) bool {
	k, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(pub)
}

// parseCerts reads every certificate of a PEM file; none is an error.
func parseCerts(b []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for rest := b; ; {
		var blk *pem.Block
		if blk, rest = pem.Decode(rest); blk == nil {
			break
		}
		if blk.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(blk.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate not readable: %w", err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no certificate in it (%d bytes): empty or half-written", len(b))
	}
	return out, nil
}

// parseKey reads the first private key of a PEM file: PKCS#8, PKCS#1 or SEC 1.
// Errors never quote the content.
func parseKey(b []byte) (crypto.Signer, error) {
	for rest := b; ; {
		var blk *pem.Block
		if blk, rest = pem.Decode(rest); blk == nil {
			return nil, fmt.Errorf("no private key in it (%d bytes): empty or half-written", len(b))
		}
		if !strings.HasSuffix(blk.Type, "PRIVATE KEY") {
			continue
		}
		if k, err := x509.ParseECPrivateKey(blk.Bytes); err == nil {
			return k, nil
		}
		if k, err := x509.ParsePKCS1PrivateKey(blk.Bytes); err == nil {
			return k, nil
		}
		if k, err := x509.ParsePKCS8PrivateKey(blk.Bytes); err == nil {
			if s, ok := k.(crypto.Signer); ok {
				return s, nil
			}
		}
		return nil, fmt.Errorf("private key of PEM type %q not readable (damaged, encrypted or of an unknown kind)", blk.Type)
	}
}

// newKey makes an ECDSA P-256 key and its PEM.
func newKey() (crypto.Signer, []byte, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a private key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a private key: %w", err)
	}
	return k, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// signedBy says whether leaf chains to one of cas, whatever the time and the
// usages; inter are further certificates of the leaf's own file.
func signedBy(leaf *x509.Certificate, inter, cas []*x509.Certificate) bool {
	at := leaf.NotBefore
	roots, mid := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range cas {
		if bytes.Equal(c.RawSubject, leaf.RawIssuer) && leaf.CheckSignatureFrom(c) == nil {
			return true
		}
		roots.AddCert(c)
	}
	for _, c := range inter {
		mid.AddCert(c)
		if c.NotBefore.After(at) {
			at = c.NotBefore
		}
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: mid, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

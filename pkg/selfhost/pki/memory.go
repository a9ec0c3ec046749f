package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// DriverConfigPEM is ClientConfig for a driver whose certificates are not
// files: from a bundle, or a Kubernetes Secret. It returns the leaf as well, so
// that the caller knows how long it lives. A leaf that is no driver's is
// refused here, before an agent does.
func DriverConfigPEM(caPEM, certPEM, keyPEM []byte) (*tls.Config, *x509.Certificate, error) {
	cas, err := parseCerts(caPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("CA certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("driver certificate and key: %w", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, nil, fmt.Errorf("driver certificate: %w", err)
	}
	if orgs := leaf.Subject.Organization; len(orgs) != 1 || orgs[0] != OrgDrivers {
		return nil, nil, fmt.Errorf("certificate %q has organization %q, a driver's has %s alone", leaf.Subject.CommonName, orgs, OrgDrivers)
	}
	if !signedBy(leaf, nil, cas) {
		return nil, nil, fmt.Errorf("driver certificate %q was not signed by the CA that came with it", leaf.Subject.CommonName)
	}
	pool := x509.NewCertPool()
	for _, c := range cas {
		pool.AddCert(c)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{pair}, VerifyConnection: isAgent}, leaf, nil
}

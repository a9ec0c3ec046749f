package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
)

// ClientTLS reads the etcd client credentials of kubeadm's layout from dir:
// ca.crt, healthcheck-client.crt and healthcheck-client.key. The error names
// the file that could not be used.
func ClientTLS(dir string) (*tls.Config, error) {
	ca := filepath.Join(dir, "ca.crt")
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", ca)
	}
	crt := filepath.Join(dir, "healthcheck-client.crt")
	pair, err := tls.LoadX509KeyPair(crt, filepath.Join(dir, "healthcheck-client.key"))
	if err != nil {
		return nil, fmt.Errorf("client certificate %s: %w", crt, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}}, nil
}

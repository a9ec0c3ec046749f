package lab

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
)

// Kube is a real kube-apiserver that keeps its objects in etcd behind a node's proxy.
type Kube struct {
	Binary string // kube-apiserver
	Dir    string
	Addr   string // host:port it serves on
	// EtcdServers is the --etcd-servers value; it never changes.
	EtcdServers string
	node        *Node
	cmd         *exec.Cmd
	done        chan struct{}
}

// NewKube prepares certificates for an apiserver on the lab's own address; its
// only etcd endpoint is the proxy of n.
func (l *Lab) NewKube(n *Node, binary string) (*Kube, error) {
	k := &Kube{Binary: binary, Dir: filepath.Join(l.Dir, "apiserver"), Addr: l.Block.IP(1) + ":6443", node: n, EtcdServers: "https://" + n.Ref.Proxy() + ":2379"}
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return nil, err
	}
	return k, k.certificates(l.Block.IP(1))
}

// certificates makes a CA, a serving certificate, an administrator and the
// service account key: the apiserver's own business, thrown away with the lab.
func (k *Kube) certificates(ip string) error {
	if _, err := os.Stat(k.file("admin.key")); err == nil {
		return nil
	}
	caKey, ca, err := k.sign("ca", &x509.Certificate{Subject: pkix.Name{CommonName: "lab"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	if err != nil {
		return err
	}
	_, _, err = k.sign("server", &x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"}, IPAddresses: []net.IP{net.ParseIP(ip)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca, caKey)
	if err != nil {
		return err
	}
	if _, _, err = k.sign("sa", &x509.Certificate{Subject: pkix.Name{CommonName: "sa"}}, ca, caKey); err != nil {
		return err
	}
	_, _, err = k.sign("admin", &x509.Certificate{Subject: pkix.Name{CommonName: "lab-admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca, caKey)
	return err
}

func (k *Kube) file(name string) string { return filepath.Join(k.Dir, name) }

func (k *Kube) sign(name string, t, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, parentKey = t, key
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, err
	}
	t.NotBefore, t.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	t.KeyUsage |= x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	kb, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(k.file(name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(k.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: kb}), 0o600); err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return key, cert, err
}

// Start starts the apiserver. Its log is apiserver.log in its folder.
func (k *Kube) Start() error {
	host, port, _ := net.SplitHostPort(k.Addr)
	log, err := os.OpenFile(k.file("apiserver.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	etcd := k.node.PKIDir()
	k.cmd = exec.Command(k.Binary,
		"--bind-address="+host, "--secure-port="+port,
		"--advertise-address=192.0.2.10", // must not be loopback; need not exist
		"--etcd-servers="+k.EtcdServers,
		"--etcd-cafile="+pki.CertFile(etcd, pki.CA), "--etcd-certfile="+pki.CertFile(etcd, pki.APIServerEtcdClient), "--etcd-keyfile="+pki.KeyFile(etcd, pki.APIServerEtcdClient),
		"--client-ca-file="+k.file("ca.crt"), "--tls-cert-file="+k.file("server.crt"), "--tls-private-key-file="+k.file("server.key"),
		"--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+k.file("sa.key"), "--service-account-signing-key-file="+k.file("sa.key"))
	k.cmd.Stdout, k.cmd.Stderr = log, log
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := k.cmd.Start(); err != nil {
		return fmt.Errorf("start kube-apiserver: %w", err)
	}
	k.done = make(chan struct{})
	go func() { k.cmd.Wait(); close(k.done) }() //nolint:errcheck // how it ended is in its log
	return nil
}

// Kill sends SIGKILL and waits for the end.
func (k *Kube) Kill() {
	if k.cmd == nil || k.cmd.Process == nil {
		return
	}
	_ = k.cmd.Process.Kill() // gone already is what we want
	<-k.done
}

// Config for client-go, as the administrator; limits are off, this is a load generator.
func (k *Kube) Config() *rest.Config {
	return &rest.Config{Host: "https://" + k.Addr, QPS: -1, Timeout: 15 * time.Second,
		TLSClientConfig: rest.TLSClientConfig{CAFile: k.file("ca.crt"), CertFile: k.file("admin.crt"), KeyFile: k.file("admin.key")}}
}

// AwaitReady polls /readyz; an error carries the end of the apiserver's log.
func (k *Kube) AwaitReady(ctx context.Context) error {
	c, err := k.http()
	if err != nil {
		return err
	}
	last := ""
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+k.Addr+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err == nil {
			b, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			last = strings.ReplaceAll(string(b), "\n", "; ")
		} else {
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the apiserver is not ready: %s (log: %s)", last, k.file("apiserver.log"))
		case <-k.done:
			return fmt.Errorf("kube-apiserver ended: see %s", k.file("apiserver.log"))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (k *Kube) http() (*http.Client, error) {
	cert, err := tls.LoadX509KeyPair(k.file("admin.crt"), k.file("admin.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(k.file("ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}}}, nil
}

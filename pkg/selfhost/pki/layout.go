// Package pki makes, reads and judges the certificates of a node, in kubeadm's
// layout (etcd's CA and its leaves under one directory, apiserver-etcd-client
// in the one above), builds the TLS configurations from them, and says which
// caller may use which RPC of an agent.
//
// Three rules hold everywhere. What exists is used and never overwritten. A key
// is durable before its certificate, so a crash leaves a key alone, which the
// next run completes; any other half is an error naming the file. And one CA
// signs everything, so a chain to it proves membership, never a right: agents
// and drivers are told apart, and from etcd's own clients, by Organization.
package pki

import (
	"crypto/x509"
	"path/filepath"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Name is one certificate of a node: NAME.crt and NAME.key.
type Name string

// The certificates of a node, in the order they are written. All lie in the
// PKI directory except APIServerEtcdClient, which lies in its parent as
// kubeadm has it: two nodes must not share that parent.
const (
	CA                  Name = "ca"
	Server              Name = "server"
	Peer                Name = "peer"
	HealthcheckClient   Name = "healthcheck-client"
	Agent               Name = "agent"
	Driver              Name = "driver"
	APIServerEtcdClient Name = "apiserver-etcd-client"
)

// Organizations that tell agents and drivers apart (Caller). No certificate
// meant for etcd or kubeadm carries one of them.
const (
	OrgAgents  = "etcd-selfhost:agents"
	OrgDrivers = "etcd-selfhost:drivers"
)

// kind is what a leaf has to be.
type kind struct {
	name   Name
	cn     string // empty: the node name
	org    string
	server bool // ExtKeyUsageServerAuth, and SANs
	dials  bool // SANs also hold every address the node may dial from
}

// leaves lists every leaf in write order. All carry ExtKeyUsageClientAuth:
// etcd's gateway and peers dial with their server certificates. Those that are
// clients only carry no SAN, because etcd checks a client's source address
// against the SANs of its certificate where there are any (etcd
// client/pkg/transport, listener_tls.go).
var leaves = []kind{
	{name: Server, server: true},
	{name: Peer, server: true, dials: true},
	{name: HealthcheckClient, cn: "kube-etcd-healthcheck-client"},
	{name: Agent, org: OrgAgents, server: true},
	{name: Driver, org: OrgDrivers},
	{name: APIServerEtcdClient, cn: "kube-apiserver-etcd-client"},
}

// Leaves returns the names of all leaves in the order they are written.
func Leaves() []Name {
	out := make([]Name, len(leaves))
	for i, l := range leaves {
		out[i] = l.name
	}
	return out
}

// CertFile is the path of a certificate for a node whose PKI lies in pkiDir.
func CertFile(pkiDir string, n Name) string { return stem(pkiDir, n) + ".crt" }

// KeyFile is the path of its private key.
func KeyFile(pkiDir string, n Name) string { return stem(pkiDir, n) + ".key" }

func stem(pkiDir string, n Name) string {
	if n == APIServerEtcdClient {
		return filepath.Join(filepath.Dir(filepath.Clean(pkiDir)), string(n))
	}
	return filepath.Join(pkiDir, string(n))
}

func (k kind) usages() []x509.ExtKeyUsage {
	if k.server {
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

func (k kind) commonName(node wire.NodeRef) string {
	if k.cn != "" {
		return k.cn
	}
	return node.Name
}

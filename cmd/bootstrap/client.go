package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// client is whom a client verb asks, and as whom.
type client struct {
	nodes []wire.NodeRef
	ports wire.Ports
	tls   *tls.Config
	// local: this machine is a node, with a state directory of its own; node is its name.
	local bool
	node  string
}

// clientFlags are the flags of verbs that ask agents.
func (a *app) clientFlags(cmd *cobra.Command) {
	a.set.Bind(cmd.Flags(), config.State|config.Client)
	a.completeNodes(cmd, "agents", func(n wire.NodeRef) string { return n.Address })
}

// client settles whom to ask: the agents named by --agents, or the nodes that
// the local state names.
func (a *app) client() (*client, error) {
	id, err := agent.ReadIdentity(a.set.StateDir)
	if err != nil && (len(a.set.Agents) == 0 || !errors.Is(err, fs.ErrNotExist)) {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; from a machine that is no node, name agents with --agents and a PKI directory or an unused bundle with --identity", err)
		}
		return nil, err
	}
	local := err == nil
	c := &client{ports: wire.DefaultPorts, local: local, node: id.Node.Name}
	if local {
		c.ports, c.nodes = id.Ports, knownNodes(a.set.StateDir)
	}
	if !local || a.set.Given("agent-port") != "" {
		c.ports.Agent = a.set.Ports.Agent
	}
	if len(a.set.Agents) > 0 {
		if err := c.named(a.set.Agents); err != nil {
			return nil, err
		}
	}
	switch {
	case a.set.Identity != "":
		c.tls, err = identityTLS(a.set.Identity)
	case local && a.set.Given("pki-dir") == "":
		c.tls, err = pki.ClientConfig(id.PKIDir, pki.RoleDriver)
	default:
		c.tls, err = pki.ClientConfig(a.set.PKIDir, pki.RoleDriver)
	}
	if err != nil {
		return nil, fmt.Errorf("as whom to ask the agents: %w; --identity names a PKI directory or an unused bundle that has a driver's certificate", err)
	}
	return c, nil
}

// named takes --agents: IP, or IP:PORT with one port for all, since agents of a
// cluster use one.
func (c *client) named(agents []string) error {
	c.nodes = nil
	port := 0
	for _, s := range agents {
		host := s
		if h, p, err := net.SplitHostPort(s); err == nil {
			n, err := strconv.Atoi(p)
			if err != nil || n < 1 || n > 65535 || port != 0 && port != n {
				return usagef("--agents %s: the port must be a number, and the same for every agent", s)
			}
			host, port = h, n
		}
		if err := config.Address(host); err != nil {
			return usagef("--agents: %v", err)
		}
		c.nodes = append(c.nodes, wire.NodeRef{Address: host})
	}
	if port != 0 {
		c.ports.Agent = port
	}
	return nil
}

// identityTLS reads a driver's certificate from a PKI directory or from a
// bundle that was not used yet.
func identityTLS(path string) (*tls.Config, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return pki.ClientConfig(path, pki.RoleDriver)
	}
	b, err := pki.ReadBundle(path)
	if err != nil {
		return nil, err
	}
	pair, ok := b.Leaves[pki.Driver]
	if !ok {
		return nil, fmt.Errorf("%s holds no driver certificate; a bundle that was used holds no keys any more", path)
	}
	cert, err := tls.X509KeyPair([]byte(pair.Cert), []byte(pair.Key))
	if err != nil {
		return nil, fmt.Errorf("driver certificate in %s: %w", path, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(b.CACert)) {
		return nil, fmt.Errorf("%s holds no CA certificate", path)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{cert}, VerifyConnection: onlyAgents}, nil
}

// onlyAgents takes nobody else's certificate for an agent's (pki.ClientConfig).
func onlyAgents(s tls.ConnectionState) error {
	role, name, err := pki.Caller(s)
	if err != nil {
		return err
	}
	if role != pki.RoleAgent {
		return fmt.Errorf("what answers is not an agent but %s %s", role, name)
	}
	return nil
}

// config of a driver that asks c's agents. What a driver does is told on stdout
// by the verb; its log lines come when --log-level asks for them.
func (c *client) config(a *app) driver.Config {
	cfg := driver.Config{Nodes: c.nodes, Ports: c.ports, TLS: c.tls, Timeout: a.set.Timeout}
	if a.set.Given("log-level") != "" {
		cfg.Logger = a.log
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 1 << 62 // for ever; the driver takes 0 for its default
	}
	return cfg
}

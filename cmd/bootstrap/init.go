package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func (a *app) initCmd() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "init --address IP [flags]",
		Short: "Make this host the first node: certificates, identity, and a seed to start",
		Long: `init writes what the first node needs: certificates in kubeadm's layout (those
that exist are used), its identity, epoch 1, and a desired spec of one seed. It
starts nothing; the agent does. Repeated with the same flags it does nothing, or
finishes what was cut short. A data directory that holds anything is refused
with what was found in it, and never touched.`,
		Args: noArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error { return a.init(ctx, dry) }),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "write nothing: list every file, unit and command, and what would be refused; needs no root")
	a.set.Bind(cmd.Flags(), config.State|config.Node|config.Certs|config.Etcd)
	complete(cmd, "runtime", string(wire.RuntimeProcess))
	complete(cmd, "seed-runtime", string(wire.RuntimeProcess))
	return cmd
}

// node is what init is about to make.
type node struct {
	id      wire.Identity
	initial agent.Initial
	pki     pki.Params
	// begun: its identity is there. made: so is everything else.
	begun, made bool
}

func (a *app) init(ctx context.Context, dry bool) error {
	n, err := a.newNode(ctx)
	if err != nil {
		return err
	}
	refusals, err := n.check(ctx, dry)
	if err != nil {
		return err
	}
	if dry {
		return a.initPlan(n, refusals)
	}
	if len(refusals) > 0 {
		return errors.Join(refusals...)
	}
	created, used, err := pki.EnsureNode(n.pki)
	if err != nil {
		return err
	}
	a.log.Info("certificates are in place", "dir", n.id.PKIDir, "created", len(created), "used", len(used))
	if n.made {
		a.printf("node %s at %s was made before and is whole; nothing else to do\n", n.id.Node.Name, n.id.Node.Address)
	} else {
		if err := agent.Prepare(n.initial); err != nil {
			return err
		}
		a.printf("node %s at %s is made; its seed will listen on %s\n", n.id.Node.Name, n.id.Node.Address, n.id.Node.HostPort(n.id.Ports.SeedClient))
	}
	a.initNext(n)
	return nil
}

// newNode turns settings into a node; everything is known before anything is written.
func (a *app) newNode(ctx context.Context) (*node, error) {
	id, err := wantedIdentity(a.set)
	if err != nil {
		return nil, err
	}
	if id.Node.Address == "" {
		return nil, usagef("--address is needed: an IP of this host that the other nodes reach")
	}
	n := &node{id: id, initial: agent.Initial{Identity: id, Spec: wire.Spec{Target: wire.TargetSeed, Nodes: []wire.NodeRef{id.Node},
		Ports: id.Ports, EtcdBinary: a.set.EtcdBinary, Settings: a.set.Etcd}}}
	if n.initial.SeedToken, err = member.NewToken(1, rand.Reader); err != nil {
		return nil, err
	}
	if bin := a.set.EtcdBinary; bin != "" {
		if n.initial.EtcdVersion, err = member.BinaryVersion(ctx, bin); err != nil {
			return nil, err
		}
	}
	dial, err := pki.HostAddresses()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	n.pki = pki.Params{PKIDir: id.PKIDir, Node: id.Node, Hostname: host, ProxyAddresses: []string{id.Node.Proxy()},
		DialAddresses: dial, ExtraSANs: a.set.ExtraSANs}
	return n, nil
}

// stored reads the identity that is there; none is no error.
func stored(stateDir string) (id wire.Identity, found bool, err error) {
	id, err = agent.ReadIdentity(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return id, false, nil
	}
	return id, err == nil, err
}

// initNext says how it goes on.
func (a *app) initNext(n *node) {
	id := n.id
	a.printf(`
next:
  start the agent, and keep it running:
    bootstrap agent --state-dir %[1]s
  point the apiserver at this node's proxy:
    --etcd-servers=https://%[2]s
    --etcd-cafile=%[3]s
    --etcd-certfile=%[4]s
    --etcd-keyfile=%[5]s
  for each further node, make its identity here and start its agent with it:
    bootstrap pki bundle --state-dir %[1]s --node-name NAME --address IP
  then carry everything onto managed members:
    bootstrap pivot --state-dir %[1]s --nodes %[6]s=%[7]s,NAME=IP,NAME=IP
`, id.StateDir, hostPort(id.Node.Proxy(), id.Ports.Client), pki.CertFile(id.PKIDir, pki.CA), pki.CertFile(id.PKIDir, pki.APIServerEtcdClient),
		pki.KeyFile(id.PKIDir, pki.APIServerEtcdClient), id.Node.Name, id.Node.Address)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func (a *app) pkiCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "pki", Short: "Make certificates for further nodes", Args: noArgs, RunE: showHelp}
	cmd.AddCommand(a.pkiBundleCmd())
	return cmd
}

// bundleFlags describe the further node, never this one: they are flags only,
// so that this node's own variables and config file are not taken for them.
type bundleFlags struct {
	name, proxy, out string
	addresses, sans  []string
	caKey            bool
}

func (a *app) pkiBundleCmd() *cobra.Command {
	var f bundleFlags
	cmd := &cobra.Command{
		Use:   "bundle --node-name NAME --address IP [flags]",
		Short: "Make the identity of a further node: one file, used once by its agent",
		Long: `bundle makes and signs every certificate of a further node and writes them, with
their keys, into one file (mode 0600). Run it on a node that has the CA's key,
carry the file to the new node, and start the agent there with it.`,
		Args: noArgs,
		RunE: a.verb(func(context.Context, []string) error { return a.pkiBundle(f) }),
	}
	cmd.Flags().StringVar(&f.name, "node-name", "", "`NAME` of the further node")
	cmd.Flags().StringSliceVar(&f.addresses, "address", nil, "`IP` of the further node; again for further ones, the first is where its member listens")
	cmd.Flags().StringVar(&f.proxy, "proxy-address", "", "`IP` its proxy listens on (default 127.0.0.1)")
	cmd.Flags().StringSliceVar(&f.sans, "extra-sans", nil, "`IP` or name, or several, for its server certificates besides its own and every known proxy's")
	cmd.Flags().StringVar(&f.out, "out", "", "`FILE` to write (default NAME.bundle.json)")
	cmd.Flags().BoolVar(&f.caKey, "with-ca-key", false, "put the CA's key in, so that the node can make bundles too")
	a.set.Bind(cmd.Flags(), config.State)
	return cmd
}

func (f *bundleFlags) node() (wire.NodeRef, error) {
	if f.name == "" || len(f.addresses) == 0 {
		return wire.NodeRef{}, usagef("--node-name and --address of the further node are needed")
	}
	if err := config.NodeName(f.name); err != nil {
		return wire.NodeRef{}, usagef("--node-name: %v", err)
	}
	for _, ip := range f.addresses {
		if err := config.Address(ip); err != nil {
			return wire.NodeRef{}, usagef("--address: %v", err)
		}
	}
	if f.proxy != "" {
		if err := config.Address(f.proxy); err != nil {
			return wire.NodeRef{}, usagef("--proxy-address: %v", err)
		}
	}
	return wire.NodeRef{Name: f.name, Address: f.addresses[0], MoreAddresses: f.addresses[1:], ProxyAddress: f.proxy}, nil
}

func (a *app) pkiBundle(f bundleFlags) error {
	node, err := f.node()
	if err != nil {
		return err
	}
	id, err := agent.ReadIdentity(a.set.StateDir)
	if err != nil {
		return err
	}
	nodes, err := specNodes(id)
	if err != nil {
		return err
	}
	if r := nodeTaken(append(nodes, id.Node), node); r != nil {
		return r
	}
	out := f.out
	if out == "" {
		out = f.name + ".bundle.json"
	}
	if st, err := os.Stat(filepath.Dir(out)); err != nil || !st.IsDir() {
		return usagef("--out %s: there is no directory %s", out, filepath.Dir(out))
	}
	b, err := pki.NewBundle(pki.BundleParams{
		Params: pki.Params{PKIDir: id.PKIDir, Node: node, ProxyAddresses: pki.ProxyAddresses(append(nodes, id.Node, node)),
			ExtraSANs: f.sans},
		Identity:  id,
		WithCAKey: f.caKey,
	})
	if err != nil {
		return err
	}
	if err := b.WriteFile(out); err != nil {
		return err
	}
	a.printf("wrote %s, the identity of node %s at %s; it holds private keys\n\nnext, on %s:\n  carry the file there, as root only, and then\n  bootstrap agent --bundle %s\n",
		out, f.name, node.Address, f.name, filepath.Base(out))
	return nil
}

// specNodes are the nodes of the stored spec; a node that has none yet is no error.
func specNodes(id wire.Identity) ([]wire.NodeRef, error) {
	var spec wire.Spec
	if err := durable.ReadJSON(id.State(wire.FileSpec), wire.V, &spec); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return spec.Nodes, nil
}

// nodeTaken refuses a name or an address that another node of the cluster has;
// the same node again is a bundle made anew.
func nodeTaken(have []wire.NodeRef, want wire.NodeRef) *wire.Refusal {
	for _, n := range have {
		if (n.Name == want.Name) != (n.Address == want.Address) {
			return &wire.Refusal{Name: "NodeTaken", Node: want.Name, Found: fmt.Sprintf("node %s at %s in this cluster", n.Name, n.Address),
				Want: fmt.Sprintf("a name and an address of its own for %s at %s", want.Name, want.Address)}
		}
	}
	return nil
}

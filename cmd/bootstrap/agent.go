package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func (a *app) agentCmd() *cobra.Command {
	var bundle string
	cmd := &cobra.Command{
		Use:   "agent [--bundle FILE]",
		Short: "Run this node's agent, which runs its proxy, seed and member",
		Long: `agent owns this node's etcd. It starts what the node's state says should run and
serves drivers (pivot, status) on its port. Stopping or restarting it stops
nothing else: seed, member and proxy go on, and the next agent adopts them.

A further node begins with --bundle: the file gives it certificates and identity
and is then spent; giving it again is harmless. Flags that describe the node
must agree with the identity that is there.`,
		Args: noArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error { return a.agent(ctx, bundle) }),
	}
	cmd.Flags().StringVar(&bundle, "bundle", "", "bundle `FILE` that gives a further node its identity (pki bundle)")
	a.set.Bind(cmd.Flags(), config.State|config.Node)
	return cmd
}

func (a *app) agent(ctx context.Context, bundle string) error {
	if bundle != "" {
		if err := a.unpack(bundle); err != nil {
			return err
		}
	}
	id, err := agent.ReadIdentity(a.set.StateDir)
	if err != nil {
		return err
	}
	want, err := wantedIdentity(a.set)
	if err != nil {
		return err
	}
	if r := identityDiffers(id, want, func(flag string) bool { return a.set.Given(flag) != "" }); r != nil {
		return r
	}
	if r := runtimeSupported(id); r != nil {
		return r
	}
	return agent.Run(ctx, agent.Config{StateDir: a.set.StateDir, Logger: a.log})
}

// unpack makes this node from a bundle; one that made it before is no error.
func (a *app) unpack(bundle string) error {
	dirs := wire.Identity{DataDir: a.set.DataDir, StateDir: a.set.StateDir, PKIDir: a.set.PKIDir}
	if a.set.Given("node-name") != "" {
		dirs.Node.Name = a.set.NodeName
	}
	if a.set.Given("runtime") != "" {
		dirs.Runtime = wire.Runtime(a.set.Runtime)
	}
	if a.set.Given("seed-runtime") != "" {
		dirs.SeedRuntime = wire.Runtime(a.set.SeedRuntime)
	}
	if r := bundleIsOurs(bundle); r != nil {
		return r
	}
	_, err := pki.UnpackFile(bundle, dirs, time.Now())
	// A unit keeps the flag for ever; the file, once spent, may be gone.
	if errors.Is(err, pki.ErrBundleUsed) || errors.Is(err, fs.ErrNotExist) {
		if _, have := agent.ReadIdentity(a.set.StateDir); have == nil {
			a.log.Info("this node was made from a bundle before, going on with its identity", "bundle", bundle)
			return nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--bundle: there is no file %s, and %s holds no identity yet; make the bundle on a node that has the CA's key (`bootstrap pki bundle`), and carry it here", bundle, a.set.StateDir)
	}
	return err
}

// bundleIsOurs refuses a bundle for an address of another host before anything
// is written or the bundle spent. One that cannot be read is UnpackFile's to tell.
func bundleIsOurs(path string) error {
	b, err := pki.ReadBundle(path)
	if err != nil || !b.Spent.IsZero() {
		return nil
	}
	if r := addressesOurs(b.Identity.Node); r != nil {
		return r
	}
	return nil
}

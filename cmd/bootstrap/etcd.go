package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func (a *app) etcdCmd() *cobra.Command {
	var slot, binary string
	cmd := &cobra.Command{
		Use:   "etcd --slot seed|member [flags] -- ETCD-ARGUMENTS",
		Short: "Be the etcd of one slot: take its lock, pass the start gate, serve",
		Long: `etcd is the process of every seed and member; the agent, kubelet or systemd
starts it. It takes the lock beside the data directory, asks the gate (this
node's disk alone) whether the directory may start, and then serves, or becomes
the etcd that --etcd-binary names. Its command line is the whole truth: neither
environment nor config file is read. Exit code 3 is the gate's no.`,
		Args: cobra.ArbitraryArgs,
		RunE: a.bareVerb(func(ctx context.Context, args []string) error {
			return member.Run(ctx, member.Options{StateDir: a.set.StateDir, Slot: wire.Slot(slot), EtcdBinary: binary, Args: args, Log: a.log})
		}),
	}
	cmd.Flags().StringVar(&slot, "slot", "", "`SLOT` whose directory is served: seed or member")
	cmd.Flags().StringVar(&binary, "etcd-binary", "", "`PATH` of the etcd to become (default the embedded one)")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if slot != string(wire.SlotSeed) && slot != string(wire.SlotMember) {
			return fmt.Errorf("--slot %q: there are %s and %s", slot, wire.SlotSeed, wire.SlotMember)
		}
		return nil
	}
	complete(cmd, "slot", string(wire.SlotSeed), string(wire.SlotMember))
	a.set.Bind(cmd.Flags(), config.State)
	return cmd
}

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/proxy"
)

func (a *app) proxyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Pass TLS connections of this node's apiserver through to a healthy member",
		Long: `proxy listens on 127.0.0.1:2379 (or the node's --proxy-address) and splices each
connection to a voting member that its own probe admits. Its targets come from a
file that the agent writes; the last good one holds while there is no agent.
Everything else is in the node's identity: neither environment nor config file
is read.`,
		Args: noArgs,
		RunE: a.bareVerb(func(ctx context.Context, _ []string) error {
			id, err := agent.ReadIdentity(a.set.StateDir)
			if err != nil {
				return err
			}
			return proxy.Run(ctx, proxy.Config{Identity: id, Logger: a.log})
		}),
	}
	a.set.Bind(cmd.Flags(), config.State)
	return cmd
}

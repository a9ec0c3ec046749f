package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func (a *app) unpivotCmd() *cobra.Command {
	var to string
	var dry bool
	cmd := &cobra.Command{
		Use:   "unpivot [--to NODE]",
		Short: "Go back to one seed, with everything on it",
		Long: `unpivot is the way back of pivot: it drives the agents, step by step, until one
seed holds everything and serves every node's proxy, and every member is gone.
The members' directories go to the attics of their nodes. It may be stopped
(Ctrl-C) or killed anywhere: the same command goes on, and pivot turns round.
--dry-run prints the whole route with reasons and changes nothing.

One seed survives no loss: afterwards the loss of its node is the loss of etcd.`,
		Args: noArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			return a.drive(ctx, journey{verb: "unpivot", dry: dry, nothing: "the seed serves and is the only member",
				want: func(ctx context.Context, d *driver.Driver) (wire.Spec, error) { return wantSeed(ctx, d, to) }})
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "the `NODE` that gets the seed (default: the one that has it already, then the leader's)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the route, step by step, and do nothing")
	a.completeNodes(cmd, "to", func(n wire.NodeRef) string { return n.Name })
	a.clientFlags(cmd)
	return cmd
}

// wantSeed asks for one seed: on the node named, or on the one that has a seed,
// or that leads, or is the stored spec's first.
func wantSeed(ctx context.Context, d *driver.Driver, to string) (wire.Spec, error) {
	want := wire.Spec{Target: wire.TargetSeed}
	v, err := d.Look(ctx)
	if err != nil {
		return want, err
	}
	if v.Spec == nil {
		if silent := silentNodes(v); len(silent) == len(v.Nodes) {
			return want, noAnswer(silent)
		}
		return want, &wire.Refusal{Name: "NoSpec", Cites: "I10", Found: "no agent that answers stores a desired spec", Want: "a cluster that `bootstrap init` began"}
	}
	if to == "" {
		to = seedHome(v)
	}
	want.Nodes = slices.Clone(v.Spec.Nodes)
	i := slices.IndexFunc(want.Nodes, func(n wire.NodeRef) bool { return n.Name == to })
	if i < 0 {
		var names []string
		for _, n := range want.Nodes {
			names = append(names, n.Name)
		}
		return want, usagef("--to %s: the stored spec names %s", to, strings.Join(names, ", "))
	}
	first := want.Nodes[i]
	want.Nodes = append([]wire.NodeRef{first}, slices.Delete(want.Nodes, i, i+1)...)
	return want, nil
}

// seedHome is the node that an unpivot goes to where nobody named one.
func seedHome(v *driver.View) string {
	first := v.Spec.Nodes[0].Name
	if v.Spec.Target == wire.TargetSeed { // begun earlier
		return first
	}
	if seed := v.State.SeedMember(); seed != nil && seed.Node != "" {
		return seed.Node
	}
	if m := v.State.Member(pivot.MemberID(v.Leader)); m != nil && v.State.Want.Has(m.Node) {
		return m.Node
	}
	return first
}

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
)

// watchEvery is how often status --watch looks.
const watchEvery = 2 * time.Second

func (a *app) statusCmd() *cobra.Command {
	var out string
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show members, nodes and conditions, and what would be done next; needs no API",
		Long: `status asks every agent once and shows what they say: members with role, health,
term, index and lag, the seed, proxies, certificates, conditions, and in words
what a driver would do next. A node that does not answer is named with the
reason; that says nothing about its etcd.`,
		Args: noArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error { return a.status(ctx, out, watch) }),
	}
	outputFlag(cmd, &out)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "look every two seconds until Ctrl-C; what changed is shown in place, or printed where there is no terminal")
	a.clientFlags(cmd)
	return cmd
}

func (a *app) status(ctx context.Context, out string, watch bool) error {
	if err := checkOutput(out); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	d := driver.New(c.config(a))
	defer d.Close()
	if !watch {
		ctx, cancel := a.bounded(ctx)
		defer cancel()
		return a.statusOnce(ctx, d, out)
	}
	return a.watch(ctx, d, out)
}

// statusOnce looks once and prints.
func (a *app) statusOnce(ctx context.Context, d *driver.Driver, out string) error {
	r, err := look(ctx, d)
	if err != nil {
		return err
	}
	if out == "json" {
		return writeJSON(a.stdout, r)
	}
	a.printf("%s", r.text())
	return nil
}

// look asks every agent; that none answers is an error.
func look(ctx context.Context, d *driver.Driver) (*statusReport, error) {
	v, err := d.Look(ctx)
	if err != nil {
		return nil, err
	}
	if silent := silentNodes(v); len(silent) == len(v.Nodes) {
		return nil, noAnswer(silent)
	}
	return newStatus(v, d.Decide(v)), nil
}

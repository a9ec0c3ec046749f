package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

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
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again every two seconds until Ctrl-C")
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
		return a.statusOnce(ctx, d, out, "")
	}
	before := ""
	if f, ok := a.stdout.(*os.File); ok && out == "" && term.IsTerminal(int(f.Fd())) {
		before = "\x1b[H\x1b[2J" // home, clear
	}
	for {
		if err := a.statusOnce(ctx, d, out, before); err != nil && ctx.Err() == nil {
			a.printf("%s%v\n", before, err) // agents may come back
		}
		if before == "" && out == "" {
			a.printf("\n")
		}
		select {
		case <-ctx.Done():
			return nil // Ctrl-C is how a watch ends
		case <-time.After(watchEvery):
		}
	}
}

func (a *app) statusOnce(ctx context.Context, d *driver.Driver, out, before string) error {
	v, err := d.Look(ctx)
	if err != nil {
		return err
	}
	if silent := silentNodes(v); len(silent) == len(v.Nodes) {
		return noAnswer(silent)
	}
	r := newStatus(v, d.Decide(v))
	if out == "json" {
		return writeJSON(a.stdout, r)
	}
	// One write, so that a redraw does not flicker.
	_, err = fmt.Fprint(a.stdout, before+r.text())
	return err
}

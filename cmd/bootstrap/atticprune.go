package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// pruneFlags of `attic prune` and `journal prune`.
type pruneFlags struct {
	out  string
	keep int
	yes  bool
}

func (f *pruneFlags) bind(cmd *cobra.Command, keep int, what string) {
	outputFlag(cmd, &f.out)
	cmd.Flags().IntVar(&f.keep, "keep", keep, "how many of the newest `"+what+"` of each node stay in any case")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "remove them; without it nothing is removed")
}

func (f *pruneFlags) check() error {
	if err := checkOutput(f.out); err != nil {
		return err
	}
	if f.keep < 0 {
		return usagef("--keep %d: 0 or more", f.keep)
	}
	return nil
}

func (a *app) atticPruneCmd() *cobra.Command {
	var f pruneFlags
	cmd := &cobra.Command{
		Use:   "prune [NODE…]",
		Short: "Remove retired directories that the live members hold all of",
		Long: `WARNING: with --yes this deletes data directories for good. Take a snapshot
first; what is gone can be had again from nowhere else.

prune shows what may go, and removes it only with --yes. The newest entries of
each node stay (--keep). Of the others only such go as are whole, of the live
cluster, and end at a term, index and revision that a majority of the live
members is seen to have passed; each agent looks for itself, and reads the
directory once more before it goes. Anything else is left, with the reason.

It is refused while a node is silent, a driver is at work, or anything is left
to be done (NotSettled). Every removal is journaled.`,
		Example: "  bootstrap attic prune cp-1 --keep 0\n  bootstrap attic prune cp-1 --keep 0 --yes",
		RunE:    a.verb(func(ctx context.Context, args []string) error { return a.atticPrune(ctx, f, args) }),
	}
	f.bind(cmd, wire.AtticKeep, "ENTRIES")
	a.clientFlags(cmd)
	a.completeNodeArgs(cmd)
	return cmd
}

func (a *app) atticPrune(ctx context.Context, f pruneFlags, only []string) error {
	return a.prune(ctx, "attic prune", &f, func(ctx context.Context, d *driver.Driver, t *driver.Tidying) error {
		r, refs, err := attics(ctx, d, f.keep, only)
		if err != nil {
			return err
		}
		if t == nil && f.out == "" {
			a.printAttic(r)
		}
		may, kept, bytes := 0, 0, int64(0)
		var failed []error
		for _, node := range r.Nodes {
			for i := len(node.Entries) - 1; i >= 0; i-- { // oldest first
				e := node.Entries[i]
				if e.Keep != "" {
					kept++
					continue
				}
				may, bytes = may+1, bytes+e.Bytes
				if t == nil {
					continue
				}
				done, err := t.PruneAttic(ctx, refs[node.Node], e.Name, f.keep)
				if err != nil {
					failed = append(failed, fmt.Errorf("%s: %s: %w", node.Node, e.Name, err))
					continue
				}
				r.Removed = append(r.Removed, done)
				if f.out == "" {
					a.printf("%s: removed %s, %s\n", node.Node, e.Name, bytesText(done.Bytes))
				}
			}
		}
		if f.out == "json" {
			return errors.Join(append(failed, writeJSON(a.stdout, r))...)
		}
		a.pruneEnd(may, kept, bytes, "entry", "entries", t != nil)
		return errors.Join(failed...)
	})
}

// prune runs do, under a grant (t) where --yes was given, and with t nil to show what would be done.
func (a *app) prune(ctx context.Context, verb string, f *pruneFlags, do func(context.Context, *driver.Driver, *driver.Tidying) error) error {
	if err := f.check(); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	cfg := c.config(a)
	if f.yes {
		release, err := a.holder(verb, c, &cfg)
		if err != nil {
			return err
		}
		defer release()
	}
	d := driver.New(cfg)
	defer d.Close()
	if !f.yes {
		return do(ctx, d, nil)
	}
	t, err := d.Tidy(ctx)
	if err != nil {
		return err
	}
	defer t.Close(ctx)
	return do(ctx, d, t)
}

func (a *app) pruneEnd(may, kept int, bytes int64, one, many string, done bool) {
	count := func(n int) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	switch {
	case may == 0 && kept == 0:
		a.printf("nothing to remove: there is no %s\n", one)
	case may == 0:
		a.printf("nothing may go; kept: %s\n", count(kept))
	case !done:
		a.printf("may go: %s, %s; nothing was removed, --yes removes\n", count(may), bytesText(bytes))
	default:
		a.printf("kept: %s\n", count(kept))
	}
}

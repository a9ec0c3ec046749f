package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// journalFilesReport is the output of `journal files -o json`; with `journal
// prune` Removed is what went, and nothing without --yes.
type journalFilesReport struct {
	V       int                      `json:"v"`
	Nodes   []wire.JournalFilesReply `json:"nodes"`
	Removed []driver.Pruned          `json:"removed,omitempty"`
	Silent  []silentNode             `json:"silent,omitempty"`
}

func (a *app) journalFilesCmd() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "files",
		Short: "Show which journals each node keeps, and their sizes",
		Long: `files lists the journal that each agent writes and those that it has set aside,
each named by its last entry: journal-N.jsonl in the node's state directory.`,
		Args: noArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error { return a.journalFiles(ctx, out) }),
	}
	outputFlag(cmd, &out)
	a.clientFlags(cmd)
	return cmd
}

func (a *app) journalFiles(ctx context.Context, out string) error {
	if err := checkOutput(out); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	d := driver.New(c.config(a))
	defer d.Close()
	r, _, err := journals(ctx, d)
	if err != nil {
		return err
	}
	if out == "json" {
		return writeJSON(a.stdout, r)
	}
	a.printJournalFiles(r, 0)
	return nil
}

func journals(ctx context.Context, d *driver.Driver) (r journalFilesReport, refs map[string]wire.NodeRef, err error) {
	keepers, err := d.Journals(ctx)
	if err != nil {
		return r, nil, err
	}
	r, refs = journalFilesReport{V: wire.V, Nodes: []wire.JournalFilesReply{}}, map[string]wire.NodeRef{}
	for _, k := range keepers {
		if k.Journal == nil {
			r.Silent = append(r.Silent, silentNode{k.Ref.Name, k.Ref.Address, reason(k.Err)})
			continue
		}
		refs[k.Journal.Node] = k.Ref
		r.Nodes = append(r.Nodes, *k.Journal)
	}
	if len(r.Nodes) == 0 {
		return r, nil, noAnswer(r.Silent)
	}
	return r, refs, nil
}

func (a *app) printJournalFiles(r journalFilesReport, mark int) {
	for _, n := range r.Nodes {
		a.printf("%s  journal.jsonl %s, being written; of those set aside it keeps %d\n", n.Node, bytesText(n.Current), n.Kept)
		for i, f := range n.Files {
			goes := ""
			if mark > 0 && i >= mark-1 {
				goes = ", may go"
			}
			a.printf("    %s %s%s\n", f.Name, bytesText(f.Bytes), goes)
		}
	}
	a.printSilent(r.Silent)
}

func (a *app) journalPruneCmd() *cobra.Command {
	var f pruneFlags
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove old journals that were set aside",
		Long: `WARNING: with --yes this deletes the record of what was done to the nodes, as far
as it lies in old journals; copy them first if anybody may ask.

prune shows what may go and removes it only with --yes: of the journals that a
node has set aside all but the newest (--keep). The one being written stays.
It is refused while a node is silent, a driver is at work, or anything is left
to be done (NotSettled).`,
		Args: noArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error { return a.journalPrune(ctx, f) }),
	}
	f.bind(cmd, 1, "FILES")
	a.clientFlags(cmd)
	return cmd
}

func (a *app) journalPrune(ctx context.Context, f pruneFlags) error {
	return a.prune(ctx, "journal prune", &f, func(ctx context.Context, d *driver.Driver, t *driver.Tidying) error {
		r, refs, err := journals(ctx, d)
		if err != nil {
			return err
		}
		if t == nil && f.out == "" {
			a.printJournalFiles(r, f.keep+1)
		}
		may, kept, bytes := 0, 0, int64(0)
		var failed []error
		for _, n := range r.Nodes {
			goes := n.Files[min(f.keep, len(n.Files)):]
			may, kept = may+len(goes), kept+len(n.Files)-len(goes)
			for _, file := range goes {
				bytes += file.Bytes
			}
			if t == nil || len(goes) == 0 {
				continue
			}
			done, err := t.PruneJournals(ctx, refs[n.Node], f.keep)
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", n.Node, err))
				continue
			}
			r.Removed = append(r.Removed, done)
			if f.out == "" {
				a.printf("%s: removed journal files: %d, %s\n", n.Node, len(done.Removed), bytesText(done.Bytes))
			}
		}
		if f.out == "json" {
			return errors.Join(append(failed, writeJSON(a.stdout, r))...)
		}
		a.pruneEnd(may, kept, bytes, "file", "files", t != nil)
		return errors.Join(failed...)
	})
}

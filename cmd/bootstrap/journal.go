package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// journalReport is the output of `journal -o json`.
type journalReport struct {
	V int `json:"v"`
	// Entries of every node that answered, oldest first.
	Entries []wire.JournalEntry `json:"entries"`
	// Silent nodes are named, not left out.
	Silent []silentNode `json:"silent,omitempty"`
}

// silentNode is one whose agent gave no answer.
type silentNode struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	Why     string `json:"why"`
}

func (a *app) journalCmd() *cobra.Command {
	var out string
	var last int
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "Show what was done to the nodes: every step, by whom, why, how it ended",
		Long: `journal asks every agent for its last entries and prints them in the order of
time. Each agent writes down every step taken on its node, on what evidence and
with what outcome, and keeps it without any API. A journal is set aside when it
has 64 MiB, and the newest eight of those stay: see journal files, journal prune.`,
		Args: noArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error { return a.journal(ctx, out, last) }),
	}
	outputFlag(cmd, &out)
	cmd.Flags().IntVar(&last, "last", 50, "how many `ENTRIES` of each node")
	a.clientFlags(cmd)
	cmd.AddCommand(a.journalFilesCmd(), a.journalPruneCmd())
	return cmd
}

func (a *app) journal(ctx context.Context, out string, last int) error {
	if err := checkOutput(out); err != nil {
		return err
	}
	if last < 1 {
		return usagef("--last %d: at least one entry", last)
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	d := driver.New(c.config(a))
	defer d.Close()
	v, err := d.Look(ctx) // finds nodes that only the agents know
	if err != nil {
		return err
	}
	r := readJournals(ctx, agentclient.NewClient(c.tls, c.ports.Agent), v.Nodes, last)
	if len(r.Silent) == len(v.Nodes) {
		return noAnswer(r.Silent)
	}
	if out == "json" {
		return writeJSON(a.stdout, r)
	}
	a.printJournal(r)
	return nil
}

func readJournals(ctx context.Context, c *agentclient.Client, nodes []driver.NodeView, last int) journalReport {
	defer c.Close()
	r := journalReport{V: wire.V, Entries: []wire.JournalEntry{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() {
			reply, err := c.Journal(ctx, n.Ref.Address, last)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.Silent = append(r.Silent, silentNode{n.Ref.Name, n.Ref.Address, reason(err)})
				return
			}
			r.Entries = append(r.Entries, reply.Entries...)
		})
	}
	wg.Wait()
	slices.SortFunc(r.Silent, func(x, y silentNode) int { return cmp.Compare(x.Node, y.Node) })
	// Two clocks are compared here: the order between nodes is only as good as they are.
	slices.SortStableFunc(r.Entries, func(x, y wire.JournalEntry) int {
		if x.Node == y.Node {
			return cmp.Compare(x.Seq, y.Seq)
		}
		return x.Time.Compare(y.Time)
	})
	return r
}

func (a *app) printJournal(r journalReport) {
	for _, e := range r.Entries {
		a.printf("%s  %s  %s: %s\n", e.Time.UTC().Format("2006-01-02 15:04:05.000"), e.Node, e.Step, e.Outcome)
		for _, l := range []struct{ name, text string }{{"why", e.Why}, {"evidence", e.Evidence}, {"by", e.By}} {
			if l.text != "" {
				a.printf("    %s: %s\n", l.name, strings.Join(strings.Fields(l.text), " "))
			}
		}
	}
	for _, s := range r.Silent {
		a.printf("silent: %s at %s: %s\n", s.Node, s.Address, s.Why)
	}
}

// noAnswer is the error when every node is silent.
func noAnswer(silent []silentNode) error {
	if len(silent) == 0 {
		return errors.New("no node is known to ask")
	}
	var rows []string
	for _, s := range silent {
		if s.Node != s.Address {
			s.Address = s.Node + " at " + s.Address
		}
		rows = append(rows, strings.TrimLeft(wrap(s.Address+": "+oneLine(s.Why), 4), " "))
	}
	return fmt.Errorf("no agent answers; this says nothing about etcd itself:\n  %s\nstart an agent (`bootstrap agent`), or name one that runs with --agents; docs/runbooks/node-silent.md has more", strings.Join(rows, "\n  "))
}

// bounded gives a verb that asks once --timeout to do it in.
func (a *app) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.set.Timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, a.set.Timeout, fmt.Errorf("--timeout %s is over", a.set.Timeout.Round(time.Millisecond)))
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// nodeAttic is one node in the output of `attic list -o json` and `attic prune -o json`.
type nodeAttic struct {
	Node string `json:"node"`
	// Live is what the node's agent saw the live members hold.
	Live    string            `json:"live"`
	Entries []wire.AtticEntry `json:"entries"`
}

// atticReport is the output of `attic list -o json`; with `attic prune` Removed
// is what went, and nothing without --yes.
type atticReport struct {
	V       int             `json:"v"`
	Nodes   []nodeAttic     `json:"nodes"`
	Removed []driver.Pruned `json:"removed,omitempty"`
	Silent  []silentNode    `json:"silent,omitempty"`
}

func (a *app) atticCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "attic", Short: "Look at retired data directories, and remove those that nobody needs",
		Long: `attic is about the data directories that were retired: renamed into the attic of
their node, with a note that says what they were and why they went. Each agent
removes by itself what is older than the two newest, after a day of held quorum,
and only what a majority of the live members is seen to hold.`,
		Args: noArgs, RunE: showHelp}
	cmd.AddCommand(a.atticListCmd(), a.atticPruneCmd())
	return cmd
}

func (a *app) atticListCmd() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "list [NODE…]",
		Short: "Show the retired directories of every node, and why each stays",
		Long: `list asks every agent for its attic: each entry's name, what it was, how far its
log goes, what it takes on disk, when and why it was retired, and why a prune
would leave it.`,
		Example: "  bootstrap attic list cp-1",
		RunE:    a.verb(func(ctx context.Context, args []string) error { return a.atticList(ctx, out, args) }),
	}
	outputFlag(cmd, &out)
	a.clientFlags(cmd)
	a.completeNodeArgs(cmd)
	return cmd
}

func (a *app) atticList(ctx context.Context, out string, only []string) error {
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
	r, _, err := attics(ctx, d, wire.AtticKeep, only)
	if err != nil {
		return err
	}
	if out == "json" {
		return writeJSON(a.stdout, r)
	}
	a.printAttic(r)
	return nil
}

// attics asks the nodes; only names some of them, none means all.
func attics(ctx context.Context, d *driver.Driver, keep int, only []string) (r atticReport, refs map[string]wire.NodeRef, err error) {
	keepers, err := d.Attics(ctx, keep)
	if err != nil {
		return r, nil, err
	}
	if keepers, err = onlyNodes(keepers, only); err != nil {
		return r, nil, err
	}
	r, refs = atticReport{V: wire.V, Nodes: []nodeAttic{}}, map[string]wire.NodeRef{}
	for _, k := range keepers {
		refs[k.Ref.Name] = k.Ref
		if k.Attic == nil {
			r.Silent = append(r.Silent, silentNode{k.Ref.Name, k.Ref.Address, reason(k.Err)})
			continue
		}
		r.Nodes = append(r.Nodes, nodeAttic{k.Ref.Name, k.Attic.Live, k.Attic.Entries})
	}
	if len(r.Nodes) == 0 {
		return r, nil, noAnswer(r.Silent)
	}
	return r, refs, nil
}

// onlyNodes picks nodes by name; one that is not known is a usage error.
func onlyNodes(all []driver.Keeper, names []string) ([]driver.Keeper, error) {
	if len(names) == 0 {
		return all, nil
	}
	var out []driver.Keeper
	for _, name := range names {
		i := slices.IndexFunc(all, func(k driver.Keeper) bool { return k.Ref.Name == name })
		if i < 0 {
			var known []string
			for _, k := range all {
				known = append(known, k.Ref.Name)
			}
			return nil, usagef("no node is named %q; known are %s", name, strings.Join(known, ", "))
		}
		if !slices.ContainsFunc(out, func(k driver.Keeper) bool { return k.Ref.Name == name }) {
			out = append(out, all[i])
		}
	}
	return out, nil
}

func (a *app) printAttic(r atticReport) {
	n := 0
	for _, node := range r.Nodes {
		for _, e := range node.Entries {
			n++
			a.printf("%s  %s\n", node.Node, e.Name)
			for _, line := range entryLines(e) {
				a.printf("%s\n", wrap(line, 4))
			}
		}
	}
	if n == 0 {
		a.printf("nothing lies in the attic of any node that answers\n")
	}
	a.printSilent(r.Silent)
}

func (a *app) printSilent(silent []silentNode) {
	for _, s := range silent {
		a.printf("%s\n", wrap(fmt.Sprintf("silent: %s at %s: %s", s.Node, s.Address, s.Why), 0))
	}
}

// entryLines tells an entry in words.
func entryLines(e wire.AtticEntry) []string {
	var out []string
	size := bytesText(e.Bytes) + " on disk"
	if e.Class == "" {
		out = append(out, size)
	} else {
		what := string(e.Class)
		if e.MemberID != 0 {
			what += fmt.Sprintf(", %s, member %s of cluster %s", e.Slot, e.MemberID, e.ClusterID)
		}
		out = append(out, what, fmt.Sprintf("log to term %d, index %d; revision %d; %s", e.LastTerm, e.LastIndex, e.Revision, size),
			"retired "+e.Time.UTC().Format(time.DateTime)+": "+e.Reason)
	}
	if e.Keep == "" {
		return append(out, "may go")
	}
	return append(out, "stays: "+e.Keep)
}

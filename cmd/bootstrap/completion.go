package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// The scripts for bash, zsh and fish are cobra's; here is what follows a flag.

// withCompletion adds the verb that prints them. It writes to the root's output,
// which must be set before.
func withCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = noArgs, showHelp // cobra's own takes any word
		}
	}
}

// complete offers fixed words after --flag.
func complete(cmd *cobra.Command, flag string, words ...string) {
	// The one error is a flag that does not exist; the help test would show it.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeNodes offers what the local state knows of nodes, as word makes it of
// one. Nothing is asked over the network while somebody presses Tab.
func (a *app) completeNodes(cmd *cobra.Command, flag string, word func(wire.NodeRef) string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		// A list: what stands before the last comma stays.
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		var out []string
		for _, n := range a.nodesToComplete(cmd) {
			if w := word(n); !strings.Contains(before, w) {
				out = append(out, before+w)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// knownNodes are the nodes of the stored spec and the node itself; none where
// the state cannot be read.
func knownNodes(stateDir string) []wire.NodeRef {
	var id wire.Identity
	var spec wire.Spec
	if err := durable.ReadJSON(filepath.Join(stateDir, wire.FileSpec), wire.V, &spec); err != nil && !os.IsNotExist(err) {
		return nil
	}
	if err := durable.ReadJSON(filepath.Join(stateDir, wire.FileIdentity), wire.V, &id); err != nil {
		return spec.Nodes
	}
	if _, ok := spec.Node(id.Node.Name); ok {
		return spec.Nodes
	}
	return append([]wire.NodeRef{id.Node}, spec.Nodes...)
}

// completeNodeArgs offers node names for the words after a verb.
func (a *app) completeNodeArgs(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, have []string, _ string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, n := range a.nodesToComplete(cmd) {
			if !slices.Contains(have, n.Name) {
				out = append(out, n.Name)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// nodesToComplete are the nodes of the state directory that flags, variables
// and config file name; nothing is said where they cannot be read.
func (a *app) nodesToComplete(cmd *cobra.Command) []wire.NodeRef {
	if _, err := a.set.Load(cmd.Flags(), config.Sources{Environ: a.environ, DefaultFile: a.configFile}); err != nil {
		return nil
	}
	return knownNodes(a.set.StateDir)
}

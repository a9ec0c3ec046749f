package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
)

// datadirReadCmd is the child in which a data directory is read, so that a
// fault in it costs a child only (datadir.ReadIsolated).
func (a *app) datadirReadCmd() *cobra.Command {
	return &cobra.Command{
		Use:    datadir.ChildVerb + " DIR",
		Short:  "Read one etcd data directory for the calling process",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: a.bareVerb(func(_ context.Context, args []string) error {
			if code := datadir.ChildMain(args, a.stdout); code != exitDone {
				return errors.New("the directory could not be read, or nobody took the answer")
			}
			return nil
		}),
	}
}

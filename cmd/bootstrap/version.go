package main

import (
	"context"
	"encoding/json"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/version"
)

// versionReport is the output of `version -o json`.
type versionReport struct {
	Version    string `json:"version"`
	Etcd       string `json:"etcd"`       // the embedded one
	Kubernetes string `json:"kubernetes"` // the one this release was tested with
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

func (a *app) versionCmd() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary, of its etcd, and of what it was tested with",
		Args:  noArgs,
		// No setting is needed, so that a broken config file does not hide the version.
		RunE: a.bareVerb(func(context.Context, []string) error {
			if err := checkOutput(out); err != nil {
				return err
			}
			r := versionReport{version.Version, version.Etcd, version.Kubernetes, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if out == "json" {
				return writeJSON(a.stdout, r)
			}
			a.printf("etcd-selfhost %s\nembedded etcd %s\ntested with Kubernetes %s\n%s %s\n", r.Version, r.Etcd, r.Kubernetes, r.Go, r.Platform)
			return nil
		}),
	}
	outputFlag(cmd, &out)
	return cmd
}

// outputFlag is -o of every verb that prints something for programs.
func outputFlag(cmd *cobra.Command, out *string) {
	cmd.Flags().StringVarP(out, "output", "o", "", "`FORMAT` of the output: json, or nothing for people")
	complete(cmd, "output", "json")
}

func checkOutput(out string) error {
	if out != "" && out != "json" {
		return usagef("--output %q: there is json, or nothing for people", out)
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

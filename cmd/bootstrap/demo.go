package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/demo"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/version"
)

func (a *app) demoCmd() *cobra.Command {
	var o demo.Options
	var noAPIServer bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show it all on this machine: a seed, the pivot under load, a power cycle",
		Long: `demo runs the product's story on this machine with real etcds and a real
kube-apiserver, on loopback addresses and in a folder of its own: a seed is made,
loaded, pivoted to managed members while writers and an informer work, then
everything is killed at once and comes back. It ends with a table of figures,
and with exit code 1 if anything that was acknowledged is gone.

The kube-apiserver is looked for in KUBEBUILDER_ASSETS, then in the cache folder
that ` + "`make demo`" + ` fills; --no-apiserver goes without.

Chapters: ` + strings.Join(demo.ChapterNames(), ", ") + `.`,
		Example: "  bootstrap demo --size-mb 100 --report figures.json",
		Args:    noArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "", "`DIR` to work in, empty or new (default a temporary one)")
	f.IntVar(&o.Nodes, "nodes", 3, "`NUMBER` of nodes, 1 to 5")
	f.IntVar(&o.SizeMB, "size-mb", 10, "`MiB` of values written before the pivot")
	f.StringVar(&o.Report, "report", "", "write the figures as JSON to `FILE`")
	f.BoolVar(&o.Keep, "keep", false, "leave everything running and the folder there")
	f.BoolVar(&noAPIServer, "no-apiserver", false, "go without kube-apiserver: etcd alone")
	f.StringSliceVar(&o.Only, "only", nil, "`CHAPTER,…` to tell, with those they stand on (default all)")
	complete(cmd, "only", demo.ChapterNames()...)
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error {
		if o.SizeMB < 0 || o.SizeMB > 8192 {
			return usagef("--size-mb %d: 0 to 8192", o.SizeMB)
		}
		if o.Nodes < 1 || o.Nodes > 5 {
			return usagef("--nodes %d: 1 to 5", o.Nodes)
		}
		for _, c := range o.Only {
			if !slices.Contains(demo.ChapterNames(), c) {
				return usagef("--only: no chapter %q; there are %s", c, strings.Join(demo.ChapterNames(), ", "))
			}
		}
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		if !noAPIServer {
			if o.KubeAPIServer, err = findAPIServer(); err != nil {
				return err
			}
		}
		o.Binary, o.Out, o.Logger = exe, a.stdout, a.log
		return demo.Run(ctx, o)
	})
	return cmd
}

// findAPIServer looks in KUBEBUILDER_ASSETS, then in the cache that the
// Makefile fills.
func findAPIServer() (string, error) {
	var tried []string
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		tried = append(tried, filepath.Join(dir, "kube-apiserver"))
	}
	cache := os.Getenv("ETCD_SELFHOST_CACHE")
	if cache == "" {
		if base, err := os.UserCacheDir(); err == nil {
			cache = filepath.Join(base, "etcd-selfhost")
		}
	}
	if cache != "" {
		tried = append(tried, filepath.Join(cache, "kube", "v"+version.Kubernetes, "kube-apiserver"))
	}
	for _, p := range tried {
		st, err := os.Stat(p)
		if err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("no kube-apiserver at %s; `make demo` builds it there (some minutes), KUBEBUILDER_ASSETS names a folder that has one, --no-apiserver goes without", strings.Join(tried, " or "))
}

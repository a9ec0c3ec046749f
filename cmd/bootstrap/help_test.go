package main

import (
	"io"
	"strings"
	"testing"

	etcdversion "go.etcd.io/etcd/api/v3/version"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/version"
)

func TestEveryVerbAndFlagHasText(t *testing.T) {
	bound := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.Name() == "completion" || c.Parent() != nil && c.Parent().Name() == "completion" {
			return // cobra's own
		}
		path := c.CommandPath()
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: its short text %q is missing or ends in a dot", path, c.Short)
		}
		if c.Long == "" && !c.Hidden && !c.HasSubCommands() && c.Name() != "version" {
			t.Errorf("%s has no long text", path)
		}
		for line := range strings.Lines(c.Long) {
			if runes(line) > 100 {
				t.Errorf("%s: a line of its text is %d columns wide", path, runes(line))
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			bound[f.Name] = true
			if f.Usage == "" {
				t.Errorf("%s --%s has no text", path, f.Name)
			}
		})
	}
	root := newApp(io.Discard, io.Discard, nil).root()
	walk(root)
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { bound[f.Name] = true })
	for _, name := range config.Names() {
		if !bound[name] {
			t.Errorf("setting --%s belongs to no verb", name)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, out, stderr := cli(t, "completion", shell)
		if code != exitDone || !strings.Contains(out, "bootstrap") {
			t.Errorf("%s: exit code %d, %d bytes, %s", shell, code, len(out), stderr)
		}
	}
}

func TestNodesAreCompletedFromTheLocalState(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := cli(t, nodeArgs(dir)...); code != exitDone {
		t.Fatal(stderr)
	}
	for typed, want := range map[string]string{"": "cp-1=127.0.0.11\n", "cp-2=127.0.0.12,": "cp-2=127.0.0.12,cp-1=127.0.0.11\n"} {
		_, out, _ := cli(t, "__complete", "pivot", "--state-dir", dir+"/state", "--nodes", typed)
		if !strings.HasPrefix(out, want) {
			t.Errorf("after %q: %q, want %q first", typed, out, want)
		}
	}
}

func TestVersionNamesTheEtcdThatIsBuiltIn(t *testing.T) {
	if version.Etcd != etcdversion.Version {
		t.Errorf("version says etcd %s, built in is %s", version.Etcd, etcdversion.Version)
	}
	_, out, _ := cli(t, "version", "-o", "json")
	for _, want := range []string{`"version"`, `"etcd": "` + etcdversion.Version, `"kubernetes"`, `"go": "go1.`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
}

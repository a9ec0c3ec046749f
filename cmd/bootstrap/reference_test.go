package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// The command reference is made here rather than by the binary, so that what
// makes it is no part of the product: `make generate`, or this test with -args
// -rewrite.
var rewrite = flag.Bool("rewrite", false, "write docs/reference/cli and docs/man anew")

// reference makes every page by its path below docs.
func reference(t *testing.T) map[string][]byte {
	t.Helper()
	root := newApp(io.Discard, io.Discard, nil).root()
	withCompletion(root)
	root.DisableAutoGenTag = true // no date: a page changes when its command does
	pages := map[string][]byte{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.IsAvailableCommand() && c != root || c.IsAdditionalHelpTopicCommand() {
			return
		}
		c.DisableAutoGenTag = true
		c.InitDefaultHelpFlag()
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		var md, man bytes.Buffer
		link := func(file string) string { return strings.ReplaceAll(file, "_", "-") }
		if err := doc.GenMarkdownCustom(c, &md, link); err != nil {
			t.Fatal(err)
		}
		if err := doc.GenMan(c, &doc.GenManHeader{Section: "1", Source: "etcd-selfhost", Manual: "etcd-selfhost"}, &man); err != nil {
			t.Fatal(err)
		}
		pages[filepath.Join("reference", "cli", name+".md")] = md.Bytes()
		pages[filepath.Join("man", name+".1")] = undated.ReplaceAll(man.Bytes(), []byte(`.TH "$1" "1" "" `))
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return pages
}

// undated takes the date out of a man page's title.
var undated = regexp.MustCompile(`\.TH "([^"]*)" "1" "[^"]*" `)

// Every verb has its page in docs/reference/cli and docs/man, as its help says,
// and there is no page of a verb that is gone.
func TestReference(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	pages := reference(t)
	for _, dir := range []string{filepath.Join("reference", "cli"), "man"} {
		have, err := os.ReadDir(filepath.Join(docs, dir))
		if err != nil && !*rewrite {
			t.Fatal(err)
		}
		for _, f := range have {
			path := filepath.Join(dir, f.Name())
			if pages[path] != nil {
				continue
			}
			if !*rewrite {
				t.Errorf("docs/%s belongs to no verb; run make generate", path)
			} else if err := os.Remove(filepath.Join(docs, path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for path, want := range pages {
		if *rewrite {
			writePage(t, filepath.Join(docs, path), want)
			continue
		}
		if have, err := os.ReadFile(filepath.Join(docs, path)); err != nil || !bytes.Equal(have, want) {
			t.Errorf("docs/%s is not what the verb says (%v); run make generate", path, err)
		}
	}
}

func writePage(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A verb that removes for good says so before anything else, and does nothing unasked.
func TestDestructiveVerbsWarn(t *testing.T) {
	root := newApp(io.Discard, io.Discard, nil).root()
	found := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "prune" {
			found++
			if !strings.HasPrefix(c.Long, "WARNING: ") || c.Flags().Lookup("yes") == nil || c.Flags().Lookup("yes").DefValue != "false" {
				t.Errorf("%s: begins with %.20q", c.CommandPath(), c.Long)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if found != 2 {
		t.Errorf("%d verbs prune", found)
	}
}

// bash itself completes node names, through the script it is given.
func TestBashCompletes(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := cli(t, nodeArgs(dir)...); code != exitDone {
		t.Fatal(stderr)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, filepath.Join(dir, "bootstrap")); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"bootstrap pivot --nodes ":      "cp-1=127.0.0.11",
		"bootstrap attic list ":         "cp-1",
		"bootstrap attic prune c":       "cp-1",
		"bootstrap status --agents ":    "127.0.0.11",
		"bootstrap jour":                "journal",
		"bootstrap init --log-format j": "json",
		"bootstrap status --log-level ": "debug info warn error",
		"bootstrap etcd --slot ":        "seed member",
	} {
		// What bash-completion's own helper does, for machines that lack it.
		script := fmt.Sprintf(`
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; }
__ltrim_colon_completions() { :; }
compopt() { :; }
source <(bootstrap completion bash)
COMP_LINE=%[1]q; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
read -ra COMP_WORDS <<<"$COMP_LINE"; [[ $COMP_LINE == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_bootstrap; echo "${COMPREPLY[@]}"`, line)
		cmd := exec.Command("bash", "--norc", "--noprofile", "-c", script)
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "ETCD_SELFHOST_STATE_DIR=" + filepath.Join(dir, "state"), "HOME=" + dir}
		out, err := cmd.CombinedOutput()
		if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
			t.Errorf("%q: bash offers %q, want %q (%v)", line, got, want, err)
		}
	}
}

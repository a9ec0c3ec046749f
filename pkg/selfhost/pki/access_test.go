package pki

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Every path of the RPC has exactly one rule, and no rule is without a path.
func TestEveryPathHasARule(t *testing.T) {
	files, err := filepath.Glob("../wire/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var paths []string
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, declared(t, f)...)
	}
	var ruled []string
	for _, r := range Rules() {
		ruled = append(ruled, r.Path)
	}
	slices.Sort(paths)
	slices.Sort(ruled)
	if len(paths) == 0 || !slices.Equal(paths, ruled) {
		t.Errorf("paths %v\nrules %v", paths, ruled)
	}
}

// declared are the values of a file's constants named Path….
func declared(t *testing.T, f *ast.File) (paths []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok {
			for i, name := range s.Names {
				if strings.HasPrefix(name.Name, "Path") {
					v, err := strconv.Unquote(s.Values[i].(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					paths = append(paths, v)
				}
			}
		}
		return true
	})
	return paths
}

// docs/reference/rpc-access.md shows Rules, row by row.
func TestDocAgrees(t *testing.T) {
	b, err := os.ReadFile("../../../docs/reference/rpc-access.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.SplitSeq(string(b), "\n") {
		if strings.HasPrefix(line, "| GET |") || strings.HasPrefix(line, "| POST |") {
			got = append(got, line)
		}
	}
	word := map[bool]string{true: "yes", false: "no"}
	for _, r := range Rules() {
		want = append(want, "| "+r.Method+" | `"+r.Path+"` | "+word[Allowed(r.Path, RoleDriver)]+" | "+word[Allowed(r.Path, RoleAgent)]+" |")
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has\n%s\nthe code\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAllowed(t *testing.T) {
	agents := []string{wire.PathObserve, wire.PathJournal, wire.PathFence, wire.PathHold, wire.PathCloseDrain}
	for _, r := range Rules() {
		if !Allowed(r.Path, RoleDriver) {
			t.Errorf("%s: not for a driver", r.Path)
		}
		if got, want := Allowed(r.Path, RoleAgent), slices.Contains(agents, r.Path); got != want {
			t.Errorf("%s: for an agent %t, want %t", r.Path, got, want)
		}
		for _, nobody := range []Role{"", RoleEtcdClient, "root"} {
			if Allowed(r.Path, nobody) {
				t.Errorf("%s: for %q", r.Path, nobody)
			}
		}
	}
	for _, path := range []string{"", "/", "/v1/observe/", "/v1/observe?x", "/v2/observe"} {
		if Allowed(path, RoleDriver) {
			t.Errorf("%q is somebody's", path)
		}
	}
}

package selfhost_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

const module = "github.com/etcd-selfhost/etcd-selfhost/"

// layers is the map in doc.go: a package imports only lower ones. A package
// below one that is listed belongs to its parent.
var layers = map[string]int{
	"wire": 0, "durable": 0, "version": 0, "port": 0,
	"datadir": 1, "pki": 1, "config": 1, "agentclient": 1, "proxy": 1, "agent/journal": 1,
	"member": 2, "agent/child": 2,
	"agent": 3, "driver": 3,
	"lab":  4,
	"demo": 5,
}

// deciders may import the brain.
var deciders = []string{"driver", "lab", "demo"}

type pkg struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports, Deps   []string
}

// list asks go for packages; patterns are relative to the module's root.
func list(t *testing.T, patterns ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Dir,GoFiles,Imports,Deps"}, patterns...)...)
	cmd.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", patterns, err, &stderr)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); err == io.EOF {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// family is the listed package that a path under pkg/selfhost belongs to.
func family(importPath string) (name string, layer int, ok bool) {
	name = strings.TrimPrefix(importPath, module+"pkg/selfhost/")
	for {
		if layer, ok = layers[name]; ok {
			return name, layer, true
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return name, 0, false
		}
		name = name[:i]
	}
}

// crossed says what an import breaks, "" where nothing.
func crossed(from, to string) string {
	mine, layer, ok := family(from)
	switch {
	case !ok:
		return from + " is in no layer: place it in doc.go and in this test"
	case to == module+"pkg/pivot":
		if !slices.Contains(deciders, mine) {
			return from + " imports the brain; only the driver and what stands above it decide"
		}
	case strings.HasPrefix(to, module+"cmd/") || strings.HasPrefix(to, module+"test/") || strings.HasPrefix(to, module+"pkg/operator") || strings.HasPrefix(to, module+"pkg/api/"):
		return from + " imports " + to + ", which stands above it"
	case strings.HasPrefix(to, module+"pkg/selfhost/"):
		theirs, below, ok := family(to)
		if ok && mine != theirs && below >= layer {
			return from + " imports " + to + ", which is not in a lower layer"
		}
	}
	return ""
}

// kubernetes: the API's modules. etcd itself needs k8s.io/utils for a tree.
func kubernetes(importPath string) bool {
	return strings.HasPrefix(importPath, "k8s.io/") && !strings.HasPrefix(importPath, "k8s.io/utils/")
}

func TestFence(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t, "./pkg/selfhost/...") {
		if p.ImportPath == module+"pkg/selfhost" {
			continue
		}
		name, layer, _ := family(p.ImportPath)
		seen[name] = true
		for _, to := range append(p.Imports, "") {
			if why := crossed(p.ImportPath, to); why != "" {
				t.Error(why)
			}
		}
		for _, d := range p.Deps {
			if layer < layers["lab"] && kubernetes(d) {
				t.Errorf("%s comes to %s: nothing below lab knows Kubernetes", p.ImportPath, d)
				break
			}
		}
	}
	for name := range layers {
		if !seen[name] {
			t.Errorf("layer table names %s, which is not there", name)
		}
	}
}

// TestFenceOperator: the operator stands beside the lab, above driver and below
// nobody: it acts through agents alone, and the node binary knows nothing of it.
func TestFenceOperator(t *testing.T) {
	may := []string{"agentclient", "driver", "pki", "version", "wire"}
	for _, p := range list(t, "./pkg/operator/...", "./pkg/api/...") {
		for _, to := range p.Imports {
			name, ours := strings.CutPrefix(to, module+"pkg/selfhost/")
			if ours && (!strings.Contains(p.ImportPath, "pkg/operator") || !slices.Contains(may, name)) {
				t.Errorf("%s imports %s", p.ImportPath, to)
			}
		}
	}
	for _, p := range list(t, "./cmd/bootstrap") {
		for _, d := range p.Deps {
			if strings.HasPrefix(d, "sigs.k8s.io/controller-runtime") || strings.HasPrefix(d, module+"pkg/operator") {
				t.Errorf("%s comes to %s", p.ImportPath, d)
			}
		}
	}
}

// TestFenceHolds: the fence itself can fail.
func TestFenceHolds(t *testing.T) {
	in := func(s string) string { return module + "pkg/selfhost/" + s }
	for _, c := range []struct {
		from, to string
		bad      bool
	}{
		{in("agent"), module + "pkg/pivot", true},
		{in("wire"), module + "pkg/pivot", true},
		{in("driver"), module + "pkg/pivot", false},
		{in("wire"), in("durable"), true},
		{in("member"), in("agent"), true},
		{in("agent"), in("agent/child"), false},
		{in("agent/child"), in("agent"), true},
		{in("driver"), in("agent"), true},
		{in("driver"), in("agentclient"), false},
		{in("driver"), module + "cmd/bootstrap", true},
		{in("driver"), module + "pkg/operator", true},
		{in("unheard-of"), "fmt", true},
	} {
		if got := crossed(c.from, c.to); (got != "") != c.bad {
			t.Errorf("%s importing %s: %q", c.from, c.to, got)
		}
	}
}

// TestOnePackageDoc: every package says once what it is.
func TestOnePackageDoc(t *testing.T) {
	pkgs := list(t, "./pkg/...", "./cmd/...")
	if len(pkgs) < len(layers) {
		t.Fatalf("only %d packages found", len(pkgs))
	}
	for _, p := range pkgs {
		var docs []string
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Error(err)
				continue
			}
			if file.Doc != nil && strings.TrimSpace(file.Doc.Text()) != "" {
				docs = append(docs, f)
			}
		}
		if len(p.GoFiles) > 0 && len(docs) != 1 {
			t.Errorf("%s: package doc in %v, want it in exactly one file", p.ImportPath, docs)
		}
	}
}

// TestJoinersArgs: the brain may import nothing, so it has its own word for what
// the hands render on every member (I11).
func TestJoinersArgs(t *testing.T) {
	if want := fmt.Sprintf("max-learners=%d", wire.MaxLearners); pivot.JoinerArgs != want {
		t.Errorf("the brain expects %s, the hands render %s", pivot.JoinerArgs, want)
	}
}

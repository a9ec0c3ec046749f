package pivot

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure is all the brain may import: no clock, no I/O, no logger, no context,
// no goroutine's tool, nothing of ours.
var pure = []string{"cmp", "errors", "fmt", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings"}

func TestImportFence(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		looked++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, im := range f.Imports {
			p, err := strconv.Unquote(im.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(pure, p) {
				t.Errorf("%s imports %s; the brain is a pure function", path, p)
			}
		}
	}
	if looked < 5 {
		t.Fatalf("only %d files looked at", looked)
	}
}

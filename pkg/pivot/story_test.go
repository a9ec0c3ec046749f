package pivot

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestStories runs testdata/*.story. Commands:
//
//	state         the facts follow, one a line (format_test.go)
//	also          further facts on top; a node or member named again replaces the old one
//	next          what the brain decides; the step is kept for apply
//	apply         the state after that step worked
//	settle        the state after waiting, where nothing fails
//	route         the whole plan from here
//	check         the steps that follow, one a line ("StopMember cp-1/seed 1"): may they be taken?
//
// Run with -rewrite to write what the brain says into the stories.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".story") {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "#") {
			t.Fatal("a story begins with a comment: what happens, and which invariant or case it shows")
		}
		var tell story
		datadriven.RunTest(t, path, tell.run)
	})
}

type story struct {
	s    State
	last Decision
}

func (tell *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "state", "also":
		s, err := parseState(d.Input)
		if d.Cmd == "also" {
			s, err = parseState(merge(compact(tell.s), d.Input))
		}
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		again, err := parseState(compact(s))
		if err != nil || again.String() != s.String() {
			d.Fatalf(t, "not the same read again (%v):\n%s\n%s", err, s, again)
		}
		tell.s = s
		return ""
	case "next":
		tell.last = Next(tell.s)
		return tell.last.String()
	case "apply":
		if tell.last.Step == nil {
			d.Fatalf(t, "no step to apply")
		}
		tell.s = Apply(tell.s, *tell.last.Step)
		return compact(tell.s)
	case "settle":
		tell.s = Settle(tell.s)
		return compact(tell.s)
	case "route":
		return tell.route()
	case "check":
		return tell.check(t, d)
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return ""
}

func (tell *story) route() string {
	var rows []string
	for _, e := range Route(tell.s, 100) {
		rows = append(rows, e.Decision.String())
	}
	return strings.Join(rows, "\n")
}

func (tell *story) check(t *testing.T, d *datadriven.TestData) string {
	var rows []string
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		step, err := parseStep(strings.Fields(line))
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if r := Check(tell.s, step); r != nil {
			rows = append(rows, r.String())
		} else {
			rows = append(rows, "may "+step.String())
		}
	}
	return strings.Join(rows, "\n")
}

func parseStep(f []string) (Step, error) {
	step := Step{Kind: Kind(f[0])}
	for _, w := range f[1:] {
		if node, slot, ok := strings.Cut(w, "/"); ok {
			step.Node, step.Slot = node, SlotName(slot)
			continue
		}
		id, err := parseID(w)
		if err != nil {
			return step, err
		}
		step.ID = id
	}
	return step, nil
}

// merge puts facts on top of facts: the first words that name what a line is
// about decide which line is replaced.
func merge(old, add string) string {
	about := func(line string) string {
		f := strings.Fields(line)
		if f[0] == "member" || f[0] == "tombstone" || f[0] == "unfit" {
			return f[0] + " " + f[1]
		}
		return f[0]
	}
	rows := strings.Split(strings.TrimSpace(old), "\n")
	for _, line := range strings.Split(strings.TrimSpace(add), "\n") {
		replaced := false
		for i, o := range rows {
			if about(o) == about(line) {
				rows[i], replaced = line, true
			}
		}
		if !replaced {
			rows = append(rows, line)
		}
	}
	return strings.Join(rows, "\n")
}

// TestStoriesCoverEveryWord: every step and every refusal of the source happens in a story.
func TestStoriesCoverEveryWord(t *testing.T) {
	told := ""
	files, err := filepath.Glob("testdata/*.story")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		told += string(text)
	}
	kinds, names := sourceWords(t)
	if len(kinds) < 16 || len(names) < 25 {
		t.Fatalf("found only %d kinds and %d refusal names in the source", len(kinds), len(names))
	}
	for _, k := range kinds {
		// as a decision of next or route: at the beginning of a line, with its reason
		if !regexp.MustCompile(`(?m)^` + k + `( [^:\n]*)?: `).MatchString(told) {
			t.Errorf("no story has the step %s", k)
		}
	}
	for _, n := range names {
		if !regexp.MustCompile(`(?m)^(refuse|wait) [^:\n]*: ` + n + `: `).MatchString(told) {
			t.Errorf("no story has the refusal %s", n)
		}
	}
}

// sourceWords reads the constants of type Kind, the Name of every Refusal and
// the names of the guards from the source.
func sourceWords(t *testing.T) (kinds, names []string) {
	t.Helper()
	seen := map[string]bool{}
	add := func(word string) {
		if !seen[word] {
			seen[word] = true
			names = append(names, word)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.ValueSpec:
				if id, ok := x.Type.(*ast.Ident); ok && id.Name == "Kind" {
					kinds = append(kinds, unquote(x.Values[0]))
				}
			case *ast.KeyValueExpr:
				if id, ok := x.Key.(*ast.Ident); ok && id.Name == "Name" {
					switch v := x.Value.(type) {
					case *ast.BasicLit:
						add(unquote(v))
					case *ast.BinaryExpr: // "Quorum" + q.String()
						add(unquote(v.X) + QuorumUnknown.String())
					}
				}
			}
			return true
		})
	}
	for _, g := range Guards {
		add(g.Name)
	}
	return kinds, names
}

func unquote(e ast.Expr) string {
	s, err := strconv.Unquote(e.(*ast.BasicLit).Value)
	if err != nil {
		panic(fmt.Sprint(e, err))
	}
	return s
}

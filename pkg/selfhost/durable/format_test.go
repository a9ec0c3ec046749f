package durable

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// third is a format with two changes behind it: "name" became "names", then
// every name got a rank.
var third = Format{V: 3, Up: map[int]func(map[string]any) error{
	1: func(doc map[string]any) error {
		name, ok := doc["name"].(string)
		if !ok {
			return errors.New(`no "name"`)
		}
		delete(doc, "name")
		doc["names"] = []any{name}
		return nil
	},
	2: func(doc map[string]any) error {
		doc["rank"] = len(doc["names"].([]any))
		return nil
	},
}}

type thirdDoc struct {
	V     int      `json:"v"`
	Names []string `json:"names"`
	Rank  int      `json:"rank"`
	Big   uint64   `json:"big"`
}

func TestMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.json")
	if _, err := third.Migrate(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	const first = `{"v":1,"name":"a","big":18446744073709551615}` // beyond a float
	write(t, path, first)
	want := thirdDoc{V: 3, Names: []string{"a"}, Rank: 1, Big: 1<<64 - 1}
	check := func(when string) {
		t.Helper()
		var got thirdDoc
		if err := third.Read(path, &got); err != nil || got.Rank != want.Rank || got.Big != want.Big || len(got.Names) != 1 || got.V != 3 {
			t.Errorf("%s: %+v, %v", when, got, err)
		}
	}
	check("read before")
	if b, _ := os.ReadFile(path); string(b) != first {
		t.Errorf("reading rewrote the file: %s", b)
	}
	for i, wantKept := range []string{path + ".v1", ""} {
		kept, err := third.Migrate(path)
		if err != nil || kept != wantKept {
			t.Fatalf("call %d: kept %q, %v", i+1, kept, err)
		}
		check("migrated")
	}
	// A crash after the old copy was kept: the same call finishes under the same name.
	write(t, path, first)
	if kept, err := third.Migrate(path); err != nil || kept != path+".v1" {
		t.Errorf("again: %q, %v", kept, err)
	}
	// Another old file does not take the place of the first.
	write(t, path, `{"v":1,"name":"b"}`)
	if kept, err := third.Migrate(path); err != nil || kept != path+".v1-2" {
		t.Errorf("another old file: %q, %v", kept, err)
	}
	if b, _ := os.ReadFile(path + ".v1"); string(b) != first {
		t.Errorf("the old copy is %s", b)
	}
	write(t, path, `{"v":2,"names":["c","d"]}`)
	if kept, err := third.Migrate(path); err != nil || kept != path+".v2" {
		t.Errorf("from the version between: %q, %v", kept, err)
	}
}

func TestFormatRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.json")
	for content, want := range map[string]string{
		`{"v":4}`:      "format version 4, this binary reads 1 to 3",
		`{"v":0}`:      "format version 0",
		`{"name":"a"}`: "format version 0",
		``:             "not readable as JSON (0 bytes)",
		`{"v":1,"na`:   "not readable as JSON",
		`{"v":1}`:      `from format version 1 to 2: no "name"`,
	} {
		write(t, path, content)
		err := third.Read(path, &thirdDoc{})
		_, merr := third.Migrate(path)
		for _, err := range []error{err, merr} {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v, want the file and %q", content, err, want)
			}
		}
		if b, _ := os.ReadFile(path); string(b) != content {
			t.Errorf("%s: a refused file was changed to %s", content, b)
		}
	}
	write(t, path, `{"v":1}`)
	if err := (Format{V: 2}).Read(path, &thirdDoc{}); err == nil || !strings.Contains(err.Error(), "no way from 1 to 2") {
		t.Errorf("no way up: %v", err)
	}
	if left, _ := filepath.Glob(path + ".v*"); len(left) > 0 {
		t.Errorf("refused files left copies: %v", left)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What is written back reads as JSON with "v" in it.
func TestMigratedFileIsPlainJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.json")
	write(t, path, `{"v":2,"names":["a"]}`)
	if _, err := third.Migrate(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	var doc map[string]any
	if err != nil || json.Unmarshal(b, &doc) != nil || doc["v"] != 3.0 || !strings.HasSuffix(string(b), "}\n") {
		t.Errorf("%s %v", b, err)
	}
}

package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func open(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := Open(path, "cp-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func add(t *testing.T, j *Journal, steps ...string) {
	t.Helper()
	for _, s := range steps {
		if err := j.Append(wire.JournalEntry{Step: s, Outcome: "ok"}); err != nil {
			t.Fatal(err)
		}
	}
}

func steps(j *Journal, n int) string {
	var s []string
	for _, e := range j.Last(n) {
		s = append(s, fmt.Sprintf("%d:%s", e.Seq, e.Step))
	}
	return strings.Join(s, " ")
}

// The last write is cut at every byte, and garbled at every byte: the lines
// before it survive, and the journal goes on.
func TestTornAtEveryByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := open(t, path)
	add(t, j, "a", "b")
	whole, _ := os.ReadFile(path)
	add(t, j, "c")
	full, _ := os.ReadFile(path)
	check := func(what string, data []byte) {
		t.Helper()
		p := filepath.Join(t.TempDir(), "j")
		if err := os.WriteFile(p, data, 0o600); err != nil {
			t.Fatal(err)
		}
		k := open(t, p)
		add(t, k, "d")
		if got := steps(k, 0); got != "1:a 2:b 3:d" {
			t.Fatalf("%s: %s", what, got)
		}
		if got := steps(open(t, p), 2); got != "2:b 3:d" {
			t.Fatalf("%s, opened again: %s", what, got)
		}
	}
	for n := len(whole); n < len(full); n++ {
		check(fmt.Sprintf("cut at %d", n), full[:n])
		b := bytes.Clone(full)
		b[n] ^= 0xff
		check(fmt.Sprintf("garbled at %d", n), b)
		b[n] = '\n'
		if n < len(full)-1 {
			check(fmt.Sprintf("line break at %d", n), b)
		}
	}
	check("zeros", append(bytes.Clone(whole), make([]byte, 4096)...))
}

func TestEarlierDamageIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := open(t, path)
	add(t, j, "a", "b", "c")
	b, _ := os.ReadFile(path)
	at := bytes.IndexByte(b, '\n') + 5
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, "cp-1"); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Fatalf("got %v", err)
	}
	after, _ := os.ReadFile(path)
	if !bytes.Equal(b, after) {
		t.Error("a damaged journal was changed")
	}
}

func TestRotateKeepsTheOld(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.jsonl")
	j := open(t, path)
	j.MaxBytes = 1
	add(t, j, "a", "b", "c")
	for _, f := range []string{"journal-1.jsonl", "journal-2.jsonl", "journal.jsonl"} {
		if b, err := os.ReadFile(filepath.Join(dir, f)); err != nil || bytes.Count(b, []byte("\n")) != 1 {
			t.Errorf("%s: %q %v", f, b, err)
		}
	}
	// A crash right after the rename: the count goes on.
	if err := os.Rename(path, filepath.Join(dir, "journal-3.jsonl")); err != nil {
		t.Fatal(err)
	}
	k := open(t, path)
	add(t, k, "d")
	if got := steps(k, 0); got != "4:d" {
		t.Error(got)
	}
}

// A write that fails leaves the journal as it was, and it can be used again.
func TestFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := open(t, path)
	add(t, j, "a")
	j.file.Close()
	if err := j.Append(wire.JournalEntry{Step: "b"}); err == nil {
		t.Fatal("a write to a closed file succeeded")
	}
	if err := j.Append(wire.JournalEntry{Step: "b"}); err == nil {
		t.Fatal("a broken journal took an entry")
	}
	k := open(t, path)
	add(t, k, "c")
	if got := steps(k, 0); got != "1:a 2:c" {
		t.Error(got)
	}
}

package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func names(t *testing.T, j *Journal) string {
	t.Helper()
	files, current, err := j.Files()
	if err != nil || current == 0 {
		t.Fatal(current, err)
	}
	var out []string
	for _, f := range files {
		if f.Bytes == 0 {
			t.Errorf("%+v", f)
		}
		out = append(out, f.Name)
	}
	return strings.Join(out, " ")
}

// The number of old journals is bounded; what goes is named in the next one.
func TestOldJournalsAreBounded(t *testing.T) {
	dir := t.TempDir()
	for _, other := range []string{"journal-x.jsonl", "journal-2.jsonl.gz", "journal-007.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, other), []byte("a person's"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j := open(t, filepath.Join(dir, "journal.jsonl"))
	add(t, j, "a", "b")
	j.MaxBytes, j.Keep = j.size, 2
	for range 8 { // two lines to a file at first, then one beside the note of what went
		add(t, j, "c")
	}
	files, _, err := j.Files()
	if err != nil || len(files) != 2 {
		t.Fatalf("%v %v", files, err)
	}
	told := ""
	for _, e := range j.Last(0) {
		if e.Step == "PruneJournal" {
			told += e.Evidence + " " + e.Outcome + "\n"
		}
	}
	if !strings.Contains(told, "journal-2.jsonl (") || strings.Contains(told, files[1].Name) || strings.Contains(told, "failed") {
		t.Errorf("the journal says %q, there are %v", told, files)
	}
	seqs := map[uint64]bool{}
	for _, e := range j.Last(0) {
		if seqs[e.Seq] {
			t.Errorf("number %d twice", e.Seq)
		}
		seqs[e.Seq] = true
	}
	for _, other := range []string{"journal-x.jsonl", "journal-2.jsonl.gz", "journal-007.jsonl"} {
		if _, err := os.Stat(filepath.Join(dir, other)); err != nil {
			t.Error(err)
		}
	}
}

func TestPruneKeepsTheNewest(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.jsonl"))
	j.MaxBytes = 1
	add(t, j, "a", "b", "c", "d")
	if got := names(t, j); got != "journal-3.jsonl journal-2.jsonl journal-1.jsonl" {
		t.Fatal(got)
	}
	removed, err := j.Prune(1)
	if err != nil || len(removed) != 2 || removed[0].Name != "journal-1.jsonl" || names(t, j) != "journal-3.jsonl" {
		t.Errorf("%v %v, left %s", removed, err, names(t, j))
	}
	if removed, err := j.Prune(0); err != nil || len(removed) != 1 || names(t, j) != "" {
		t.Errorf("%v %v, left %s", removed, err, names(t, j))
	}
	if got := steps(open(t, j.path), 0); got != "4:d" {
		t.Errorf("the journal itself: %s", got)
	}
}

package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// DefaultKeep is how many journals that were set aside stay: with the one being
// written about 576 MiB at most, and years of steps.
const DefaultKeep = 8

// old lists the journals that were set aside in dir, newest first.
func old(dir string) ([]wire.JournalFile, error) {
	names, err := filepath.Glob(filepath.Join(dir, "journal-*.jsonl"))
	if err != nil {
		return nil, err
	}
	var out []wire.JournalFile
	for _, path := range names {
		f := wire.JournalFile{Name: filepath.Base(path)}
		if _, err := fmt.Sscanf(f.Name, "journal-%d.jsonl", &f.LastSeq); err != nil || f.Name != oldName(f.LastSeq) {
			continue // not one of ours
		}
		st, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f.Bytes = st.Size()
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b wire.JournalFile) int { return cmp.Compare(b.LastSeq, a.LastSeq) })
	return out, nil
}

func oldName(seq uint64) string { return fmt.Sprintf("journal-%d.jsonl", seq) }

// Files lists the journals that were set aside, newest first, and the size of
// the one being written, in bytes.
func (j *Journal) Files() (files []wire.JournalFile, current int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	files, err = old(filepath.Dir(j.path))
	return files, j.size, err
}

// Prune removes all but the newest keep journals that were set aside, oldest
// first, and returns what went. After an error those are gone, the others there.
func (j *Journal) Prune(keep int) ([]wire.JournalFile, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.prune(keep)
}

func (j *Journal) prune(keep int) (removed []wire.JournalFile, err error) {
	dir := filepath.Dir(j.path)
	files, err := old(dir)
	if err != nil {
		return nil, fmt.Errorf("list the journals: %w", err)
	}
	for i := len(files) - 1; i >= max(0, keep); i-- {
		if err := os.Remove(filepath.Join(dir, files[i].Name)); err != nil {
			return removed, fmt.Errorf("prune the journals: %w", err)
		}
		removed = append(removed, files[i])
	}
	if len(removed) == 0 {
		return nil, nil
	}
	return removed, durable.SyncDir(dir)
}

// bound keeps the newest Keep after a rotation and says in the journal what
// went. That an old file cannot be removed is no reason to lose a new entry.
func (j *Journal) bound() error {
	removed, err := j.prune(j.Keep)
	if err == nil && len(removed) == 0 {
		return nil
	}
	e := wire.JournalEntry{Step: "PruneJournal", By: "agent", Outcome: "ok",
		Why: fmt.Sprintf("a journal was set aside at %d bytes; the newest %d stay", j.MaxBytes, j.Keep), Evidence: Names(removed)}
	if err != nil {
		e.Outcome = "failed: " + err.Error()
	}
	return j.write(e)
}

// Names lists files for people: the name tells the last entry.
func Names(files []wire.JournalFile) string {
	var rows []string
	for _, f := range files {
		rows = append(rows, fmt.Sprintf("%s (%d bytes)", f.Name, f.Bytes))
	}
	return strings.Join(rows, ", ")
}

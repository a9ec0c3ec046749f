package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// doomed is the suffix of a directory whose removal was decided and begun.
const doomed = ".pruned"

// Entry is one thing in the attic: a directory, its note, or what is left of them.
type Entry struct {
	Name string
	// Note is zero where there is none that can be read.
	Note Note
	// Bytes is what the directory takes on disk.
	Bytes int64
	// Problem is what is wrong with it, in words; such an entry proves nothing.
	Problem string
	// Doomed: its removal was begun, and Prune finishes it.
	Doomed bool
}

// Entries lists the attic, newest first; an absent attic is empty. A note that
// cannot be read is that entry's problem, not the list's.
func Entries(id wire.Identity) ([]Entry, error) {
	files, err := os.ReadDir(id.Attic())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the attic: %w", err)
	}
	found := map[string]*Entry{}
	at := func(name string) *Entry {
		if found[name] == nil {
			found[name] = &Entry{Name: name}
		}
		return found[name]
	}
	dirs := map[string]bool{}
	for _, f := range files {
		switch name, isNote := strings.CutSuffix(f.Name(), ".json"); {
		case isNote && !f.IsDir():
			e := at(name)
			if err := durable.ReadJSON(filepath.Join(id.Attic(), f.Name()), wire.V, &e.Note); err != nil {
				e.Note, e.Problem = Note{}, err.Error()
			}
		case f.IsDir() && strings.HasSuffix(f.Name(), doomed):
			at(strings.TrimSuffix(f.Name(), doomed)).Doomed = true
		case f.IsDir():
			at(f.Name())
			dirs[f.Name()] = true
		}
	}
	out := make([]Entry, 0, len(found))
	for name, e := range found {
		e.Bytes = diskUsage(filepath.Join(id.Attic(), name)) + diskUsage(filepath.Join(id.Attic(), name+doomed))
		switch {
		case e.Doomed:
			e.Problem = "its removal was begun and is to be finished"
		case !dirs[name]:
			e.Problem = "its directory is not there: the retiring was cut short before the move"
		case e.Note.V == 0 && e.Problem == "":
			e.Problem = "no note says what it was"
		}
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(b.Note.Time.Compare(a.Note.Time), cmp.Compare(b.Name, a.Name))
	})
	return out, nil
}

// diskUsage sums the blocks of every file below path; what cannot be read counts nothing.
func diskUsage(path string) int64 {
	var sum int64
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if st, err := d.Info(); err == nil {
			if sys, ok := st.Sys().(*syscall.Stat_t); ok {
				sum += sys.Blocks * 512
			}
		}
		return nil
	})
	return sum
}

// Prune removes one entry of the attic for good: the one deletion of data there
// is. That the live members hold all it holds (I3) is the caller's to have
// proved. The directory is renamed first, so that one half removed is never
// taken for one that is whole. After a crash or an error the same call goes on.
func Prune(id wire.Identity, name string) error {
	if name == "" || name != filepath.Base(name) || name == "." || name == ".." || strings.HasSuffix(name, doomed) {
		return fmt.Errorf("%q is not the name of an attic entry", name)
	}
	dir := filepath.Join(id.Attic(), name)
	st, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(dir + doomed); errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Lstat(dir + ".json"); errors.Is(err, fs.ErrNotExist) {
				return nil // done before
			}
			return fmt.Errorf("%s is not there, only its note: a retiring was cut short, and the next one uses it", dir)
		}
	case err != nil:
		return fmt.Errorf("prune %s: %w", dir, err)
	case !st.IsDir():
		return fmt.Errorf("%s is no directory (%s): it is not what was retired, and is left alone", dir, st.Mode().Type())
	default:
		if err := durable.Rename(dir, dir+doomed); err != nil {
			return fmt.Errorf("prune %s: %w", dir, err)
		}
	}
	return finish(id, dir)
}

// finish removes what is in the doomed directory, then the note, then the
// directory: while it is there, the entry is known to be half removed.
func finish(id wire.Identity, dir string) error {
	files, err := os.ReadDir(dir + doomed)
	if err != nil {
		return fmt.Errorf("prune %s: %w", dir, err)
	}
	for _, f := range files {
		if err := os.RemoveAll(filepath.Join(dir+doomed, f.Name())); err != nil {
			return fmt.Errorf("prune %s: %w", dir, err)
		}
	}
	for _, path := range []string{dir + ".json", dir + doomed} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("prune %s: %w", dir, err)
		}
		if err := durable.SyncDir(id.Attic()); err != nil {
			return err
		}
	}
	return nil
}

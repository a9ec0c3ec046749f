package datadir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// retiredAt makes n retired directories, a second apart, and returns their names, oldest first.
func retiredAt(t *testing.T, n int) (wire.Identity, []string) {
	t.Helper()
	id, lock, info := retirable(t)
	var names []string
	for i := range n {
		touch("member/snap/db")(t, id.SlotDir(wire.SlotSeed))
		path, err := datadir.Retire(lock, id, wire.SlotSeed, info, "test", func() time.Time { return clock().Add(time.Duration(i) * time.Second) })
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.Base(path))
	}
	return id, names
}

func entry(t *testing.T, id wire.Identity, name string) *datadir.Entry {
	t.Helper()
	es, err := datadir.Entries(id)
	if err != nil {
		t.Fatal(err)
	}
	for i := range es {
		if es[i].Name == name {
			return &es[i]
		}
	}
	return nil
}

func TestEntriesNewestFirst(t *testing.T) {
	if es, err := datadir.Entries(wire.Identity{DataDir: t.TempDir()}); err != nil || len(es) != 0 {
		t.Errorf("no attic: %v %v", es, err)
	}
	id, names := retiredAt(t, 3)
	es, err := datadir.Entries(id)
	if err != nil || len(es) != 3 || es[0].Name != names[2] || es[2].Name != names[0] || es[0].Note.LastIndex != 9 || es[0].Problem != "" {
		t.Errorf("%+v %v", es, err)
	}
	attic := func(s string) string { return filepath.Join(id.Attic(), s) }
	for path, content := range map[string]string{names[0] + ".json": `{"v":99}`, "torn.json": "", "left.json": `{"v":1}`, "bare/x": "", "half.pruned/x": ""} {
		os.MkdirAll(filepath.Dir(attic(path)), 0o700)
		if err := os.WriteFile(attic(path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{names[0]: "version 99", "torn": "directory is not there", "left": "directory is not there", "bare": "no note", "half": "was begun"} {
		if e := entry(t, id, name); e == nil || !strings.Contains(e.Problem, want) {
			t.Errorf("%s: %+v, want a problem with %q", name, e, want)
		}
	}
	if e := entry(t, id, names[1]); e.Problem != "" {
		t.Errorf("the others' problems became %s's: %+v", names[1], e)
	}
}

// A prune that is cut short at any point is seen as such and finished by the same call.
func TestPruneFinishes(t *testing.T) {
	for _, crash := range []string{"", "renamed", "emptied", "note gone"} {
		id, names := retiredAt(t, 2)
		name := names[0]
		dir := filepath.Join(id.Attic(), name)
		if crash != "" {
			must(t, os.Rename(dir, dir+".pruned"))
			if e := entry(t, id, name); !e.Doomed || e.Bytes == 0 {
				t.Errorf("%s: %+v", crash, e)
			}
		}
		if crash == "emptied" || crash == "note gone" {
			must(t, os.RemoveAll(filepath.Join(dir+".pruned", "member")))
		}
		if crash == "note gone" {
			must(t, os.Remove(dir+".json"))
		}
		for range 2 {
			if err := datadir.Prune(id, name); err != nil {
				t.Errorf("%s: %v", crash, err)
			}
		}
		if left, _ := filepath.Glob(dir + "*"); len(left) > 0 {
			t.Errorf("%s: left are %v", crash, left)
		}
		if e := entry(t, id, names[1]); e == nil || e.Problem != "" {
			t.Errorf("%s: the other entry is %+v", crash, e)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPruneLeavesWhatIsNoEntry(t *testing.T) {
	id, names := retiredAt(t, 1)
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "data"), nil, 0o600))
	must(t, os.Symlink(outside, filepath.Join(id.Attic(), "link")))
	must(t, os.WriteFile(filepath.Join(id.Attic(), "note.json"), []byte(`{"v":1}`), 0o600))
	for _, name := range []string{"", ".", "..", "../seed", id.Attic(), "link", "note", names[0] + ".pruned"} {
		if err := datadir.Prune(id, name); err == nil {
			t.Errorf("%q was pruned", name)
		}
	}
	for _, path := range []string{filepath.Join(outside, "data"), filepath.Join(id.Attic(), names[0], "member/x"), filepath.Join(id.Attic(), "note.json")} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

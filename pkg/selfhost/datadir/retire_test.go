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

func clock() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

func retirable(t *testing.T) (wire.Identity, *datadir.Lock, datadir.Info) {
	t.Helper()
	id := wire.Identity{DataDir: t.TempDir()}
	touch("member/x")(t, id.SlotDir(wire.SlotSeed))
	lock, err := datadir.TryLock(id.SlotLock(wire.SlotSeed))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	return id, lock, datadir.Info{Class: wire.ClassWhole, MemberID: 0xabc, ClusterID: 0xdef, LastTerm: 2, LastIndex: 9, Revision: 5}
}

func TestRetireMovesAndNotes(t *testing.T) {
	id, lock, info := retirable(t)
	attic, err := datadir.Retire(lock, id, wire.SlotSeed, info, "pivot done", clock)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(id.Attic(), "20260304T050607Z-seed-abc"); attic != want {
		t.Errorf("attic %s, want %s", attic, want)
	}
	if _, err := os.Stat(filepath.Join(attic, "member/x")); err != nil {
		t.Error("the data is not there:", err)
	}
	if _, err := os.Stat(id.SlotDir(wire.SlotSeed)); !os.IsNotExist(err) {
		t.Error("the slot still has a directory:", err)
	}
	notes, err := datadir.Notes(id)
	n := notes[filepath.Base(attic)]
	if err != nil || n.Reason != "pivot done" || n.MemberID != 0xabc || n.ClusterID != 0xdef || n.LastIndex != 9 || !n.Time.Equal(clock()) || n.From != id.SlotDir(wire.SlotSeed) {
		t.Errorf("note %+v, %v", n, err)
	}
	again, err := datadir.Retire(lock, id, wire.SlotSeed, info, "pivot done", clock)
	if err != nil || again != attic {
		t.Errorf("done again: %q, %v; want the same entry", again, err)
	}
	info.MemberID = 0x123
	if other, err := datadir.Retire(lock, id, wire.SlotSeed, info, "pivot done", clock); err != nil || other != "" {
		t.Errorf("another member's: %q, %v; want nothing", other, err)
	}
}

func TestRetireSameSecond(t *testing.T) {
	id, lock, info := retirable(t)
	first, err := datadir.Retire(lock, id, wire.SlotSeed, info, "a", clock)
	if err != nil {
		t.Fatal(err)
	}
	touch("member/y")(t, id.SlotDir(wire.SlotSeed))
	second, err := datadir.Retire(lock, id, wire.SlotSeed, info, "b", clock)
	if err != nil || second == first || !strings.HasPrefix(second, first) {
		t.Fatalf("%q after %q, %v", second, first, err)
	}
	if _, err := os.Stat(filepath.Join(first, "member/x")); err != nil {
		t.Error("the first entry was touched:", err)
	}
}

// Killed between note and move: the next try uses that note, and no entry is without a directory.
func TestRetireAfterACrash(t *testing.T) {
	id, lock, info := retirable(t)
	attic, err := datadir.Retire(lock, id, wire.SlotSeed, info, "pivot done", clock)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(attic, id.SlotDir(wire.SlotSeed)); err != nil {
		t.Fatal(err)
	}
	later := func() time.Time { return clock().Add(time.Hour) }
	again, err := datadir.Retire(lock, id, wire.SlotSeed, info, "pivot done", later)
	if err != nil || again != attic {
		t.Fatalf("%q, %v; want %q", again, err, attic)
	}
	notes, err := datadir.Notes(id)
	if err != nil || len(notes) != 1 {
		t.Fatalf("%d notes, %v", len(notes), err)
	}
}

func TestRetireNeedsTheSlotsLock(t *testing.T) {
	id, lock, info := retirable(t)
	touch("member/x")(t, id.SlotDir(wire.SlotMember))
	for _, l := range []*datadir.Lock{nil, lock} {
		if _, err := datadir.Retire(l, id, wire.SlotMember, info, "r", clock); err == nil {
			t.Error("moved without its lock")
		}
	}
	if _, err := os.Stat(id.SlotDir(wire.SlotMember)); err != nil {
		t.Error(err)
	}
}

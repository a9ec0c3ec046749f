package datadir_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func TestWholeAfterStopAndAfterKill(t *testing.T) {
	for name, f := range map[string]*fixture{"stopped": stopped, "killed": killed, "snapshot": snapshot} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, f)
			before := listing(t, dir)
			info, err := datadir.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if info.Class != wire.ClassWhole || info.Torn {
				t.Fatalf("class %s, torn %t: %s", info.Class, info.Torn, info.Reason)
			}
			// Killed within 100 ms of its start, etcd has nothing in its database yet; all is in the log.
			listed := len(info.Members) == 1 && info.Members[0].ID == info.MemberID && info.Members[0].Name == "cp-1"
			if info.ClusterID == 0 || info.MemberID == 0 || !listed && (f.clean || info.ConsistentIndex > 0) {
				t.Errorf("identity: cluster %s, member %s, list %+v", info.ClusterID, info.MemberID, info.Members)
			}
			if info.LastTerm < 2 || info.LastIndex < uint64(f.puts) || info.HardCommit > info.LastIndex || info.ConsistentIndex > info.LastIndex {
				t.Errorf("reach: %+v", info)
			}
			if f.clean && info.Revision != int64(f.puts)+1 {
				t.Errorf("revision %d after %d puts", info.Revision, f.puts)
			}
			if (f == snapshot) != (info.SnapIndex > 0) {
				t.Errorf("snapshot index %d", info.SnapIndex)
			}
			if time.Since(info.LastWrite) > time.Hour {
				t.Errorf("last write %s", info.LastWrite)
			}
			if after := listing(t, dir); after != before {
				t.Errorf("reading changed the directory:\n%s\n%s", before, after)
			}
			startsWith(t, dir, int64(f.puts))
		})
	}
}

func TestClasses(t *testing.T) {
	cases := []struct {
		name   string
		from   *fixture
		change func(t *testing.T, dir string)
		class  wire.Class
		reason string
		starts bool // etcd must agree that it starts, with all keys
	}{
		{name: "torn tail", from: killed, change: tear, class: wire.ClassWhole, reason: "cut off", starts: false},
		{name: "tail zeroed inside a record (D1b)", from: killed, change: zeroTail, class: wire.ClassPart, reason: "damaged after entry"},
		{name: "byte flipped in the log (D1c)", from: killed, change: flip, class: wire.ClassPart, reason: "damaged after entry"},
		{name: "log file missing", from: snapshot, change: dropSecondLogFile, class: wire.ClassPart, reason: "missing"},
		{name: "log removed", from: stopped, change: remove("member/wal"), class: wire.ClassPart, reason: "without a log"},
		{name: "log emptied", from: stopped, change: empty("member/wal"), class: wire.ClassPart, reason: "without a log"},
		{name: "database removed, log from the beginning", from: killed, change: remove("member/snap/db"), class: wire.ClassWhole, reason: "replays", starts: true},
		{name: "database removed, log begins later", from: snapshot, change: remove("member/snap/db"), class: wire.ClassPart, reason: "no database"},
		{name: "database cut off", from: stopped, change: resize("member/snap/db", 9000), class: wire.ClassPart, reason: "cut off"},
		{name: "database cut to less than a page", from: stopped, change: resize("member/snap/db", 100), class: wire.ClassPart, reason: "does not open"},
		{name: "database an empty file", from: stopped, change: resize("member/snap/db", 0), class: wire.ClassPart, reason: "empty file"},
		{name: "database below the snapshot (D2)", from: snapshot, change: setIndex(3), class: wire.ClassPart, reason: "database at index 3"},
		{name: "snapshot received, not yet installed", from: snapshot, change: received, class: wire.ClassWhole, reason: "etcd finishes that", starts: true},
		{name: "database above the log", from: stopped, change: setIndex(1 << 20), class: wire.ClassPart, reason: "data went back"},
		{name: "another member's database (L7)", from: stopped, change: otherMember, class: wire.ClassPart, reason: "not of one member"},
		{name: "a database that knows a stranger (L7)", from: stopped, change: stranger, class: wire.ClassPart, reason: "not of one cluster"},
		{name: "the same after a raft snapshot (L7)", from: snapshot, change: stranger, class: wire.ClassPart, reason: "not of one cluster"},
		{name: "removed by its own database", from: stopped, change: selfRemoved, class: wire.ClassWhole, reason: "removed"},
		{name: "files beside member", from: stopped, change: touch("notes.txt"), class: wire.ClassWhole, reason: "notes.txt"},
		{name: "absent", change: func(*testing.T, string) {}, class: wire.ClassAbsent},
		{name: "empty", change: mkdir(""), class: wire.ClassEmpty},
		{name: "skeleton of a first start", change: skeleton, class: wire.ClassEmpty, reason: "first start"},
		{name: "lost+found only (L5)", change: mkdir("lost+found"), class: wire.ClassForeign, reason: "mounted at the data directory"},
		{name: "foreign files", change: touch("postgresql.conf"), class: wire.ClassForeign, reason: "postgresql.conf"},
		{name: "foreign below member", change: touch("member/README"), class: wire.ClassForeign, reason: "README"},
		{name: "a file", change: touch(""), class: wire.ClassForeign, reason: "not a directory"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if c.from != nil {
				dir = copyOf(t, c.from)
			}
			c.change(t, dir)
			info, err := datadir.ReadIsolated(context.Background(), "", dir)
			if err != nil {
				t.Fatal(err)
			}
			if info.Class != c.class || !strings.Contains(info.Reason, c.reason) {
				t.Fatalf("class %q, %q; want %q, …%s…", info.Class, info.Reason, c.class, c.reason)
			}
			if c.from != nil && c.class == wire.ClassPart && strings.Contains(c.name, "database") && info.MemberID == 0 {
				t.Error("what the log still says is not told")
			}
			if c.starts {
				startsWith(t, dir, int64(c.from.puts))
			}
		})
	}
}

// A torn tail is promised to be whole: etcd must start on it, with at most the torn record less.
func TestTornStarts(t *testing.T) {
	dir := copyOf(t, killed)
	tear(t, dir)
	info, err := datadir.Read(dir)
	if err != nil || !info.Torn {
		t.Fatalf("torn %t, %v", info.Torn, err)
	}
	address := freeAddress(t)
	startChild(t, "test-etcd", dir, address, "10000").stop()
	again, err := datadir.Read(dir)
	if err != nil || again.Class != wire.ClassWhole || again.Torn || !strings.Contains(again.Reason, "broken") {
		t.Fatalf("after etcd's repair: %+v, %v", again, err)
	}
}

func TestRunningWithoutOurLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := startChild(t, "test-etcd", dir, freeAddress(t), "10000")
	info, err := datadir.Read(dir)
	if err != nil || info.Class != wire.ClassRunning || !strings.Contains(info.Reason, fmt.Sprint(c.Process.Pid)) {
		t.Fatalf("%s %q, %v; want running, naming pid %d", info.Class, info.Reason, err, c.Process.Pid)
	}
}

// Unreadable is an error, never absent or empty (I10).
func TestUnreadableIsAnError(t *testing.T) {
	for _, sub := range []string{"", "member", "member/wal", "member/snap"} {
		t.Run("no permission for "+sub, func(t *testing.T) {
			dir := copyOf(t, stopped)
			for p := filepath.Dir(filepath.Dir(dir)); p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
				_ = os.Chmod(p, 0o755) // so that only the directory under test refuses
			}
			_ = os.Chmod(filepath.Dir(dir), 0o755)
			shut := filepath.Join(dir, sub)
			openUpTo(t, dir)
			if err := os.Chmod(shut, 0); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(shut, 0o700)
			asNobody(t, func() {
				if info, err := datadir.Read(dir); err == nil {
					t.Errorf("class %s, want an error", info.Class)
				}
			})
		})
	}
	t.Run("link into an unmounted place", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Symlink("/nowhere/at/all", dir); err != nil {
			t.Fatal(err)
		}
		if info, err := datadir.Read(dir); err == nil {
			t.Errorf("class %s, want an error", info.Class)
		}
	})
}

// A reader that dies, hangs or talks nonsense is an error with its cause.
func TestIsolation(t *testing.T) {
	for name, script := range map[string]string{
		"bus error": "kill -BUS $$", "exit": "echo broken >&2; exit 1", "nonsense": "echo '{}'", "hang": "exec sleep 60",
	} {
		t.Run(name, func(t *testing.T) {
			exe := filepath.Join(t.TempDir(), "reader")
			if err := os.WriteFile(exe, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			defer cancel()
			dir := t.TempDir() // not empty: an empty one needs no child
			if err := os.Mkdir(filepath.Join(dir, "member"), 0o700); err != nil {
				t.Fatal(err)
			}
			if info, err := datadir.ReadIsolated(ctx, exe, dir); err == nil {
				t.Fatalf("class %s, want an error", info.Class)
			}
		})
	}
}

func openUpTo(t *testing.T, dir string) {
	t.Helper()
	for _, p := range []string{"", "member", "member/wal", "member/snap"} {
		if err := os.Chmod(filepath.Join(dir, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// asNobody runs f without root's power over file modes, on this thread only.
func asNobody(t *testing.T, f func()) {
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(65534); err != nil {
		t.Skip("cannot change the file system user:", err)
	}
	defer unix.Setfsuid(0)
	f()
}

// lastLog returns the last log file and its content.
func lastLog(t *testing.T, dir string) (string, []byte, int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "member/wal/*.wal"))
	if err != nil || len(names) == 0 {
		t.Fatal("no log", err)
	}
	b, err := os.ReadFile(names[len(names)-1])
	if err != nil {
		t.Fatal(err)
	}
	return names[len(names)-1], b, len(bytes.TrimRight(b, "\x00"))
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func tear(t *testing.T, dir string) {
	path, b, end := lastLog(t, dir)
	write(t, path, b[:end-3])
}

func zeroTail(t *testing.T, dir string) {
	path, b, end := lastLog(t, dir)
	// Inside the last put (5000 bytes), not a whole sector of it.
	at := bytes.LastIndex(b[:end], bytes.Repeat([]byte("v"), 4000))
	clear(b[at+100 : at+140])
	write(t, path, b)
}

func flip(t *testing.T, dir string) {
	path, b, end := lastLog(t, dir)
	b[end/2] ^= 0x40
	write(t, path, b)
}

func dropSecondLogFile(t *testing.T, dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, "member/wal/*.wal"))
	if len(names) < 3 {
		t.Fatalf("the fixture has %d log files", len(names))
	}
	if err := os.Remove(names[len(names)-2]); err != nil {
		t.Fatal(err)
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func empty(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		remove(name)(t, dir)
		mkdir(name)(t, dir)
	}
}

func resize(name string, size int64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
}

func mkdir(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func touch(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, []byte("x"))
	}
}

// skeleton is what etcd leaves when it ends before its log exists.
func skeleton(t *testing.T, dir string) {
	mkdir("member/wal.tmp")(t, dir)
	mkdir("member/snap")(t, dir)
	edit(t, dir, func(tx *bolt.Tx) error {
		for _, b := range []string{"meta", "key", "members"} {
			if _, err := tx.CreateBucketIfNotExists([]byte(b)); err != nil {
				return err
			}
		}
		return nil
	})
}

func edit(t *testing.T, dir string, f func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, "member/snap/db"), 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(f); err != nil {
		t.Fatal(err)
	}
}

func setIndex(n uint64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		edit(t, dir, func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put([]byte("consistent_index"), binary.BigEndian.AppendUint64(nil, n))
		})
	}
}

// received: the good database is a received snapshot's file, the one in place is older.
func received(t *testing.T, dir string) {
	info, err := datadir.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	snap := filepath.Join(dir, "member/snap")
	b, err := os.ReadFile(filepath.Join(snap, "db"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(snap, fmt.Sprintf("%016x.snap.db", info.SnapIndex)), b)
	setIndex(3)(t, dir)
}

func otherMember(t *testing.T, dir string) {
	edit(t, dir, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("members"))
		k, v := b.Cursor().First()
		k, v = bytes.Clone(k), bytes.Clone(v)
		if err := b.Delete(k); err != nil {
			return err
		}
		return b.Put([]byte("abcdef"), regexp.MustCompile(`"id":\d+`).ReplaceAll(v, []byte(`"id":11259375`)))
	})
}

func stranger(t *testing.T, dir string) {
	edit(t, dir, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("members"))
		_, v := b.Cursor().First()
		return b.Put([]byte("abcdef"), regexp.MustCompile(`"id":\d+`).ReplaceAll(v, []byte(`"id":11259375`)))
	})
}

func selfRemoved(t *testing.T, dir string) {
	edit(t, dir, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("members"))
		k, _ := b.Cursor().First()
		k = bytes.Clone(k)
		if err := b.Delete(k); err != nil {
			return err
		}
		return tx.Bucket([]byte("members_removed")).Put(k, []byte("removed"))
	})
}

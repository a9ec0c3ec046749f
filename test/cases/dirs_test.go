//go:build cases || sweep

package cases

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// strange is a whole directory of another cluster.
func strange(t *testing.T) (dir string, info datadir.Info) {
	t.Helper()
	l := rig.Up(t, 1)
	rig.Must(t, l.PowerOff())
	dir = l.Nodes[0].Identity().SlotDir(wire.SlotSeed)
	info, err := datadir.Read(dir)
	rig.Must(t, err)
	if info.Class != wire.ClassWhole {
		t.Fatalf("%+v", info)
	}
	return dir, info
}

// What lies where a member is to join: refused by name and not touched, or kept
// in the attic; and then what happens to the directories of members.
func TestDirectories(t *testing.T) {
	foreign, info := strange(t)
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 6*time.Minute)
	slots := map[int]string{}
	for i, n := range l.Nodes {
		slots[i] = n.Identity().SlotDir(wire.SlotMember)
	}

	t.Run("joiner, of another cluster", func(t *testing.T) {
		copyTree(t, foreign, slots[1])
		before := tree(t, slots[1])
		pivotRefused(ctx, t, l, "ForeignDirectory", "cp-2", info.ClusterID.String(), info.MemberID.String())
		statusSays(t, l, "cp-2", "whole")
		if after := tree(t, slots[1]); after != before {
			t.Errorf("it was touched:\n%s\n%s", before, after)
		}
		rig.Must(t, os.RemoveAll(slots[1]))
	})
	t.Run("joiner, lost+found only (L5)", func(t *testing.T) {
		rig.Must(t, os.MkdirAll(filepath.Join(slots[1], "lost+found"), 0o700))
		pivotRefused(ctx, t, l, "ForeignDirectory", "cp-2", "lost+found", "one level higher")
		rig.Must(t, os.RemoveAll(slots[1]))
	})
	t.Run("joiner, a mount of its own (L5)", func(t *testing.T) {
		tmpfs(t, slots[1], "1m")
		pivotRefused(ctx, t, l, "NodeUnfit", "cp-2", "filesystem of its own")
		rig.Must(t, unix.Unmount(slots[1], 0))
		rig.Must(t, os.Remove(slots[1]))
	})

	// The pivot meets: a database without log, an empty directory, leftovers of first starts.
	copyTree(t, foreign, slots[1])
	rig.Must(t, os.RemoveAll(filepath.Join(slots[1], "member", "wal")))
	rig.Must(t, os.WriteFile(filepath.Join(slots[1], "member", "snap", "db.part"), []byte("half"), 0o600))
	part := tree(t, slots[1])
	rig.Must(t, os.MkdirAll(slots[2], 0o755)) // present, empty, and with the wrong mode (L11)
	leftover := filepath.Join(l.Nodes[0].DataDir(), "data.part")
	rig.Must(t, os.MkdirAll(filepath.Join(leftover, "member"), 0o700))
	rig.Must(t, os.MkdirAll(filepath.Join(l.Nodes[0].DataDir(), "lost+found"), 0o700)) // of the filesystem mounted there
	w, err := lab.StartWriters(ctx, l.Nodes[0], 4, "/load")
	rig.Must(t, err)
	defer w.Stop()
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 || !strings.Contains(r.Stdout, "RetireDirectory cp-2/member") {
		t.Fatal(r)
	}
	l.CheckPivoted(ctx)
	if kept, _ := filepath.Glob(filepath.Join(l.Nodes[1].DataDir(), "attic", "*", "member")); len(kept) != 1 || tree(t, filepath.Dir(kept[0])) != part {
		t.Errorf("the database without log is not kept as it was: %v", kept)
	}
	if _, err := os.Stat(leftover); err != nil {
		t.Errorf("a leftover that is nobody's was touched: %v", err)
	}
	modes(t, l) // L11
	thirdUser(t, l)

	memberDirectories(ctx, t, l, w, foreign)
	w.Stop()
	l.Eventually(30*time.Second, "all three to be level", func() (bool, string) {
		equal, words, err := l.Nodes[0].HashKV(ctx, []string{l.Nodes[0].Ref.HostPort(2379), l.Nodes[1].Ref.HostPort(2379), l.Nodes[2].Ref.HostPort(2379)})
		return err == nil && equal, fmt.Sprint(words, err)
	})
	noneLost(ctx, t, l, w)
}

// dirAccident is what happens to the directory of a stopped voter.
type dirAccident struct {
	name   string
	change func(t *testing.T, dir string)
	// says is what status tells while the member stays down; empty: it starts.
	says []string
	// pivot is what the pivot refuses with; empty: not asked.
	pivot []string
}

// memberDirectories: cp-3's member is stopped, its directory changed, its agent
// started. Either it starts, or it says why not and the other two go on; with
// the directory as it was it is back.
func memberDirectories(ctx context.Context, t *testing.T, l *rig.Lab, w *lab.Writers, foreign string) {
	n := l.Nodes[2]
	sub := func(dir, name string) string { return filepath.Join(dir, "member", name) }
	aside := func(from string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			rig.Must(t, os.Rename(filepath.Join(dir, from), filepath.Join(n.Dir, "aside")))
		}
	}
	for _, a := range []dirAccident{
		{name: "log without database", change: aside("member/snap/db"), says: []string{"cp-3", "no database"}, pivot: []string{"PartDirectory", "cp-3", "no database"}},
		{name: "torn tail", change: func(t *testing.T, dir string) { tearTail(t, sub(dir, "wal")) }},
		{name: "mode 0755 (L11)", change: func(t *testing.T, dir string) { rig.Must(t, os.Chmod(dir, 0o755)) }},
		{name: "database without log", change: aside("member/wal"), says: []string{"cp-3", "without a log"}, pivot: []string{"PartDirectory", "cp-3", "without a log"}},
		{name: "database of another cluster (L7)", change: func(t *testing.T, dir string) {
			info, err := datadir.Read(dir)
			rig.Must(t, err)
			aside("member/snap/db")(t, dir)
			copyTree(t, sub(foreign, "snap/db"), sub(dir, "snap/db"))
			setIndex(t, sub(dir, "snap/db"), info.ConsistentIndex) // so that nothing but its members tells it
		}, says: []string{"cp-3", "CASES L7"}, pivot: []string{"PartDirectory", "cp-3"}},
		{name: "directory of another cluster", change: func(t *testing.T, dir string) {
			aside(".")(t, dir)
			copyTree(t, foreign, dir)
		}, says: []string{"cp-3", "ForeignDirectory"}},
		{name: "disk not mounted: empty mount point (L4)", change: func(t *testing.T, dir string) {
			aside(".")(t, dir)
			rig.Must(t, os.Mkdir(dir, 0o700))
		}, says: []string{"cp-3", "EmptyButRecorded", "node was member"}, pivot: []string{"LostDirectory", "cp-3"}},
		{name: "emptied to lost+found (L4, L5)", change: func(t *testing.T, dir string) {
			aside(".")(t, dir)
			rig.Must(t, os.MkdirAll(filepath.Join(dir, "lost+found"), 0o700))
		}, says: []string{"cp-3", "lost+found"}, pivot: []string{"ForeignDirectory", "cp-3"}},
	} {
		t.Run("member, "+a.name, func(t *testing.T) {
			dir := stopped(t, n)
			keep := filepath.Join(n.Dir, "before")
			copyTree(t, dir, keep)
			a.change(t, dir)
			rig.Must(t, n.StartAgent())
			if len(a.says) > 0 {
				statusSays(t, l, a.says...)
				writes(ctx, t, l, 0)
				writes(ctx, t, l, 2) // through the proxy of the node whose member is down
				if len(a.pivot) > 0 {
					pivotRefused(ctx, t, l, a.pivot...)
				}
				stopped(t, n)
				rig.Must(t, os.RemoveAll(dir))
				move(t, keep, dir)
				rig.Must(t, n.StartAgent())
			}
			serving(ctx, t, l, n, wire.SlotMember)
			rig.Must(t, os.RemoveAll(keep))
			rig.Must(t, os.RemoveAll(filepath.Join(n.Dir, "aside")))
		})
	}
	t.Run("member, whole data directory away (L4)", func(t *testing.T) {
		stopped(t, n)
		rig.Must(t, os.Rename(n.DataDir(), n.DataDir()+".away"))
		rig.Must(t, n.StartAgent())
		statusSays(t, l, "cp-3", "EmptyButRecorded", "its filesystem mounted")
		if _, err := os.Stat(n.DataDir()); !os.IsNotExist(err) {
			t.Errorf("made in place of a disk that is not mounted: %v", err)
		}
		rig.Must(t, os.Rename(n.DataDir()+".away", n.DataDir()))
		serving(ctx, t, l, n, wire.SlotMember)
	})
}

// tearTail appends the first bytes of a record that was being written when the
// power went: its length, and less than that many bytes (etcd wal/encoder.go).
func tearTail(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	rig.Must(t, err)
	path := files[len(files)-1]
	b, err := os.ReadFile(path)
	rig.Must(t, err)
	end := int64(0)
	for end+8 <= int64(len(b)) { // records: 8 bytes of length (and padding), then the data
		var n int64
		for i := range 7 {
			n |= int64(b[end+int64(i)]) << (8 * i)
		}
		if n == 0 {
			break
		}
		pad := int64(0)
		if b[end+7]&0x80 != 0 {
			pad = int64(b[end+7] & 7)
		}
		end += 8 + n + pad
	}
	// 600 bytes are announced, and the sectors behind the first never came.
	rec := append([]byte{0x58, 2, 0, 0, 0, 0, 0, 0}, []byte(strings.Repeat("half a record ", 8))...)
	copy(b[end:], rec)
	rig.Must(t, os.WriteFile(path, b[:end+int64(len(rec))], 0o600))
}

// setIndex makes a database look as far as another.
func setIndex(t *testing.T, path string, index uint64) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	rig.Must(t, err)
	defer db.Close()
	rig.Must(t, db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("consistent_index"), binary.BigEndian.AppendUint64(nil, index))
	}))
}

// modes: what we made is readable by its owner alone (L11).
func modes(t *testing.T, l *rig.Lab) {
	t.Helper()
	for _, n := range l.Nodes {
		for _, root := range []string{n.DataDir(), n.StateDir()} {
			rig.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				st, err := d.Info()
				if err != nil {
					return err
				}
				if path == n.Identity().SlotDir(wire.SlotMember) && n.Name == "cp-3" || strings.HasSuffix(path, ".sock") {
					return nil // made by the test; the socket's folder is shut
				}
				if st.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s has mode %s", path, st.Mode())
				}
				return nil
			}))
		}
	}
}

// thirdUser: an etcd started as a user who may not read it names the path and
// starts nothing (L11).
func thirdUser(t *testing.T, l *rig.Lab) {
	t.Helper()
	n := l.Nodes[1]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.Binary, "etcd", "--state-dir", n.StateDir(), "--slot", "member", "--", "--data-dir="+n.Identity().SlotDir(wire.SlotMember))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "permission denied") || !strings.Contains(string(out), n.StateDir()) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

// tmpfs mounts a small filesystem for the length of the test.
func tmpfs(t *testing.T, dir, size string) {
	t.Helper()
	rig.Must(t, os.MkdirAll(dir, 0o700))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("this machine does not let the test mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

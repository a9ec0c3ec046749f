//go:build cases || sweep

package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// The disk of a joining node (a mount of its own, lost+found and all, L5) fills
// while the member takes the database: it is told, the node is not promoted, the
// others are not disturbed, and with room again the same run goes on.
func TestDiskFullOnAJoiningNode(t *testing.T) {
	l := rig.New(t, 3)
	ctx := rig.Context(t, 4*time.Minute)
	n := l.Nodes[2]
	tmpfs(t, n.DataDir(), "400m")
	t.Cleanup(func() { _ = n.Kill("all") }) // before it is unmounted
	rig.Must(t, os.Mkdir(filepath.Join(n.DataDir(), "lost+found"), 0o700))
	rig.Must(t, l.Init(ctx))
	rig.Must(t, l.Join(l.Nodes[1]))
	rig.Must(t, l.Join(n))
	rig.Must(t, l.AwaitSeed(ctx))
	rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	rig.Must(t, lab.Fill(ctx, l.Client(0), "/fill", 30))
	w, err := lab.StartWriters(ctx, l.Nodes[0], 2, "/load")
	rig.Must(t, err)
	defer w.Stop()

	run := startPivot(t, l, l.PivotArgs(0)...)
	l.Eventually(60*time.Second, "cp-3's member to run, and to stop in its join", func() (bool, string) {
		err := n.Signal("member", syscall.SIGSTOP)
		return err == nil, fmt.Sprint(err, run.text())
	})
	full := fill(t, n.DataDir(), 4<<20)
	w.Gap()
	rig.Must(t, n.Signal("member", syscall.SIGCONT))
	statusSays(t, l, "DiskHasRoom", "False", "cp-3 has", "free of 400M", "no space left on device")
	time.Sleep(5 * time.Second) // long enough for the leader to offer the database again
	if said := run.text(); strings.Contains(said, "PromoteLearner cp-3/member") || strings.Contains(said, "MoveLeader") || !strings.Contains(said, "cp-3: ProcessEnds") || !strings.Contains(said, "no space left on device") {
		t.Errorf("with a full disk:\n%s", said)
	}
	if gap := w.Gap(); gap > 3*time.Second {
		t.Errorf("the others were disturbed: no write acknowledged for %s", gap)
	}
	rig.Must(t, os.Remove(full))
	if err := run.wait(); err != nil {
		t.Fatalf("with room again: %v\n%s", err, run.text())
	}
	w.Stop()
	l.CheckPivoted(ctx)
	noneLost(ctx, t, l, w)
}

// fill takes all room of dir's filesystem but about left bytes.
func fill(t *testing.T, dir string, left int64) (file string) {
	t.Helper()
	file = filepath.Join(dir, "ballast")
	f, err := os.Create(file)
	rig.Must(t, err)
	defer f.Close()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var st unix.Statfs_t
		rig.Must(t, unix.Statfs(dir, &st))
		have, err := f.Stat()
		rig.Must(t, err)
		err = unix.Fallocate(int(f.Fd()), 0, 0, have.Size()+int64(st.Bavail)*st.Bsize-left)
		if err == nil {
			return file
		}
		if time.Now().After(end) { // somebody else was still writing there
			t.Fatal(err)
		}
	}
}

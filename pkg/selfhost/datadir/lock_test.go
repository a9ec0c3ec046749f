package datadir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func TestLockNamesItsHolder(t *testing.T) {
	for role, program := range map[string]string{"test-hold": "test-hold", "test-hold-exec": "cat"} {
		t.Run(role, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data.lock")
			c := startChild(t, role, path)
			// The child says ready just before it execs; its pid stays, its command line follows.
			waitFor(t, func() bool { return strings.Contains(datadir.Cmdline(c.Process.Pid), program) })
			_, err := datadir.TryLock(path)
			var held *datadir.Held
			if !errors.As(err, &held) || held.PID != c.Process.Pid || !strings.Contains(held.Cmdline, program) {
				t.Fatalf("second lock: %v; want it held by %d (%s)", err, c.Process.Pid, program)
			}
			if pid, err := datadir.HolderPID(path); err != nil || pid != c.Process.Pid {
				t.Fatalf("holder %d, %v; want %d", pid, err, c.Process.Pid)
			}
			got := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				l, err := datadir.LockWait(ctx, path)
				if err == nil {
					defer l.Close()
				}
				got <- err
			}()
			c.kill()
			if err := <-got; err != nil {
				t.Fatalf("after kill -9 of the holder: %v", err)
			}
			waitFor(t, func() bool { pid, err := datadir.HolderPID(path); return err == nil && pid == 0 })
		})
	}
}

// A lock nobody refers to any more is still held until Close or the process's end.
func TestLockSurvivesTheGarbageCollector(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.lock")
	if _, err := datadir.TryLock(path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond) // cleanups run in a goroutine of their own
	}
	if pid, err := datadir.HolderPID(path); err != nil || pid != os.Getpid() {
		t.Fatalf("holder %d, %v; want this process", pid, err)
	}
}

func TestLockWaitGivesUpNamingTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.lock")
	c := startChild(t, "test-hold", path)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := datadir.LockWait(ctx, path)
	var held *datadir.Held
	if !errors.As(err, &held) || held.PID != c.Process.Pid {
		t.Fatalf("%v; want it held by %d", err, c.Process.Pid)
	}
}

func TestHolderOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.lock")
	if pid, err := datadir.HolderPID(path); pid != 0 || err != nil {
		t.Errorf("no file: %d, %v", pid, err)
	}
	// A pid that a dead holder left in the file is no holder.
	if err := os.WriteFile(path, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if pid, err := datadir.HolderPID(path); pid != 0 || err != nil {
		t.Errorf("left behind: %d, %v", pid, err)
	}
	if _, err := datadir.TryLock(filepath.Join(filepath.Dir(path), "unmounted", "data.lock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("lock in a missing directory: %v", err)
	}
}

func TestClassifyRunningAndStopped(t *testing.T) {
	id := wire.Identity{DataDir: t.TempDir()}
	c := startChild(t, "test-hold", id.SlotLock(wire.SlotSeed))
	info, err := datadir.Classify(context.Background(), "", id, wire.SlotSeed)
	if err != nil || info.Class != wire.ClassRunning || !strings.Contains(info.Reason, "test-hold") {
		t.Fatalf("%+v, %v; want running, naming the holder", info, err)
	}
	c.stop()
	info, err = datadir.Classify(context.Background(), "", id, wire.SlotSeed)
	if err != nil || info.Class != wire.ClassAbsent {
		t.Fatalf("%+v, %v; want absent", info, err)
	}
	id.DataDir = filepath.Join(id.DataDir, "missing")
	info, err = datadir.Classify(context.Background(), "", id, wire.SlotSeed)
	if err != nil || info.Class != wire.ClassAbsent {
		t.Fatalf("%+v, %v; want absent", info, err)
	}
	if _, err := os.Stat(id.DataDir); err == nil {
		t.Fatal("looking created the directory")
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("not within 5 s")
}

package datadir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Classify says what the slot's directory is now. Where a process holds the
// lock exclusively the class is running, Reason names the holder, and identity
// is to be asked of that process. Otherwise the directory is read by
// ReadIsolated (exe as there) under a shared lock, which is gone on return.
func Classify(ctx context.Context, exe string, id wire.Identity, slot wire.Slot) (Info, error) {
	dir, lock := id.SlotDir(slot), id.SlotLock(slot)
	if _, err := os.Stat(filepath.Dir(lock)); errors.Is(err, fs.ErrNotExist) {
		return readIsolated(ctx, exe, dir, lookNice) // nothing there to lock; it is absent, or appears meanwhile and is new
	}
	f, err := shareLock(lock)
	var held *Held
	if errors.As(err, &held) {
		return Info{V: wire.V, Dir: dir, Class: wire.ClassRunning, Reason: held.Error()}, nil
	}
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	return readIsolated(ctx, exe, dir, lookNice)
}

// lookNice is the niceness of a reading that only a look waits for.
const lookNice = 10

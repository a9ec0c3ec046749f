package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Lock is an exclusive flock on the file beside a data directory. Whoever
// holds it owns the directory: the etcd process for its life, or who moves a
// stopped directory. It ends with Close or with the last process that has the
// descriptor, so a kill -9 frees it.
type Lock struct {
	path string
	f    *os.File
	// keep is a second descriptor of the same lock: the garbage collector closes
	// f when nobody refers to the Lock any more, and a process that merely
	// serves for the rest of its life would lose the lock.
	keep int
}

// Held is the error for a lock that somebody else holds.
type Held struct {
	Path string
	// PID is the holder, 0 where it cannot be told (another PID namespace).
	PID int
	// Cmdline is the holder's command line, empty where unreadable.
	Cmdline string
}

func (h *Held) Error() string {
	who := "an unknown process"
	if h.PID != 0 {
		who = fmt.Sprintf("pid %d", h.PID)
		if h.Cmdline != "" {
			who += fmt.Sprintf(" (%s)", h.Cmdline)
		}
	}
	return fmt.Sprintf("%s is held by %s", h.Path, who)
}

// TryLock takes the lock at path at once, creating the file (never its
// directory) where missing, and writes "PID\n" into it. Where another process
// has it the error is a *Held naming that one, and nothing was changed.
func TryLock(path string) (*Lock, error) {
	f, err := flockPath(path, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	// The text is for people and for holders in other PID namespaces; the flock alone decides.
	if err := writePID(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("write the holder's pid into %s: %w", path, err)
	}
	keep, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("keep %s locked: %w", path, err)
	}
	return &Lock{path: path, f: f, keep: keep}, nil
}

// pollEvery is how often LockWait looks again: flock has no wait with a deadline.
const pollEvery = 20 * time.Millisecond

// LockWait is TryLock until ctx ends; then the error is the *Held of the last try.
func LockWait(ctx context.Context, path string) (*Lock, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		l, err := TryLock(path)
		var held *Held
		if err == nil || !errors.As(err, &held) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

// Path is the lock's file.
func (l *Lock) Path() string { return l.path }

// File is the open lock file. With close-on-exec cleared, an exec'd program inherits the lock.
func (l *Lock) File() *os.File { return l.f }

// Close releases the lock, unless another process inherited the descriptor.
// The file stays: removing it would let two processes lock two files of one name.
func (l *Lock) Close() error { return errors.Join(l.f.Close(), unix.Close(l.keep)) }

// HolderPID names the process that holds path exclusively: an etcd, or
// somebody moving the directory; never a mere reader. 0: nobody, or no such
// file. It takes no exclusive lock itself, so it disturbs nobody who does.
func HolderPID(path string) (int, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("ask for the holder of a lock: %w", err)
	}
	defer f.Close()
	pid, err := kernelHolder(f, "WRITE")
	if err != nil || pid > 0 {
		return pid, err
	}
	// Not listed: free, or held in a PID namespace that this /proc does not show,
	// or on a filesystem whose device number it shows differently (btrfs).
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return 0, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return 0, fmt.Errorf("probe lock %s: %w", path, err)
	}
	// Taken since the first look, perhaps: its holder may not have written its pid yet.
	if pid, err = kernelHolder(f, "WRITE"); err != nil || pid > 0 {
		return pid, err
	}
	if pid = writtenPID(f); pid == 0 {
		return 0, &Held{Path: path}
	}
	return pid, nil
}

// shareLock takes a shared lock for reading a stopped directory: readers do not
// disturb each other, and an etcd that starts waits for them (its 5 s).
func shareLock(path string) (*os.File, error) { return flockPath(path, unix.LOCK_SH) }

// flockPath opens and locks path without waiting, and makes sure that the
// locked file is still the one of that name.
func flockPath(path string, how int) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open the lock beside the data directory: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
			defer f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, holderOf(f, path)
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		mine, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("look at lock %s: %w", path, err)
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(mine, now) {
			return f, nil
		}
		f.Close()
	}
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

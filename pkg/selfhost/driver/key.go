package driver

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Key returns the holder's key of a state directory and locks it, so that its
// predecessor is dead and has at most one RPC under way (DESIGN "Who may
// drive"). release gives the lock back. A driver that runs with the same state
// directory is a *wire.Refusal, DriverRunning, with its pid.
func Key(stateDir string) (key string, release func(), err error) {
	lock := filepath.Join(stateDir, wire.FileDriverLock)
	f, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, fmt.Errorf("driver lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		b, _ := os.ReadFile(lock)
		f.Close()
		return "", nil, &wire.Refusal{Name: "DriverRunning", Found: fmt.Sprintf("another driver runs with %s: pid %s", stateDir, strings.TrimSpace(string(b))),
			Want: "wait for it, or stop it"}
	}
	release = func() { f.Close() }
	// The pid is for people; the lock is what counts.
	if err := f.Truncate(0); err != nil {
		release()
		return "", nil, fmt.Errorf("driver lock: %w", err)
	}
	if _, err := fmt.Fprintf(f, "%d\n", os.Getpid()); err != nil {
		release()
		return "", nil, fmt.Errorf("driver lock: %w", err)
	}
	path := filepath.Join(stateDir, wire.FileDriverKey)
	b, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(b))) == 32 {
		return strings.TrimSpace(string(b)), release, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		release()
		return "", nil, fmt.Errorf("driver key: %w", err)
	}
	key = NewKey()
	if err := durable.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		release()
		return "", nil, err
	}
	return key, release, nil
}

// NewKey is a holder's key for a driver without a state directory; it lives as
// long as the process, so a successor waits for its grant to run out.
func NewKey() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

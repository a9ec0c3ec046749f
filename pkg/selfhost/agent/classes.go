package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// classDeadline bounds one reading of a stopped directory, in a child process.
const classDeadline = 30 * time.Second

// classCache remembers what a stopped directory was, for as long as no file in
// it changed in name, size or time: nobody but the holder of its lock writes
// there. A reading that takes longer than a look goes on behind it.
type classCache struct {
	id  wire.Identity
	exe string

	mu    sync.Mutex
	slots map[wire.Slot]*classRead
}

type classRead struct {
	key  string
	done chan struct{}
	info datadir.Info
	err  error
}

func newClassCache(id wire.Identity, exe string) *classCache {
	return &classCache{id: id, exe: exe, slots: map[wire.Slot]*classRead{}}
}

// get classifies the slot's directory; an error is unknown (I10).
func (c *classCache) get(ctx context.Context, slot wire.Slot) (datadir.Info, error) {
	key, err := fingerprint(c.id.SlotDir(slot))
	if err != nil {
		return datadir.Info{}, err
	}
	c.mu.Lock()
	r := c.slots[slot]
	if r == nil || r.key != key || r.stale() {
		r = &classRead{key: key, done: make(chan struct{})}
		c.slots[slot] = r
		go c.read(slot, r)
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.info, r.err
	case <-ctx.Done():
		return datadir.Info{}, fmt.Errorf("%s is still being read", c.id.SlotDir(slot))
	}
}

// stale readings are not used again: failed ones, and those that met a process.
func (r *classRead) stale() bool {
	select {
	case <-r.done:
		return r.err != nil || r.info.Class == wire.ClassRunning
	default:
		return false
	}
}

func (c *classCache) read(slot wire.Slot, r *classRead) {
	defer close(r.done)
	ctx, cancel := context.WithTimeout(context.Background(), classDeadline)
	defer cancel()
	r.info, r.err = datadir.Classify(ctx, c.exe, c.id, slot)
}

// fingerprint lists every file with size and time; "" for an absent directory.
func fingerprint(dir string) (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %d %d %s\n", path, st.Size(), st.ModTime().UnixNano(), st.Mode())
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
	}
	return b.String(), err
}

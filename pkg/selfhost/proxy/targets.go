package proxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// FileLastGood is the proxy's own copy, in the state directory, of the last
// targets file it took: what it starts from when the agent's is torn or older.
const FileLastGood = "targets.good.json"

// targetsFile follows the file the agent writes and puts each good version in force.
type targetsFile struct {
	path, good string
	log        *slog.Logger
	apply      func(wire.Targets)

	mu      sync.Mutex
	last    wire.Targets // in force; V is 0 while there is none
	problem string       // why the file is not what is in force, in words
}

func newTargetsFile(id wire.Identity, log *slog.Logger, apply func(wire.Targets)) *targetsFile {
	return &targetsFile{path: id.State(wire.FileTargets), good: id.State(FileLastGood), log: log, apply: apply}
}

// start puts the last good file in force, then looks at the agent's.
func (f *targetsFile) start() {
	ts, err := readTargets(f.good)
	switch {
	case err == nil:
		f.last = ts
		f.apply(ts)
	case !errors.Is(err, fs.ErrNotExist):
		f.log.Warn("last good targets not usable", "error", err)
	}
	f.load()
}

// readTargets reads and checks a targets file by itself.
func readTargets(path string) (ts wire.Targets, err error) {
	if err := durable.ReadJSON(path, wire.V, &ts); err != nil {
		return ts, err
	}
	if err := check(ts); err != nil {
		return ts, fmt.Errorf("%s: %w", path, err)
	}
	return ts, nil
}

func check(ts wire.Targets) error {
	if ts.ClusterID == 0 && len(ts.Targets) > 0 {
		return errors.New("no cluster ID is given, and targets cannot be told from strangers without")
	}
	seen := map[string]bool{}
	for _, t := range ts.Targets {
		if _, _, err := net.SplitHostPort(t.Address); err != nil {
			return fmt.Errorf("target of node %s: address %q is not host:port", t.Node, t.Address)
		}
		if t.Mode != wire.Serve && t.Mode != wire.Drain {
			return fmt.Errorf("target %s: mode %q is neither %s nor %s", t.Address, t.Mode, wire.Serve, wire.Drain)
		}
		if seen[t.Address] {
			return fmt.Errorf("target %s is listed twice", t.Address)
		}
		seen[t.Address] = true
	}
	return nil
}

// follows says whether ts may take the place of what is in force: an epoch and
// a serial never go back, and one serial has one content.
func (f *targetsFile) follows(ts wire.Targets) error {
	l := f.last
	switch {
	case l.V == 0:
		return nil
	case ts.Epoch < l.Epoch:
		return fmt.Errorf("%s: epoch goes back: found %d, in force is %d", f.path, ts.Epoch, l.Epoch)
	case ts.Serial < l.Serial:
		return fmt.Errorf("%s: serial goes back: found %d, in force is %d", f.path, ts.Serial, l.Serial)
	case ts.Serial == l.Serial && !reflect.DeepEqual(ts, l):
		return fmt.Errorf("%s: two contents under serial %d; each write needs a higher one", f.path, ts.Serial)
	}
	return nil
}

// load looks at the file once. What cannot be used changes nothing but the
// problem told by trouble.
func (f *targetsFile) load() {
	f.mu.Lock()
	defer f.mu.Unlock()
	ts, err := readTargets(f.path)
	if err == nil {
		err = f.follows(ts)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s does not exist; the agent writes it", f.path)
	}
	if err != nil {
		f.say(err.Error())
		return
	}
	if f.last.V != 0 && ts.Serial == f.last.Serial {
		f.say("")
		return
	}
	f.last = ts
	f.apply(ts)
	f.say("")
	if err := durable.WriteJSON(f.good, ts); err != nil {
		f.say("targets are in force but could not be kept for the next start: " + err.Error())
	}
}

// say records the problem and logs it when it is another one than before.
func (f *targetsFile) say(problem string) {
	if problem != "" && problem != f.problem {
		f.log.Warn("targets file", "problem", problem, "serial_in_force", f.last.Serial)
	}
	f.problem = problem
}

func (f *targetsFile) trouble() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problem
}

// watch loads the file at each change of it and every poll, until ctx ends. The
// directory is watched, since the file is replaced by rename; the poll covers
// what inotify cannot tell (and a watcher that could not be had).
func (f *targetsFile) watch(ctx context.Context, poll time.Duration) {
	var events <-chan fsnotify.Event
	var errs <-chan error
	w, err := fsnotify.NewWatcher()
	if err == nil {
		defer w.Close()
		err = w.Add(filepath.Dir(f.path))
		events, errs = w.Events, w.Errors
	}
	if err != nil {
		f.log.Warn("state directory is not watched, only polled", "error", err, "every", poll)
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	f.load() // what was written before the watch stood
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if e.Name == f.path && e.Op != fsnotify.Chmod {
				f.load()
			}
		case err := <-errs:
			f.log.Warn("watch of the state directory", "error", err)
			f.load()
		case <-tick.C:
			f.load()
		}
	}
}

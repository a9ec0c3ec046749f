package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent/child"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/proxy"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// slotsFormat is that of slots.json. 2: a restart under way names the boot, and
// an agent that does not look at it would take a later process for the old one.
// What version 1 wrote is the same, with the boot not known.
var slotsFormat = durable.Format{V: 2, Up: map[int]func(map[string]any) error{
	1: func(map[string]any) error { return nil },
}}

// formatOf is a state file's format; all but those named here are in their first.
func formatOf(name string) durable.Format {
	if name == wire.FileSlots {
		return slotsFormat
	}
	return durable.Format{V: wire.V}
}

// migrate brings the files that only the agent reads up to this release, each
// with its old copy kept. The state's lock is held. A file that processes of the
// release before may still read (identity, gates, targets) must not change in a
// way that needs this.
func (s *store) migrate() error {
	for _, name := range []string{wire.FileEpoch, wire.FileSpec, wire.FileFence, wire.FileSlots, wire.FileTombstones} {
		f := formatOf(name)
		kept, err := f.Migrate(s.id.State(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case kept != "":
			s.migrated = append(s.migrated, fmt.Sprintf("%s is now of format version %d, the old one is kept as %s", name, f.V, filepath.Base(kept)))
		}
	}
	return nil
}

// intentFor names the process pid of this boot.
func intentFor(pid int) *restartIntent {
	return &restartIntent{Boot: proxy.BootID(), PID: pid, Ticks: child.StartTicks(pid)}
}

// names says whether the intent is about the process that has pid now.
func (i *restartIntent) names(pid int) bool {
	if i.Boot != "" && i.Boot != proxy.BootID() {
		return false
	}
	return i.PID == pid && i.Ticks == child.StartTicks(pid)
}

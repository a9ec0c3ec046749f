package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// lockData makes this the only agent on the data directory, whatever its state
// directory: two would write each other's gates. Where something was recorded in
// a data directory that is not there, its filesystem is not mounted: nothing is
// made there and nothing locked (CASES L4), and unlock does nothing.
func lockData(id wire.Identity) (unlock func(), err error) {
	if _, err := os.Stat(id.DataDir); errors.Is(err, fs.ErrNotExist) {
		unmounted, err := recordedHere(id)
		if err != nil || unmounted {
			return func() {}, err
		}
		if err := durable.MkdirAll(id.DataDir, 0o700); err != nil {
			return nil, err
		}
	}
	lock, err := datadir.TryLock(filepath.Join(id.DataDir, wire.FileAgentLock))
	var held *datadir.Held
	if errors.As(err, &held) {
		return nil, &wire.Refusal{Name: "DataDirInUse", Node: id.Node.Name, Found: held.Error(), Cites: "CASES L6",
			Want: "one agent on one data directory; end that one, or use another --data-dir"}
	}
	if err != nil {
		return nil, err
	}
	return func() { lock.Close() }, nil
}

// recordedHere: the agent's own copies of the gates say that a slot held data.
func recordedHere(id wire.Identity) (bool, error) {
	for _, slot := range bothSlots {
		var g wire.GateFile
		err := durable.ReadJSON(member.GateCopy(id, slot), wire.V, &g)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if g.Recorded {
			return true, nil
		}
	}
	return false, nil
}

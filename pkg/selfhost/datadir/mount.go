package datadir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// OwnMount says whether the slot's directory is a filesystem of its own: it
// could neither be renamed into the attic nor be told from an unmounted one
// (CASES L5). False for a directory that is not there.
func OwnMount(id wire.Identity, slot wire.Slot) (bool, error) {
	dir, err := device(id.SlotDir(slot))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	parent, err := device(id.DataDir)
	return err == nil && dir != parent, err
}

func device(path string) (uint64, error) {
	st, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return st.Sys().(*syscall.Stat_t).Dev, nil
}

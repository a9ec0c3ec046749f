package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Note is ATTIC/NAME.json: what the directory ATTIC/NAME was when it was retired.
type Note struct {
	V         int        `json:"v"`
	Reason    string     `json:"reason"`
	Class     wire.Class `json:"class"`
	ClassNote string     `json:"classNote,omitempty"`
	Slot      wire.Slot  `json:"slot"`
	ClusterID wire.ID    `json:"clusterID"`
	MemberID  wire.ID    `json:"memberID"`
	LastTerm  uint64     `json:"lastTerm"`
	LastIndex uint64     `json:"lastIndex"`
	Revision  int64      `json:"revision"`
	From      string     `json:"from"`
	Time      time.Time  `json:"time"`
}

// Retire moves a slot's stopped directory into the attic (I3: nothing is
// deleted) and returns where it lies: ATTIC/TIME-SLOT-MEMBERID, with a Note
// beside it that is durable before the move. lock must be the slot's; info
// what Read said under it. Done again after a crash or success it finishes or
// finds the same entry: with the directory absent it returns the newest entry
// of info.MemberID, or "" if there never was one. After an error the directory
// is either where it was or in the attic, whole.
func Retire(lock *Lock, id wire.Identity, slot wire.Slot, info Info, reason string, now func() time.Time) (string, error) {
	if want := id.SlotLock(slot); lock == nil || lock.Path() != want {
		return "", fmt.Errorf("retire %s: the lock %s must be held", id.SlotDir(slot), want)
	}
	from := id.SlotDir(slot)
	notes, err := Notes(id)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return retired(id, notes, slot, info.MemberID), nil
	} else if err != nil {
		return "", fmt.Errorf("retire %s: %w", from, err)
	}
	if err := durable.MkdirAll(id.Attic(), 0o700); err != nil {
		return "", fmt.Errorf("make the attic: %w", err)
	}
	to, err := reserve(id, notes, Note{
		V: wire.V, Reason: reason, Class: info.Class, ClassNote: info.Reason, Slot: slot,
		ClusterID: info.ClusterID, MemberID: info.MemberID,
		LastTerm: info.LastTerm, LastIndex: info.LastIndex, Revision: info.Revision,
		From: from, Time: now().UTC(),
	})
	if err != nil {
		return "", err
	}
	if err := durable.Rename(from, to); err != nil {
		if errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EBUSY) {
			err = fmt.Errorf("%w: data directory and attic must lie on one filesystem, mounted at or above %s (CASES L5)", err, id.DataDir)
		}
		return "", fmt.Errorf("retire %s: %w", from, err)
	}
	return to, nil
}

// Notes reads the attic's notes by entry name; an absent attic has none.
func Notes(id wire.Identity) (map[string]Note, error) {
	paths, err := filepath.Glob(filepath.Join(id.Attic(), "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list the attic: %w", err)
	}
	notes := map[string]Note{}
	for _, p := range paths {
		var n Note
		if err := durable.ReadJSON(p, wire.V, &n); err != nil {
			return nil, fmt.Errorf("read an attic note: %w", err)
		}
		notes[strings.TrimSuffix(filepath.Base(p), ".json")] = n
	}
	return notes, nil
}

// retired finds the newest entry of the slot's member that really lies there.
func retired(id wire.Identity, notes map[string]Note, slot wire.Slot, member wire.ID) string {
	var best string
	for name, n := range notes {
		path := filepath.Join(id.Attic(), name)
		if n.Slot != slot || member == 0 || n.MemberID != member {
			continue
		}
		if _, err := os.Lstat(path); err == nil && path > best {
			best = path
		}
	}
	return best
}

// reserve writes the note and returns the directory's place; a note left by a
// crash before the move is used again.
func reserve(id wire.Identity, notes map[string]Note, n Note) (string, error) {
	for name, old := range notes {
		path := filepath.Join(id.Attic(), name)
		_, there := os.Lstat(path)
		_, going := os.Lstat(path + doomed)
		if !errors.Is(there, fs.ErrNotExist) || !errors.Is(going, fs.ErrNotExist) {
			continue
		}
		old.Time = n.Time
		if old == n {
			return path, nil
		}
	}
	member := "none"
	if n.MemberID != 0 {
		member = n.MemberID.String()
	}
	base := filepath.Join(id.Attic(), fmt.Sprintf("%s-%s-%s", n.Time.Format("20060102T150405Z"), n.Slot, member))
	path := base
	for i := 2; taken(path); i++ {
		path = fmt.Sprintf("%s-%d", base, i)
	}
	if err := durable.WriteJSON(path+".json", n); err != nil {
		return "", err
	}
	return path, nil
}

func taken(path string) bool {
	_, dir := os.Lstat(path)
	_, note := os.Lstat(path + ".json")
	return dir == nil || note == nil
}

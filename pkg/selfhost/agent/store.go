package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// store is what the agent knows durably. Every method that changes something
// has it on disk before it returns nil; after an error memory and disk hold
// the state of before, or a stricter gate (never a looser one), and a reopened
// store reads one of the two.
type store struct {
	id wire.Identity

	mu    sync.Mutex
	epoch wire.Epoch
	spec  *wire.Spec
	fence fenceFile
	slots slotsFile
	tombs []wire.Tombstone

	// migrated says, in words, which files openStore brought up to this release.
	migrated []string
}

type epochFile struct {
	V     int        `json:"v"`
	Epoch wire.Epoch `json:"epoch"`
}

type tombsFile struct {
	V          int              `json:"v"`
	Tombstones []wire.Tombstone `json:"tombstones"`
}

// slotsFile is STATE/slots.json.
type slotsFile struct {
	V     int                      `json:"v"`
	Slots map[wire.Slot]slotRecord `json:"slots"`
}

// slotRecord is what a slot is meant to be.
type slotRecord struct {
	// Wanted: the agent keeps it running. Never with Parked set.
	Wanted bool   `json:"wanted"`
	Parked string `json:"parked,omitempty"` // why
	// Assigned is the identity a driver gave the slot, or, for a seed, the one
	// its WAL got; zero: none yet.
	Assigned  wire.ID `json:"assigned"`
	ClusterID wire.ID `json:"clusterID"`
	// Recorded: a WAL of that identity was seen here.
	Recorded bool `json:"recorded,omitempty"`
	// Args are etcd's arguments of the last start; Binary the etcd that is
	// exec'd, empty for the embedded one.
	Args   []string `json:"args,omitempty"`
	Binary string   `json:"binary,omitempty"`
	// LateRestarts counts restart-late steps begun; Restart is the one under way.
	LateRestarts int            `json:"lateRestarts,omitempty"`
	Restart      *restartIntent `json:"restart,omitempty"`
}

// restartIntent names the process a restart must end before the next start, so
// that an agent that died in between finishes the same restart.
type restartIntent struct {
	// Boot is the kernel's boot ID: ticks count from the boot, so after another
	// one a new process may have number and ticks of the old. Empty in what
	// version 1 wrote: not known.
	Boot  string `json:"boot,omitempty"`
	PID   int    `json:"pid"`
	Ticks int64  `json:"ticks"` // child.StartTicks: a number alone is reused
}

func (r slotRecord) clone() slotRecord {
	r.Args = slices.Clone(r.Args)
	if r.Restart != nil {
		i := *r.Restart
		r.Restart = &i
	}
	return r
}

var bothSlots = []wire.Slot{wire.SlotSeed, wire.SlotMember}

// openStore reads everything; a missing file is the empty state of a node that
// was not told anything yet, an unreadable one an error (I10).
func openStore(id wire.Identity) (*store, error) {
	s := &store{id: id, slots: slotsFile{V: slotsFormat.V, Slots: map[wire.Slot]slotRecord{}}}
	var ep epochFile
	var sp wire.Spec
	var tb tombsFile
	if err := s.migrate(); err != nil {
		return nil, err
	}
	if _, err := readState(id, wire.FileEpoch, &ep); err != nil {
		return nil, err
	}
	s.epoch = ep.Epoch
	if found, err := readState(id, wire.FileSpec, &sp); err != nil {
		return nil, err
	} else if found {
		s.spec = &sp
	}
	if _, err := readState(id, wire.FileFence, &s.fence); err != nil {
		return nil, err
	}
	if _, err := readState(id, wire.FileSlots, &s.slots); err != nil {
		return nil, err
	}
	if s.slots.Slots == nil {
		s.slots.Slots = map[wire.Slot]slotRecord{}
	}
	if _, err := readState(id, wire.FileTombstones, &tb); err != nil {
		return nil, err
	}
	s.tombs = tb.Tombstones
	if err := s.finishAdoption(); err != nil {
		return nil, err
	}
	return s, s.reconcileGates()
}

func readState(id wire.Identity, name string, v any) (found bool, err error) {
	err = formatOf(name).Read(id.State(name), v)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// finishAdoption writes epoch and spec that a grant adopted and a crash left in fence.json alone.
func (s *store) finishAdoption() error {
	a := s.fence.Adopt
	if a == nil {
		return nil
	}
	if s.epoch.Number == 0 {
		if err := durable.WriteJSON(s.id.State(wire.FileEpoch), epochFile{V: wire.V, Epoch: a.Epoch}); err != nil {
			return err
		}
		s.epoch = a.Epoch
	}
	if s.spec == nil {
		if err := durable.WriteJSON(s.id.State(wire.FileSpec), a.Spec); err != nil {
			return err
		}
		sp := a.Spec
		s.spec = &sp
	}
	return nil
}

// setFence stores number and holder, and with them what Adopt holds.
func (s *store) setFence(f fenceFile) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.V = wire.V
	if err := durable.WriteJSON(s.id.State(wire.FileFence), f); err != nil {
		return err
	}
	s.fence = f
	if err := s.finishAdoption(); err != nil {
		return err
	}
	return s.writeGates()
}

// setEpoch records IDs of the current epoch.
func (s *store) setEpoch(e wire.Epoch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := durable.WriteJSON(s.id.State(wire.FileEpoch), epochFile{V: wire.V, Epoch: e}); err != nil {
		return err
	}
	s.epoch = e
	return s.writeGates()
}

func (s *store) setSpec(sp wire.Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := durable.WriteJSON(s.id.State(wire.FileSpec), sp); err != nil {
		return err
	}
	s.spec = &sp
	return nil
}

// setSlot replaces a slot's record: the stricter of the old and new gate
// first, then the record, then the new gate. A crash in between leaves a slot
// that starts less, never more, than was decided.
func (s *store) setSlot(slot wire.Slot, r slotRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, next := s.gateOf(slot, s.slots.Slots[slot]), s.gateOf(slot, r)
	if err := s.writeGate(slot, stricter(old, next)); err != nil {
		return err
	}
	f := slotsFile{V: slotsFormat.V, Slots: map[wire.Slot]slotRecord{}}
	for k, v := range s.slots.Slots {
		f.Slots[k] = v
	}
	f.Slots[slot] = r
	if err := durable.WriteJSON(s.id.State(wire.FileSlots), f); err != nil {
		return err
	}
	s.slots = f
	return s.writeGate(slot, next)
}

// setTombstone records t (one per cluster and member). A final one is at the
// gate before it is in the records. A final one never goes back.
func (s *store) setTombstone(t wire.Tombstone) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tombs := slices.Clone(s.tombs)
	i := slices.IndexFunc(tombs, func(o wire.Tombstone) bool { return o.ClusterID == t.ClusterID && o.MemberID == t.MemberID })
	switch {
	case i < 0:
		tombs = append(tombs, t)
	case sameTomb(tombs[i], t):
		return nil
	case tombs[i].Phase == wire.TombFinal:
		return &wire.Refusal{Name: "TombstoneFinal", Node: t.Node, Found: "member " + t.MemberID.String() + " was removed: " + tombs[i].Why, Want: "no change of a final tombstone"}
	default:
		tombs[i] = t
	}
	before := s.tombs
	s.tombs = tombs
	if err := s.writeGates(); err != nil {
		s.tombs = before
		return err
	}
	if err := durable.WriteJSON(s.id.State(wire.FileTombstones), tombsFile{V: wire.V, Tombstones: tombs}); err != nil {
		s.tombs = before
		return err
	}
	return nil
}

func sameTomb(a, b wire.Tombstone) bool {
	a.Time, b.Time = time.Time{}, time.Time{}
	return a == b
}

// Reads return copies.

func (s *store) slot(slot wire.Slot) slotRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots.Slots[slot].clone()
}

func (s *store) view() (wire.Epoch, *wire.Spec, []wire.Tombstone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sp *wire.Spec
	if s.spec != nil {
		c := *s.spec
		c.Nodes = slices.Clone(c.Nodes)
		sp = &c
	}
	return s.epoch, sp, slices.Clone(s.tombs)
}

func (s *store) finalTomb(cluster, member wire.ID) (wire.Tombstone, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tombs {
		if t.Phase == wire.TombFinal && t.MemberID == member && (t.ClusterID == cluster || cluster == 0 || t.ClusterID == 0) {
			return t, true
		}
	}
	return wire.Tombstone{}, false
}

// WriteIdentity stores identity.json; a different one that is there is refused.
func WriteIdentity(id wire.Identity) error {
	id.V = wire.V
	path := id.State(wire.FileIdentity)
	var have wire.Identity
	err := durable.ReadJSON(path, wire.V, &have)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if fmt.Sprintf("%+v", have) == fmt.Sprintf("%+v", id) {
			return nil
		}
		return fmt.Errorf("%s already holds the identity of node %s at %s, data in %s: it is written once; use another --state-dir, or move this one away", path, have.Node.Name, have.Node.Address, have.DataDir)
	}
	if err := durable.MkdirAll(id.StateDir, 0o700); err != nil {
		return err
	}
	return durable.WriteJSON(path, id)
}

// ReadIdentity reads identity.json of a state directory.
func ReadIdentity(stateDir string) (wire.Identity, error) {
	var id wire.Identity
	path := wire.Identity{StateDir: stateDir}.State(wire.FileIdentity)
	if err := durable.ReadJSON(path, wire.V, &id); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return id, &notSetUp{path}
		}
		return id, err
	}
	return id, nil
}

// notSetUp is a state directory without an identity; it is fs.ErrNotExist.
type notSetUp struct{ path string }

func (e *notSetUp) Is(target error) bool { return target == fs.ErrNotExist }

func (e *notSetUp) Error() string {
	return e.path + " is missing: no node was set up here, or --state-dir is another; a first node begins with `bootstrap init`, a further one with `bootstrap agent --bundle FILE`"
}

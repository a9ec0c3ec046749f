package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// gateOf is the gate that follows from a record. Caller holds s.mu.
func (s *store) gateOf(slot wire.Slot, r slotRecord) wire.GateFile {
	g := wire.GateFile{V: wire.V, Epoch: s.epoch, Parked: r.Parked, Assigned: r.Assigned, ClusterID: r.ClusterID, Recorded: r.Recorded}
	for _, t := range s.tombs {
		if t.Node == s.id.Node.Name && t.Slot == slot {
			g.Tombstones = append(g.Tombstones, t)
		}
	}
	return g
}

// stricter allows only what both old and next allow; identity is next's, since
// two cannot be held at once and a change of it comes parked or stopped.
func stricter(old, next wire.GateFile) wire.GateFile {
	g := next
	if g.Parked == "" {
		g.Parked = old.Parked
	}
	if old.Recorded && !next.Recorded {
		g.Recorded, g.Assigned, g.ClusterID = true, old.Assigned, old.ClusterID
	}
	return g
}

// writeGate writes both files where they differ from g, the agent's copy
// first (member.WriteGate says why; the start gate takes the stricter of the
// two). Where something was recorded in a data directory whose parent is gone,
// its filesystem is not mounted: nothing is made there (CASES L4). Caller
// holds s.mu.
func (s *store) writeGate(slot wire.Slot, g wire.GateFile) error {
	for _, path := range []string{member.GateCopy(s.id, slot), s.id.SlotGate(slot)} {
		var have wire.GateFile
		if err := durable.ReadJSON(path, wire.V, &have); err == nil && sameJSON(have, g) {
			continue
		}
		if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) && (g.Recorded || s.recorded()) {
			continue
		}
		if err := durable.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := durable.WriteJSON(path, g); err != nil {
			return err
		}
	}
	return nil
}

// recorded: some slot of this node holds data. Caller holds s.mu.
func (s *store) recorded() bool {
	for _, r := range s.slots.Slots {
		if r.Recorded {
			return true
		}
	}
	return false
}

// writeGates brings every slot's gate up to the records. Caller holds s.mu.
func (s *store) writeGates() error {
	for _, slot := range bothSlots {
		if err := s.writeGate(slot, s.gateOf(slot, s.slots.Slots[slot])); err != nil {
			return err
		}
	}
	return nil
}

// unknownSlot: this state never had to do with the slot. Where the gate beside the
// directory knows more, the state is a new one (a node made anew, its data disk
// kept): what is recorded there is taken over, never overwritten (CASES L4).
func unknownSlot(r slotRecord) bool {
	return !r.Wanted && r.Parked == "" && r.Assigned == 0 && len(r.Args) == 0
}

// reconcileGates is run at open. Where a gate file says parked and the record
// does not, a write was cut short: the strict word stands, and the next driver
// that wants the slot starts it again. Everything else follows the records.
func (s *store) reconcileGates() error {
	for _, slot := range bothSlots {
		r := s.slots.Slots[slot]
		unknown := unknownSlot(r)
		for _, path := range []string{s.id.SlotGate(slot), member.GateCopy(s.id, slot)} {
			var g wire.GateFile
			err := durable.ReadJSON(path, wire.V, &g)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err == nil && g.Parked != "" && r.Parked == "" {
				r.Parked, r.Wanted = g.Parked, false
			}
			if err == nil && g.Recorded && unknown && !r.Recorded {
				r.Assigned, r.ClusterID, r.Recorded = g.Assigned, g.ClusterID, true
			}
		}
		if r.Parked != s.slots.Slots[slot].Parked || r.Recorded != s.slots.Slots[slot].Recorded {
			if err := s.setSlot(slot, r); err != nil {
				return err
			}
		}
	}
	return s.writeGates()
}

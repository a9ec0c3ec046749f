package member

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// GateCopy is the agent's copy of a slot's gate file, in its state directory.
func GateCopy(id wire.Identity, slot wire.Slot) string {
	return id.State("gate-" + string(slot) + ".json")
}

// ReadGates reads the gate file beside the directory and the agent's copy; nil
// for one that does not exist. An unreadable one is an error (I10).
func ReadGates(id wire.Identity, slot wire.Slot) (beside, kept *wire.GateFile, err error) {
	if beside, err = readGate(id.SlotGate(slot)); err != nil {
		return nil, nil, err
	}
	if kept, err = readGate(GateCopy(id, slot)); err != nil {
		return nil, nil, err
	}
	return beside, kept, nil
}

func readGate(path string) (*wire.GateFile, error) {
	g := &wire.GateFile{}
	err := durable.ReadJSON(path, wire.V, g)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the start gate: %w", err)
	}
	return g, nil
}

// WriteGate writes both: the agent's copy first, so that after a crash between
// the two the pair differs and the stricter counts. Done again it completes.
// The data directory's parent is made if missing.
func WriteGate(id wire.Identity, slot wire.Slot, g wire.GateFile) error {
	g.V = wire.V
	if err := durable.WriteJSON(GateCopy(id, slot), g); err != nil {
		return err
	}
	if err := durable.MkdirAll(id.DataDir, 0o700); err != nil {
		return err
	}
	return durable.WriteJSON(id.SlotGate(slot), g)
}

// Stricter joins the two gate files: the higher epoch and promise, parked if
// either says so, recorded if either does, every tombstone with its furthest
// phase. nil for both is nil. A refusal where they name different identities.
func Stricter(beside, kept *wire.GateFile) (*wire.GateFile, *wire.Refusal) {
	if beside == nil || kept == nil {
		if beside == nil {
			return kept, nil
		}
		return beside, nil
	}
	g := *beside
	if kept.Epoch.Number > g.Epoch.Number || g.Epoch.ClusterID == 0 && kept.Epoch.Number == g.Epoch.Number {
		g.Epoch = kept.Epoch
	}
	g.Promised = max(g.Promised, kept.Promised)
	if g.Parked == "" {
		g.Parked = kept.Parked
	}
	g.Recorded = g.Recorded || kept.Recorded
	for _, f := range []struct{ mine, theirs *wire.ID }{{&g.Assigned, &kept.Assigned}, {&g.ClusterID, &kept.ClusterID}} {
		if *f.mine == 0 {
			*f.mine = *f.theirs
		}
		if *f.theirs != 0 && *f.theirs != *f.mine {
			return nil, &wire.Refusal{Name: "GateDisagrees",
				Found: fmt.Sprintf("member %s of cluster %s beside the directory, member %s of cluster %s in the agent's state", beside.Assigned, beside.ClusterID, kept.Assigned, kept.ClusterID),
				Want:  "one identity in both; the agent writes them again when it starts", Cites: "DESIGN, Lock and gate"}
		}
	}
	g.Tombstones = append(append([]wire.Tombstone(nil), beside.Tombstones...), kept.Tombstones...)
	return &g, nil
}

// finalTombstone finds a final tombstone of the member.
func finalTombstone(g *wire.GateFile, cluster, member wire.ID) *wire.Tombstone {
	for i, t := range g.Tombstones {
		if t.Phase == wire.TombFinal && t.MemberID == member && (t.ClusterID == cluster || t.ClusterID == 0) {
			return &g.Tombstones[i]
		}
	}
	return nil
}

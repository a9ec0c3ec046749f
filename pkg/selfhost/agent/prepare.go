package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Initial is what `bootstrap init` decides for a first node.
type Initial struct {
	Identity wire.Identity
	// Spec asks for the seed on this node; its rank is set here (epoch 1).
	Spec wire.Spec
	// SeedToken is the cluster token (member.NewToken): unique, so that the seed's IDs are.
	SeedToken string
	// EtcdVersion is that of Spec.EtcdBinary; empty for the embedded etcd.
	EtcdVersion string
}

// FilesOf lists what Prepare writes, for a dry run.
func (in Initial) FilesOf() []string {
	id := in.Identity
	return []string{id.State(wire.FileIdentity), id.State(wire.FileEpoch), id.State(wire.FileSpec), id.State(wire.FileSlots),
		member.GateCopy(id, wire.SlotSeed), id.SlotGate(wire.SlotSeed), member.GateCopy(id, wire.SlotMember), id.SlotGate(wire.SlotMember)}
}

// Prepare writes the state of a first node: epoch 1 without IDs, the spec, and
// the seed wanted with state new. The agent that starts on it starts the seed.
// Done again after a crash it completes, keeping the first token; a node that
// has a cluster already, or data in either slot, is refused by name (CASES L3).
func Prepare(in Initial) error {
	if err := WriteIdentity(in.Identity); err != nil {
		return err
	}
	id := in.Identity
	lock, err := lockState(id)
	if err != nil {
		return err
	}
	defer lock.Close()
	unlock, err := lockData(id)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := openStore(id)
	if err != nil {
		return err
	}
	if s.slot(wire.SlotSeed).Wanted && s.epoch.Number == 1 && s.spec != nil {
		return nil
	}
	if s.epoch.Number > 1 || s.epoch.ClusterID != 0 || s.fence.Number != 0 {
		return &wire.Refusal{Name: "AlreadyInitialized", Node: id.Node.Name, Cites: "CASES L3",
			Found: fmt.Sprintf("%s in %s", epochString(s.epoch), id.StateDir), Want: "a node that belongs to no cluster yet"}
	}
	for _, slot := range bothSlots {
		if err := nothingIn(id, slot); err != nil {
			return err
		}
	}
	sp := in.Spec
	sp.V, sp.Epoch, sp.Fence, sp.Count = wire.V, 1, 0, 1
	args, err := member.Args(id, sp, wire.SlotSeed, member.StartInfo{Epoch: 1, State: member.StateNew, Token: in.SeedToken, EtcdVersion: in.EtcdVersion})
	if err != nil {
		return err
	}
	if err := s.setSpec(sp); err != nil {
		return err
	}
	if err := s.setEpoch(wire.Epoch{Number: 1}); err != nil {
		return err
	}
	return s.setSlot(wire.SlotSeed, slotRecord{Wanted: true, Args: args, Binary: sp.EtcdBinary})
}

func nothingIn(id wire.Identity, slot wire.Slot) error {
	dir := id.SlotDir(slot)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return &wire.Refusal{Name: "DirectoryNotEmpty", Node: id.Node.Name, Cites: "CASES L3",
		Found: fmt.Sprintf("%s holds %d entries, the first %q", dir, len(entries), entries[0].Name()), Want: "an absent or empty directory"}
}

// WriteBundleState makes the state directory of a further node: its identity
// and nothing else. Epoch and spec come with the first grant.
func WriteBundleState(id wire.Identity) error {
	if err := durable.MkdirAll(id.State(wire.DirLogs), 0o700); err != nil {
		return err
	}
	return WriteIdentity(id)
}

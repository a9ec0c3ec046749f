package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent/journal"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// fullState is a state directory with every file an agent writes.
func fullState(t *testing.T) wire.Identity {
	t.Helper()
	id := testIdentity(t.TempDir())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(WriteIdentity(id))
	s := openTest(t, id)
	sp := wire.Spec{V: wire.V, Epoch: 1, Fence: 3, Count: 1, Target: wire.TargetMembers, Nodes: []wire.NodeRef{id.Node}, Ports: id.Ports}
	must(s.setFence(fenceFile{Number: 3, Holder: "h", HolderName: "pivot on cp-1", Adopt: &adoption{Epoch: wire.Epoch{Number: 1, SeedID: 1, ClusterID: 2}, Spec: sp}}))
	for _, slot := range bothSlots {
		must(s.setSlot(slot, slotRecord{Wanted: true, Assigned: 7, ClusterID: 2, Recorded: true, Args: []string{"--name=cp-1"}}))
	}
	must(s.setTombstone(wire.Tombstone{ClusterID: 2, MemberID: 9, Node: id.Node.Name, Slot: wire.SlotSeed, Phase: wire.TombFinal, Why: "pivot", Time: time.Now()}))
	must((&Agent{id: id, store: s}).writeTargets(2, []wire.ProxyTarget{{Node: "cp-1", Slot: wire.SlotMember, MemberID: 7, Address: "127.0.0.11:2379", Mode: wire.Serve}}, "boot"))
	j, err := journal.Open(id.State(wire.FileJournal), "cp-1")
	must(err)
	must(j.Append(wire.JournalEntry{Step: "AgentStart", Outcome: "ok"}))
	must(j.Close())
	return id
}

// Every state file, cut at every byte of its last write and zeroed from there
// on: an error that names the file, never an empty or half-read state (I10).
// The journal alone is appended to, and has a test of its own for that.
func TestEveryStateFileTornAtEveryByte(t *testing.T) {
	id := fullState(t)
	store := func() error { _, err := openStore(id); return err }
	readers := map[string]func() error{
		wire.FileIdentity: func() error { _, err := ReadIdentity(id.StateDir); return err },
		wire.FileEpoch:    store, wire.FileSpec: store, wire.FileFence: store, wire.FileSlots: store, wire.FileTombstones: store,
		wire.FileTargets: func() error { _, _, err := (&Agent{id: id}).readTargets(); return err },
	}
	paths := map[string]string{}
	for name := range readers {
		paths[name] = id.State(name)
	}
	for _, slot := range bothSlots {
		for _, path := range []string{member.GateCopy(id, slot), id.SlotGate(slot)} {
			name := filepath.Base(path)
			paths[name] = path
			readers[name] = func() error { _, _, err := member.ReadGates(id, slot); return err }
		}
	}
	for name, path := range paths {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		broken := func(what string, n int, b []byte) {
			t.Helper()
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := readers[name](); err == nil || !strings.Contains(err.Error(), name) {
				t.Fatalf("%s, %s %d: %v", name, what, n, err)
			}
		}
		for n := range len(whole) - 1 { // the last byte is a line break, and nothing hangs on it
			broken("cut at", n, whole[:n])
			broken("zeros from", n, append(append([]byte{}, whole[:n]...), make([]byte, len(whole)-n)...))
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := readers[name](); err != nil {
			t.Fatalf("%s as it was: %v", name, err)
		}
	}
	// Nothing but these and the journal is kept: a new kind of file wants its place in this test.
	known := map[string]bool{wire.FileJournal: true, wire.DirLogs: true, wire.FileAgentLock: true}
	entries, err := os.ReadDir(id.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !known[e.Name()] && paths[e.Name()] == "" {
			t.Errorf("%s is not torn by this test", e.Name())
		}
	}
}

// What was cut short beside a file, its temporary copy, disturbs nothing.
func TestTemporaryFilesAreNoState(t *testing.T) {
	id := fullState(t)
	for _, name := range []string{wire.FileEpoch, wire.FileSlots, wire.FileTombstones} {
		if err := os.WriteFile(filepath.Join(id.StateDir, "."+name+"123456"), []byte(`{"v":`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := openTest(t, id).slot(wire.SlotMember); !r.Wanted || r.Assigned != 7 {
		t.Errorf("%+v", r)
	}
}

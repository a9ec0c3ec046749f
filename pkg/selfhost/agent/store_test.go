package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func testIdentity(dir string) wire.Identity {
	return wire.Identity{V: wire.V, Node: wire.NodeRef{Name: "cp-1", Address: "127.0.0.11"}, Ports: wire.DefaultPorts,
		DataDir: filepath.Join(dir, "etcd"), StateDir: filepath.Join(dir, "state"), PKIDir: filepath.Join(dir, "pki", "etcd")}
}

func openTest(t *testing.T, id wire.Identity) *store {
	t.Helper()
	if err := os.MkdirAll(id.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := openStore(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// gate is what the start gate would read now.
func gate(t *testing.T, id wire.Identity, slot wire.Slot) wire.GateFile {
	t.Helper()
	beside, kept, err := member.ReadGates(id, slot)
	if err != nil {
		t.Fatal(err)
	}
	g, r := member.Stricter(beside, kept)
	if r != nil {
		t.Fatal(r)
	}
	if g == nil {
		return wire.GateFile{}
	}
	return *g
}

// failing makes the write of path fail: its temporary file lands in a
// directory that takes the name of the file.
func failing(t *testing.T, path string) (repair func()) {
	t.Helper()
	saved := path + ".saved"
	had := os.Rename(path, saved) == nil
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if had {
			if err := os.Rename(saved, path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

var errPower = errors.New("power cut")

// Every change of a slot, cut off at each of its writes: what a reopened store
// and its gate say is the state of before or of after, or parked; a slot is
// never startable in a way neither allows.
func TestSlotCutAtEveryWrite(t *testing.T) {
	base := slotRecord{Wanted: true, Assigned: 0xa, ClusterID: 0xc, Recorded: true, Args: []string{"--name=cp-1"}}
	parked := base
	parked.Wanted, parked.Parked = false, "stopped"
	retired := slotRecord{Parked: "retired"}
	joined := slotRecord{Wanted: true, Assigned: 0xb, ClusterID: 0xc, Args: []string{"--name=cp-1"}}
	for _, tc := range []struct {
		name         string
		before, next slotRecord
	}{
		{"park", base, parked}, {"unpark", parked, base}, {"retire", parked, retired}, {"join", retired, joined}, {"first start", slotRecord{}, joined},
	} {
		for _, file := range []string{"copy", "beside", "slots"} {
			t.Run(tc.name+" without "+file, func(t *testing.T) {
				id := testIdentity(t.TempDir())
				s := openTest(t, id)
				if err := s.setSlot(wire.SlotMember, tc.before); err != nil {
					t.Fatal(err)
				}
				path := map[string]string{"copy": member.GateCopy(id, wire.SlotMember), "beside": id.SlotGate(wire.SlotMember), "slots": id.State(wire.FileSlots)}[file]
				repair := failing(t, path)
				err := s.setSlot(wire.SlotMember, tc.next)
				repair()
				if err == nil {
					t.Fatalf("%v expected", errPower)
				}
				between := gate(t, id, wire.SlotMember) // the gate while the agent is down
				if between.Parked == "" && tc.before.Parked != "" {
					t.Errorf("open although the record says parked: %+v", between)
				}
				got := openTest(t, id).slot(wire.SlotMember)
				after := gate(t, id, wire.SlotMember)
				if got.Parked != after.Parked || got.Assigned != after.Assigned || got.Recorded != after.Recorded {
					t.Errorf("record %+v and gate %+v differ", got, after)
				}
				if s := fmt.Sprintf("%+v", got); got.Parked == "" && s != fmt.Sprintf("%+v", tc.before) && s != fmt.Sprintf("%+v", tc.next) {
					t.Errorf("neither before nor after: %+v", got)
				}
				if got.Wanted && got.Parked != "" {
					t.Errorf("wanted and parked: %+v", got)
				}
			})
		}
	}
}

// The grant's one write adopts epoch and spec; cut off before either of the
// files made from it, the next open finishes.
func TestAdoptionIsOneWrite(t *testing.T) {
	f := fenceFile{Number: 4, Holder: "a", Adopt: &adoption{Epoch: wire.Epoch{Number: 2, ClusterID: 0xc}, Spec: wire.Spec{V: 1, Epoch: 2, Count: 9}}}
	for _, file := range []string{wire.FileEpoch, wire.FileSpec, wire.FileFence} {
		t.Run("without "+file, func(t *testing.T) {
			id := testIdentity(t.TempDir())
			s := openTest(t, id)
			repair := failing(t, id.State(file))
			err := s.setFence(f)
			repair()
			if err == nil {
				t.Fatal(errPower)
			}
			epoch, spec, _ := openTest(t, id).view()
			if adopted := file != wire.FileFence; (epoch.Number == 2) != adopted || (spec != nil) != adopted {
				t.Errorf("epoch %+v spec %+v", epoch, spec)
			}
			if s := openTest(t, id); (s.fence.Number == 4) != (file != wire.FileFence) {
				t.Errorf("fence %+v", s.fence)
			}
		})
	}
}

func TestTombstones(t *testing.T) {
	id := testIdentity(t.TempDir())
	s := openTest(t, id)
	tomb := wire.Tombstone{ClusterID: 0xc, MemberID: 0xa, Node: "cp-1", Slot: wire.SlotSeed, Phase: wire.TombIntended, Why: "pivot", Time: time.Unix(7, 0).UTC()}
	other := wire.Tombstone{ClusterID: 0xc, MemberID: 0xb, Node: "cp-2", Slot: wire.SlotMember, Phase: wire.TombFinal}
	final := tomb
	final.Phase = wire.TombFinal
	for _, x := range []wire.Tombstone{tomb, other, final, final} {
		if err := s.setTombstone(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.setTombstone(tomb); err == nil || !strings.Contains(err.Error(), "TombstoneFinal") {
		t.Errorf("a final tombstone went back: %v", err)
	}
	s = openTest(t, id)
	if _, _, tombs := s.view(); len(tombs) != 2 || tombs[0] != final {
		t.Errorf("%+v", tombs)
	}
	if g := gate(t, id, wire.SlotSeed); len(g.Tombstones) == 0 || g.Tombstones[0].Phase != wire.TombFinal {
		t.Errorf("gate %+v", g)
	}
	if g := gate(t, id, wire.SlotMember); len(g.Tombstones) != 0 {
		t.Errorf("another node's tombstone at this gate: %+v", g)
	}
	if _, dead := s.finalTomb(0xc, 0xa); !dead {
		t.Error("not found")
	}
}

// What cannot be read is an error that names the file, never an empty state.
func TestUnreadableState(t *testing.T) {
	for _, name := range []string{wire.FileEpoch, wire.FileSpec, wire.FileFence, wire.FileSlots, wire.FileTombstones, "gate-member.json"} {
		for _, content := range []string{"", "{", `{"v":0}`, `{"v":99}`} {
			id := testIdentity(t.TempDir())
			openTest(t, id)
			if err := os.WriteFile(id.State(name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := openStore(id); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s with %q: %v", name, content, err)
			}
		}
	}
}

func TestIdentityIsWrittenOnce(t *testing.T) {
	id := testIdentity(t.TempDir())
	for range 2 {
		if err := WriteIdentity(id); err != nil {
			t.Fatal(err)
		}
	}
	id.Node.Name = "cp-2"
	if err := WriteIdentity(id); err == nil || !strings.Contains(err.Error(), "cp-1") {
		t.Errorf("%v", err)
	}
}

// Prepare refuses data that is there (CASES L3) and a node with a cluster.
func TestPrepareRefuses(t *testing.T) {
	id := testIdentity(t.TempDir())
	in := Initial{Identity: id, SeedToken: "t", Spec: wire.Spec{Target: wire.TargetSeed, Nodes: []wire.NodeRef{id.Node}, Ports: id.Ports}}
	if err := os.MkdirAll(filepath.Join(id.SlotDir(wire.SlotMember), "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(in); err == nil || !strings.Contains(err.Error(), "DirectoryNotEmpty") {
		t.Errorf("%v", err)
	}
	if s := openTest(t, id); s.epoch.Number != 0 || s.slot(wire.SlotSeed).Wanted {
		t.Errorf("a refusal left %+v", s.slots)
	}
	if err := openTest(t, id).setFence(fenceFile{Number: 1, Holder: "a", Adopt: &adoption{Epoch: wire.Epoch{Number: 3}, Spec: wire.Spec{V: 1}}}); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(in); err == nil || !strings.Contains(err.Error(), "AlreadyInitialized") {
		t.Errorf("%v", err)
	}
}

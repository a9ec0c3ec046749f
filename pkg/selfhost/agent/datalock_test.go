package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// A state directory made anew over a data disk that was kept: what the gates
// beside the directories say is taken over, and the second state starts nothing
// that the first would not (CASES L4).
func TestGateOfAnotherStateIsTakenOver(t *testing.T) {
	id := testIdentity(t.TempDir())
	first := openTest(t, id)
	known := slotRecord{Wanted: true, Assigned: 0xa, ClusterID: 0xc, Recorded: true, Args: []string{"--name=cp-1"}}
	if err := first.setSlot(wire.SlotMember, known); err != nil {
		t.Fatal(err)
	}
	anew := id
	anew.StateDir = filepath.Join(t.TempDir(), "state")
	for range 2 {
		r := openTest(t, anew).slot(wire.SlotMember)
		if r.Wanted || r.Assigned != 0xa || r.ClusterID != 0xc || !r.Recorded {
			t.Fatalf("taken over: %+v", r)
		}
		if g := gate(t, anew, wire.SlotMember); !g.Recorded || g.Assigned != 0xa {
			t.Fatalf("the gate was opened: %+v", g)
		}
	}
	// The first state goes on as before.
	if r := openTest(t, id).slot(wire.SlotMember); !r.Wanted || r.Assigned != 0xa {
		t.Errorf("the first state: %+v", r)
	}
}

// One data directory has one agent, whatever its state directory; where the
// disk of a recorded member is not mounted, nothing is made in its place.
func TestLockData(t *testing.T) {
	id := testIdentity(t.TempDir())
	unlock, err := lockData(id)
	if err != nil {
		t.Fatal(err)
	}
	other := id
	other.StateDir = filepath.Join(t.TempDir(), "state")
	if _, err := lockData(other); err == nil || !strings.Contains(err.Error(), "DataDirInUse") || !strings.Contains(err.Error(), "pid ") {
		t.Errorf("a second agent: %v", err)
	}
	unlock()
	if unlock, err = lockData(other); err != nil {
		t.Fatalf("once it is free: %v", err)
	}
	unlock()

	if err := os.MkdirAll(id.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := member.WriteGate(id, wire.SlotMember, wire.GateFile{Recorded: true, Assigned: 1, ClusterID: 2}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(id.DataDir, id.DataDir+".away"); err != nil {
		t.Fatal(err)
	}
	if unlock, err = lockData(id); err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := os.Stat(id.DataDir); !os.IsNotExist(err) {
		t.Errorf("made in place of a disk that is not mounted: %v", err)
	}
}

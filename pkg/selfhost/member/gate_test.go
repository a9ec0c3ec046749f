package member_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

const (
	me      wire.ID = 0xa1
	other   wire.ID = 0xb2
	cluster wire.ID = 0xc3
)

// good is the gate of a recorded member; with changes it.
func good(change ...func(*wire.GateFile)) *wire.GateFile {
	g := &wire.GateFile{V: wire.V, Epoch: wire.Epoch{Number: 2, SeedID: 0xee, ClusterID: cluster}, Assigned: me, ClusterID: cluster, Recorded: true}
	for _, c := range change {
		c(g)
	}
	return g
}

func promise(n uint64) func(*wire.GateFile) { return func(g *wire.GateFile) { g.Promised = n } }
func park(why string) func(*wire.GateFile)  { return func(g *wire.GateFile) { g.Parked = why } }
func epoch(n uint64) func(*wire.GateFile)   { return func(g *wire.GateFile) { g.Epoch.Number = n } }
func unrecorded(g *wire.GateFile)           { g.Recorded = false }
func assigned(m, c wire.ID) func(*wire.GateFile) {
	return func(g *wire.GateFile) { g.Assigned, g.ClusterID = m, c }
}
func tomb(m, c wire.ID, phase wire.TombPhase) func(*wire.GateFile) {
	return func(g *wire.GateFile) {
		g.Tombstones = append(g.Tombstones, wire.Tombstone{ClusterID: c, MemberID: m, Phase: phase, Why: "replaced"})
	}
}
func fresh(g *wire.GateFile) { *g = wire.GateFile{V: wire.V, Epoch: wire.Epoch{Number: 1}} }

func whole(m, c wire.ID) datadir.Info {
	return datadir.Info{Dir: "/var/lib/etcd/data", Class: wire.ClassWhole, MemberID: m, ClusterID: c, Revision: 77}
}

func class(c wire.Class, reason string) datadir.Info {
	return datadir.Info{Dir: "/var/lib/etcd/data", Class: c, Reason: reason}
}

func TestGate(t *testing.T) {
	join := []string{"--name=cp-1", "--initial-cluster=cp-1=https://10.0.0.1:2380,cp-2=https://10.0.0.2:2380", "--initial-cluster-state=existing"}
	fromNew := []string{"--name=s", "--initial-cluster=s=https://10.0.0.1:12380", "--initial-cluster-token=epoch-1-x", "--initial-cluster-state=new"}
	restart := []string{"--name=cp-1", "--initial-cluster-state=existing"}
	made, madeCluster, err := member.NewIDs("s", "s=https://10.0.0.1:12380", "epoch-1-x")
	if err != nil {
		t.Fatal(err)
	}
	removed := whole(me, cluster)
	removed.SelfRemoved = true
	for _, c := range []struct {
		name         string
		beside, kept *wire.GateFile
		info         datadir.Info
		args         []string
		refusal      string // empty: may start
		says         string
	}{
		{name: "whole and recorded just starts (I9)", beside: good(), kept: good(), info: whole(me, cluster), args: restart},
		{name: "whole, agent's copy lost", beside: good(), info: whole(me, cluster), args: restart},
		{name: "whole, join arguments do not matter", beside: good(), info: whole(me, cluster), args: join},
		{name: "absent joins", beside: good(unrecorded), kept: good(unrecorded), info: class(wire.ClassAbsent, ""), args: join},
		{name: "empty joins", beside: good(unrecorded), info: class(wire.ClassEmpty, ""), args: join},
		{name: "first seed, no gate yet", info: class(wire.ClassAbsent, ""), args: fromNew},
		{name: "first seed", beside: good(fresh), kept: good(fresh), info: class(wire.ClassAbsent, ""), args: fromNew},
		{name: "seed made by these arguments, not yet recorded", beside: good(fresh), info: whole(made, madeCluster), args: fromNew},
		{name: "the same without any gate file", info: whole(made, madeCluster), args: fromNew},

		{name: "promised", beside: good(promise(3)), kept: good(), info: whole(me, cluster), args: restart, refusal: "Promised", says: "epoch 3 while the adopted one is 2"},
		{name: "promised in the copy alone", beside: good(), kept: good(promise(3)), info: whole(me, cluster), args: restart, refusal: "Promised"},
		{name: "promise adopted", beside: good(promise(2)), kept: good(promise(2)), info: whole(me, cluster), args: restart},
		{name: "promise adopted in one, still open in the other", beside: good(promise(3), epoch(3)), kept: good(promise(3)), info: whole(me, cluster), args: restart},
		{name: "parked", beside: good(park("pivot done")), kept: good(), info: whole(me, cluster), args: restart, refusal: "Parked", says: "pivot done"},
		{name: "parked in the copy alone", beside: good(), kept: good(park("unpivot")), info: whole(me, cluster), args: restart, refusal: "Parked", says: "unpivot"},
		{name: "final tombstone", beside: good(tomb(me, cluster, wire.TombFinal)), info: whole(me, cluster), args: restart, refusal: "Tombstoned", says: "replaced"},
		{name: "final tombstone in the copy alone", beside: good(tomb(me, cluster, wire.TombIntended)), kept: good(tomb(me, cluster, wire.TombFinal)), info: whole(me, cluster), args: restart, refusal: "Tombstoned"},
		{name: "intended tombstone does not stop", beside: good(tomb(me, cluster, wire.TombIntended)), info: whole(me, cluster), args: restart},
		{name: "another member's tombstone", beside: good(tomb(other, cluster, wire.TombFinal)), info: whole(me, cluster), args: restart},
		{name: "same member ID in another cluster", beside: good(tomb(me, 0xdd, wire.TombFinal)), info: whole(me, cluster), args: restart},
		{name: "an old member's tombstone does not stop the next join", beside: good(unrecorded, tomb(other, cluster, wire.TombFinal)), info: class(wire.ClassAbsent, ""), args: join},
		{name: "removed by its own database", beside: good(), info: removed, args: restart, refusal: "Tombstoned", says: "member a1 of cluster c3"},
		{name: "another cluster's directory (L3)", beside: good(), info: whole(me, 0xdd), args: restart, refusal: "ForeignDirectory", says: "member a1 of cluster dd"},
		{name: "another member's directory", beside: good(), info: whole(other, cluster), args: restart, refusal: "ForeignDirectory", says: "expected member a1 of cluster c3"},
		{name: "old directory under a new seed (L3)", beside: good(fresh), info: whole(other, cluster), args: fromNew, refusal: "ForeignDirectory", says: "revision 77"},
		{name: "whole, nothing recorded, arguments that join", info: whole(me, cluster), args: join, refusal: "Unrecorded", says: "member a1 of cluster c3"},
		{name: "empty but recorded (L4)", beside: nil, kept: good(), info: class(wire.ClassEmpty, ""), args: restart, refusal: "EmptyButRecorded", says: "data dir empty but node was member a1 of cluster c3"},
		{name: "absent but recorded, with arguments that would make a new cluster (L4)", kept: good(), info: class(wire.ClassAbsent, ""), args: fromNew, refusal: "EmptyButRecorded"},
		{name: "a second new cluster", beside: good(unrecorded, assigned(0, 0)), info: class(wire.ClassAbsent, ""), args: fromNew, refusal: "NewClusterTwice"},
		{name: "nothing to go on with", beside: good(unrecorded), info: class(wire.ClassAbsent, ""), args: restart, refusal: "NothingToStart"},
		{name: "part", beside: good(), info: class(wire.ClassPart, "a database without a log"), args: restart, refusal: "PartDirectory", says: "a database without a log"},
		{name: "foreign", beside: good(unrecorded), info: class(wire.ClassForeign, "lost+found"), args: join, refusal: "ForeignFiles", says: "lost+found"},
		{name: "running", beside: good(), info: class(wire.ClassRunning, "pid 7"), args: restart, refusal: "Running", says: "pid 7"},
		{name: "unknown class", beside: good(), info: class(wire.ClassUnknown, ""), args: restart, refusal: "UnknownDirectory"},
		{name: "the two gates name different members", beside: good(), kept: good(assigned(other, cluster)), info: whole(me, cluster), args: restart, refusal: "GateDisagrees", says: "member b2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := member.Gate(member.Question{Node: "cp-1", Slot: wire.SlotMember, Beside: c.beside, Kept: c.kept, Info: c.info, Args: c.args})
			if r == nil {
				if c.refusal != "" {
					t.Fatalf("opened, want %s", c.refusal)
				}
				return
			}
			if r.Name != c.refusal || r.Node != "cp-1" || !strings.Contains(r.Error(), c.says) {
				t.Fatalf("%v; want %q, …%s…", r, c.refusal, c.says)
			}
			if r.Found == "" || r.Want == "" || r.Cites == "" {
				t.Errorf("%+v does not say what was found and expected, and by which rule", r)
			}
		})
	}
}

// A gate that cannot be read is an error, never an open gate (I10).
func TestReadGates(t *testing.T) {
	root := t.TempDir()
	id := wire.Identity{DataDir: filepath.Join(root, "etcd"), StateDir: filepath.Join(root, "state")}
	beside, kept, err := member.ReadGates(id, wire.SlotMember)
	if beside != nil || kept != nil || err != nil {
		t.Fatalf("none: %v, %v, %v", beside, kept, err)
	}
	if err := os.MkdirAll(id.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := member.WriteGate(id, wire.SlotMember, *good(park("x"))); err != nil {
		t.Fatal(err)
	}
	beside, kept, err = member.ReadGates(id, wire.SlotMember)
	if err != nil || beside == nil || kept == nil || beside.Parked != "x" || kept.Assigned != me {
		t.Fatalf("%+v, %+v, %v", beside, kept, err)
	}
	for _, path := range []string{id.SlotGate(wire.SlotMember), member.GateCopy(id, wire.SlotMember)} {
		whole := read(t, path)
		for _, bad := range []string{"", whole[:len(whole)/2], `{"v":99}`} {
			if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := member.ReadGates(id, wire.SlotMember); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s with %q: %v; want an error naming it", path, bad, err)
			}
		}
		if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

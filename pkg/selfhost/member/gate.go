package member

import (
	"fmt"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Names of the gate's refusals.
const (
	RefusedPromised      = "Promised"
	RefusedParked        = "Parked"
	RefusedTombstoned    = "Tombstoned"
	RefusedForeignDir    = "ForeignDirectory"
	RefusedPartDir       = "PartDirectory"
	RefusedForeignFiles  = "ForeignFiles"
	RefusedRunning       = "Running"
	RefusedEmptyRecorded = "EmptyButRecorded"
	RefusedUnrecorded    = "Unrecorded"
	RefusedSecondNew     = "NewClusterTwice"
	RefusedNothingToJoin = "NothingToStart"
	RefusedLocked        = "Locked"
	RefusedCertificates  = "CertificateUnusable"
	RefusedPort          = "PortTaken"
)

// Question is all the gate knows: this node's disk, nothing else.
type Question struct {
	Node string
	Slot wire.Slot
	// Beside is the gate file on the directory's filesystem, Kept the agent's copy; nil absent.
	Beside, Kept *wire.GateFile
	// Info is the directory's class and identity, read under the lock.
	Info datadir.Info
	// Args are the etcd arguments it is to start with.
	Args []string
}

// Gate decides whether the slot's etcd may start: nil, or the reason why not.
// Pure. A whole directory of the recorded identity always starts (I9), except
// under a promise, parked, or under a final tombstone.
func Gate(q Question) *wire.Refusal {
	g, refusal := Stricter(q.Beside, q.Kept)
	if refusal != nil {
		refusal.Node = q.Node
		return refusal
	}
	for _, check := range []func(Question, *wire.GateFile) *wire.Refusal{promised, parked, class, tombstoned, identity, first} {
		if r := check(q, g); r != nil {
			r.Node = q.Node
			return r
		}
	}
	return nil
}

func promised(_ Question, g *wire.GateFile) *wire.Refusal {
	if g == nil || g.Promised <= g.Epoch.Number {
		return nil
	}
	return &wire.Refusal{Name: RefusedPromised, Cites: "I1",
		Found: fmt.Sprintf("a promise of epoch %d while the adopted one is %d", g.Promised, g.Epoch.Number),
		Want:  "the epoch adopted, or the promise resolved by the next driver of a recovery"}
}

func parked(_ Question, g *wire.GateFile) *wire.Refusal {
	if g == nil || g.Parked == "" {
		return nil
	}
	return &wire.Refusal{Name: RefusedParked, Found: g.Parked, Want: "a StartMember by a driver", Cites: "DESIGN, Lock and gate"}
}

// class: only absent, empty and whole may start.
func class(q Question, _ *wire.GateFile) *wire.Refusal {
	r := &wire.Refusal{Found: q.Info.Dir + ": " + q.Info.Identity(), Cites: "DESIGN, Directory classes"}
	switch q.Info.Class {
	case wire.ClassAbsent, wire.ClassEmpty, wire.ClassWhole:
		return nil
	case wire.ClassPart:
		r.Name, r.Want = RefusedPartDir, "a whole directory; a driver moves this one to the attic and the member joins anew"
	case wire.ClassForeign:
		r.Name, r.Want = RefusedForeignFiles, "an etcd data directory, or none"
	case wire.ClassRunning:
		r.Name, r.Want = RefusedRunning, "one process on one directory (CASES L6)"
	default:
		r.Name, r.Want = "UnknownDirectory", "a directory whose class is known (I10)"
	}
	return r
}

func tombstoned(q Question, g *wire.GateFile) *wire.Refusal {
	if q.Info.Class != wire.ClassWhole {
		return nil
	}
	if q.Info.SelfRemoved {
		return &wire.Refusal{Name: RefusedTombstoned, Found: q.Info.Identity(), Want: "a member its own database still lists; this one was removed (CASES L2)", Cites: "DESIGN, Who may drive"}
	}
	if g == nil {
		return nil
	}
	if t := finalTombstone(g, q.Info.ClusterID, q.Info.MemberID); t != nil {
		return &wire.Refusal{Name: RefusedTombstoned, Cites: "DESIGN, Who may drive",
			Found: fmt.Sprintf("member %s of cluster %s, removed %s: %s", t.MemberID, t.ClusterID, wire.Now(t.Time), t.Why),
			Want:  "a member that was not removed; a driver retires the directory and adds the node anew"}
	}
	return nil
}

// identity: a whole directory is the recorded one, or the one that these very
// arguments made before anybody could record it (a crash after a seed's first start).
func identity(q Question, g *wire.GateFile) *wire.Refusal {
	if q.Info.Class != wire.ClassWhole {
		return nil
	}
	found := q.Info.Dir + ": " + q.Info.Identity()
	var member, cluster wire.ID
	if g != nil {
		member, cluster = g.Assigned, g.ClusterID
	}
	if member == 0 {
		flags := Flags(q.Args)
		if flags["initial-cluster-state"] == StateNew {
			member, cluster, _ = NewIDs(flags["name"], flags["initial-cluster"], flags["initial-cluster-token"])
		}
	}
	if member == q.Info.MemberID && (cluster == q.Info.ClusterID || cluster == 0 && member != 0) {
		return nil
	}
	if member == 0 {
		return &wire.Refusal{Name: RefusedUnrecorded, Found: found, Cites: "CASES L3",
			Want: "a record that this node's " + string(q.Slot) + " slot is that member; or move the directory away"}
	}
	return &wire.Refusal{Name: RefusedForeignDir, Found: found, Want: fmt.Sprintf("member %s of cluster %s", member, cluster), Cites: "CASES L3"}
}

// first: an absent or empty directory starts only if nothing was ever in it.
func first(q Question, g *wire.GateFile) *wire.Refusal {
	if q.Info.Class == wire.ClassWhole {
		return nil
	}
	if g != nil && g.Recorded {
		return &wire.Refusal{Name: RefusedEmptyRecorded, Cites: "CASES L4",
			Found: fmt.Sprintf("data dir %s but node was member %s of cluster %s", q.Info.Class, g.Assigned, g.ClusterID),
			Want:  "its filesystem mounted at " + q.Info.Dir + "; if the data is truly gone, a driver removes the member and adds the node anew"}
	}
	flags := Flags(q.Args)
	if flags["initial-cluster-state"] != StateNew {
		if flags["initial-cluster"] == "" {
			return &wire.Refusal{Name: RefusedNothingToJoin, Found: string(q.Info.Class) + " directory and no --initial-cluster", Want: "a directory to go on with, or members to join", Cites: "DESIGN, Epoch"}
		}
		return nil
	}
	if g != nil && g.Epoch.ClusterID != 0 {
		return &wire.Refusal{Name: RefusedSecondNew, Cites: "DESIGN, Epoch",
			Found: fmt.Sprintf("epoch %d with cluster %s recorded, and arguments that make a new cluster", g.Epoch.Number, g.Epoch.ClusterID),
			Want:  "state new once in a cluster's life"}
	}
	return nil
}

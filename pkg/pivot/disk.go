package pivot

import "fmt"

// Disk is the filesystem of a node's data directory.
type Disk struct {
	Known bool
	Free  int64 // bytes
}

// logBytes is what a new member's log takes beside the database: two files,
// allocated at once (etcd's wal.SegmentSizeBytes, 64 MB, rounded up).
const logBytes = 2 * 64 << 20

// JoinNeeds is how many bytes a node must have free before a member joins there:
// the copy of the database and the log, and after that twice the database, since
// a defragmentation and a database received from a peer are each written beside
// the one in place.
func JoinNeeds(db int64) int64 { return 3*db + logBytes }

// enoughDisk: no growth onto a node that it would leave with less than twice the
// database free, and none begun while a further node that it needs has so little.
// What is not known refuses nothing: a learner that runs out of room takes no
// vote with it (I7), and a filesystem that cannot be asked must not keep a
// cluster from its third voter.
func enoughDisk(s *State, step Step) *Refusal {
	if s.DBSize == 0 || step.Kind != RegisterLearner && step.Kind != StartMember && step.Kind != StartSeed {
		return nil
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		slot := MemberSlot
		if s.Want.Target == TargetSeed {
			slot = SeedSlot
		}
		joins := n.Slot(slot).Class == Absent || n.Slot(slot).Class == Empty
		named := n.Name == step.Node || step.Kind == RegisterLearner && slot == MemberSlot && s.Want.Has(n.Name)
		if !joins || !named || !n.Disk.Known || n.Disk.Free >= JoinNeeds(s.DBSize) {
			continue
		}
		return &Refusal{Node: n.Name, Cites: "I2",
			Found: fmt.Sprintf("%s free under its data directory; the database of %s and its log take %s", bytesText(n.Disk.Free), bytesText(s.DBSize), bytesText(s.DBSize+logBytes)),
			Want:  fmt.Sprintf("%s free: that, and twice the database after it", bytesText(JoinNeeds(s.DBSize)))}
	}
	return nil
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

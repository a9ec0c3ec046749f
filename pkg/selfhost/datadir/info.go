package datadir

import (
	"fmt"
	"strings"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Info is what a stopped directory says of itself. Numbers are zero where the
// class does not reach that far.
type Info struct {
	V     int        `json:"v"`
	Dir   string     `json:"dir"`
	Class wire.Class `json:"class"`
	// Reason says in words why the class is not whole, or what is remarkable about a whole one.
	Reason string `json:"reason,omitempty"`

	// ClusterID and MemberID are the log's metadata.
	ClusterID wire.ID `json:"clusterID"`
	MemberID  wire.ID `json:"memberID"`
	// FirstIndex, LastTerm, LastIndex: the log after its newest valid snapshot record
	// (stale entries from before a received snapshot do not count). The last
	// entry may be uncommitted. With no entry after the record, the record itself.
	FirstIndex uint64 `json:"firstIndex"`
	LastTerm   uint64 `json:"lastTerm"`
	LastIndex  uint64 `json:"lastIndex"`
	// HardTerm and HardCommit are the last HardState's; the commit may lag behind what was acknowledged.
	HardTerm   uint64 `json:"hardTerm"`
	HardCommit uint64 `json:"hardCommit"`
	// SnapTerm and SnapIndex are the newest snapshot record not above the commit.
	SnapTerm  uint64 `json:"snapTerm"`
	SnapIndex uint64 `json:"snapIndex"`
	// Torn: the last record is cut off; etcd drops it at the next start.
	Torn bool `json:"torn,omitempty"`

	// ConsistentIndex is the last log entry applied to the database.
	ConsistentIndex uint64 `json:"consistentIndex"`
	Revision        int64  `json:"revision"`
	DBSize          int64  `json:"dbSize"` // bytes of the file
	// Members is the database's member list at ConsistentIndex, by ID.
	Members []wire.Member `json:"members,omitempty"`
	// SelfRemoved: the database lists this member as removed.
	SelfRemoved bool `json:"selfRemoved,omitempty"`
	// LastWrite is the newest modification time of log and database.
	LastWrite time.Time `json:"lastWrite,omitzero"`
}

// Identity says in one line whose directory it is, for refusals (CASES L3).
func (i Info) Identity() string {
	s := string(i.Class) + " directory"
	if i.MemberID != 0 {
		s = fmt.Sprintf("%s of member %s of cluster %s, revision %d, log to %d/%d, last written %s",
			s, i.MemberID, i.ClusterID, i.Revision, i.LastTerm, i.LastIndex, i.LastWrite.UTC().Format(time.RFC3339))
	}
	if i.Reason != "" {
		s += " (" + i.Reason + ")"
	}
	return s
}

func (i *Info) is(class wire.Class, format string, args ...any) Info {
	i.Class = class
	i.note(format, args...)
	return *i
}

func (i *Info) note(format string, args ...any) {
	if format == "" {
		return
	}
	s := fmt.Sprintf(format, args...)
	if i.Reason != "" && !strings.Contains(i.Reason, s) {
		s = i.Reason + "; " + s
	}
	i.Reason = s
}

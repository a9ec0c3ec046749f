package wire

import "time"

// Paths of what agents keep of the past: retired directories and old journals.
const (
	PathAttic        = "/v1/attic"         // GET ?keep=N -> AtticReply
	PathAtticPrune   = "/v1/attic/prune"   // AtticPruneRequest -> PruneReply
	PathJournalFiles = "/v1/journal/files" // GET -> JournalFilesReply
	PathJournalPrune = "/v1/journal/prune" // JournalPruneRequest -> PruneReply
)

// AtticKeep is how many of a node's newest attic entries stay where nobody says otherwise.
const AtticKeep = 2

// AtticEntry is one retired directory. What its note does not say is zero.
type AtticEntry struct {
	Name      string    `json:"name"`
	Slot      Slot      `json:"slot,omitempty"`
	MemberID  ID        `json:"memberID"`
	ClusterID ID        `json:"clusterID"`
	Class     Class     `json:"class,omitempty"`
	LastTerm  uint64    `json:"lastTerm"`
	LastIndex uint64    `json:"lastIndex"`
	Revision  int64     `json:"revision"`
	Bytes     int64     `json:"bytes"` // on disk
	Time      time.Time `json:"time,omitzero"`
	Reason    string    `json:"reason,omitempty"` // why it was retired
	// Problem is what is wrong with the entry itself: no note, no directory, half pruned.
	Problem string `json:"problem,omitempty"`
	// Keep is why a prune would leave it, in words; empty: it may go.
	Keep string `json:"keep,omitempty"`
}

// AtticReply lists a node's attic, newest first.
type AtticReply struct {
	V       int          `json:"v"`
	Node    string       `json:"node"`
	Entries []AtticEntry `json:"entries"`
	// Live says what the live members were seen to hold, or why that is not known.
	Live string `json:"live"`
}

// AtticPruneRequest removes one entry for good. The agent looks at the live
// members itself and refuses (KeptEntry) what they are not known to hold (I3).
type AtticPruneRequest struct {
	Act
	Entry string `json:"entry"`
	// Keep is how many of the newest entries stay in any case.
	Keep int `json:"keep"`
}

// JournalFile is one journal that was set aside.
type JournalFile struct {
	Name    string `json:"name"`
	LastSeq uint64 `json:"lastSeq"` // of its last entry
	Bytes   int64  `json:"bytes"`
}

// JournalFilesReply lists a node's journals, newest first; the one being written is Current.
type JournalFilesReply struct {
	V       int           `json:"v"`
	Node    string        `json:"node"`
	Current int64         `json:"currentBytes"`
	Files   []JournalFile `json:"files"`
	// Kept is how many files the agent itself keeps.
	Kept int `json:"kept"`
}

// JournalPruneRequest removes all but the newest Keep journals that were set aside.
type JournalPruneRequest struct {
	Act
	Keep int `json:"keep"`
}

// PruneReply says what went.
type PruneReply struct {
	Reply
	Removed []string `json:"removed,omitempty"`
	Bytes   int64    `json:"bytes"`
}

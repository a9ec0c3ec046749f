package wire

import "path/filepath"

// Files of the agent's state directory.
func (i Identity) State(name string) string { return filepath.Join(i.StateDir, name) }

// Names under the state directory. Locks are flocks held for the life of a process.
const (
	FileIdentity   = "identity.json"
	FileEpoch      = "epoch.json"
	FileSpec       = "spec.json"
	FileFence      = "fence.json"
	FileSlots      = "slots.json"
	FileTombstones = "tombstones.json"
	FileTargets    = "targets.json"
	FileJournal    = "journal.jsonl"
	FileAgentLock  = "agent.lock"
	FileProxyLock  = "proxy.lock"
	FileProxySock  = "proxy.sock"
	FileDriverLock = "driver.lock"
	FileDriverKey  = "driver.key"
	DirLogs        = "logs"
)

// SlotDir is the data directory of a slot: DATA/data for the member, DATA/seed for the seed.
func (i Identity) SlotDir(s Slot) string {
	if s == SlotSeed {
		return filepath.Join(i.DataDir, "seed")
	}
	return filepath.Join(i.DataDir, "data")
}

// SlotLock is the lock beside the slot's directory.
func (i Identity) SlotLock(s Slot) string { return i.SlotDir(s) + ".lock" }

// SlotGate is the gate file beside the slot's directory, on its filesystem.
func (i Identity) SlotGate(s Slot) string { return i.SlotDir(s) + ".gate.json" }

// Attic is where retired directories go, on the same filesystem.
func (i Identity) Attic() string { return filepath.Join(i.DataDir, "attic") }

// GateFile is SLOT.gate.json: what the start gate decides from, without agent
// or network. The agent's state holds a copy; the stricter of the two counts.
type GateFile struct {
	V        int    `json:"v"`
	Epoch    Epoch  `json:"epoch"`
	Promised uint64 `json:"promised,omitempty"` // an epoch above Epoch.Number: nothing starts
	Parked   string `json:"parked,omitempty"`   // why; empty: not parked
	// Assigned and ClusterID are the identity this slot was given or had when last
	// recorded; a directory of another one does not start, and none at all only joins.
	Assigned  ID `json:"assigned"`
	ClusterID ID `json:"clusterID"`
	// Recorded: the directory was seen initialised (WAL with metadata) under that
	// identity; from then on an absent or empty one does not start (CASES L4).
	Recorded   bool        `json:"recorded"`
	Tombstones []Tombstone `json:"tombstones,omitempty"`
}

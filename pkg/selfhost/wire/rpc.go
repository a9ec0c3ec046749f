package wire

import "time"

// Paths of the agent's RPC, HTTPS with JSON bodies on the agent port.
const (
	PathObserve     = "/v1/observe"            // GET -> Observation
	PathJournal     = "/v1/journal"            // GET ?last=N -> JournalReply
	PathFence       = "/v1/fence"              // GET -> Fence
	PathGrantTake   = "/v1/grant/take"         // GrantRequest -> GrantReply (also renews)
	PathGrantDrop   = "/v1/grant/drop"         // Act -> Reply
	PathSpec        = "/v1/spec"               // SpecRequest -> Reply
	PathHash        = "/v1/hash"               // HashRequest -> HashReply
	PathTargets     = "/v1/proxy/targets"      // TargetsRequest -> Reply
	PathHold        = "/v1/proxy/hold"         // HoldRequest -> Reply; agents and drivers may call it
	PathCloseDrain  = "/v1/proxy/close-drain"  // CloseDrainRequest -> Reply
	PathTombstone   = "/v1/tombstone"          // TombstoneRequest -> Reply
	PathSlotStart   = "/v1/slot/start"         // StartRequest -> Reply
	PathSlotRestart = "/v1/slot/restart-late"  // SlotRequest -> Reply
	PathSlotStop    = "/v1/slot/stop"          // SlotRequest -> Reply
	PathSlotRetire  = "/v1/slot/retire"        // SlotRequest -> RetireReply
	PathAddLearner  = "/v1/member/add-learner" // MemberRequest -> MemberReply (leader's agent only, as the three below)
	PathPromote     = "/v1/member/promote"
	PathRemove      = "/v1/member/remove"
	PathMoveLeader  = "/v1/member/move-leader"
	PathCertDriver  = "/v1/cert/driver" // CertRequest -> CertReply; needs no grant: it changes no node
)

// Refusal is a named no: nothing was changed. HTTP status 409.
type Refusal struct {
	Name  string `json:"name"`
	Node  string `json:"node,omitempty"`
	Want  string `json:"want,omitempty"`
	Found string `json:"found,omitempty"`
	Cites string `json:"cites,omitempty"`
}

// Error makes a refusal an error: name, then what was expected and found.
func (r *Refusal) Error() string {
	s := r.Name
	if r.Node != "" {
		s += " " + r.Node
	}
	if r.Found != "" {
		s += ": found " + r.Found
	}
	if r.Want != "" {
		s += "; expected " + r.Want
	}
	if r.Cites != "" {
		s += " (" + r.Cites + ")"
	}
	return s
}

// Act heads every mutating RPC: who drives, under which number and round, and
// what for. The agent refuses a number that is not its current grant's, and a
// round it did not answer within the last 7 s.
type Act struct {
	V      int    `json:"v"`
	Driver string `json:"driver"`
	Number uint64 `json:"number"`
	Round  uint64 `json:"round"`
	Epoch  uint64 `json:"epoch"`
	// Seen is ListHash of the list the decision was based on (membership RPCs).
	Seen string `json:"seen,omitempty"`
	// Step, Why and Evidence go to the journal.
	Step     string `json:"step,omitempty"`
	Why      string `json:"why,omitempty"`
	Evidence string `json:"evidence,omitempty"`
}

// Reply answers every mutating RPC without a reply of its own.
type Reply struct {
	V       int      `json:"v"`
	OK      bool     `json:"ok"`
	Refusal *Refusal `json:"refusal,omitempty"`
}

// Fence is the fencing state of one agent.
type Fence struct {
	V      int    `json:"v"`
	Node   string `json:"node"`
	Epoch  Epoch  `json:"epoch"`
	Number uint64 `json:"number"`
	Holder string `json:"holder,omitempty"`
	// HolderName is who that is, for people: "pivot on cp-1, pid 4711".
	HolderName string `json:"holderName,omitempty"`
	// LeftMillis is how long the grant still runs; 0: free.
	LeftMillis int64 `json:"leftMillis"`
}

// GrantRequest takes or renews a grant.
type GrantRequest struct {
	V          int    `json:"v"`
	Driver     string `json:"driver"`     // holder key
	DriverName string `json:"driverName"` // for people
	Number     uint64 `json:"number"`
	Round      uint64 `json:"round"` // 1 on take, one more on each renewal
	TTLMillis  int64  `json:"ttlMillis"`
	// Epoch and Spec are adopted by an agent that has none, in the one write that
	// grants (DESIGN "Epoch"), if Spec names this node at its own address.
	Epoch Epoch `json:"epoch"`
	Spec  Spec  `json:"spec"`
}

// GrantReply says granted or by whom it is held (Refusal GrantHeld, LowerNumber, EqualNumber, NotNamed, OlderEpoch).
type GrantReply struct {
	V       int      `json:"v"`
	OK      bool     `json:"ok"`
	Refusal *Refusal `json:"refusal,omitempty"`
	Fence   Fence    `json:"fence"`
}

// SpecRequest stores a spec; one not newer than the stored is refused (OlderSpec), an equal one is done.
type SpecRequest struct {
	Act
	Spec Spec `json:"spec"`
}

// HashRequest asks for HashKV of the slot's own member at a revision.
type HashRequest struct {
	V        int   `json:"v"`
	Slot     Slot  `json:"slot"`
	Revision int64 `json:"revision"`
}

// HashReply is the answer; CompactRevision tells whether two hashes may be compared.
type HashReply struct {
	V               int    `json:"v"`
	OK              bool   `json:"ok"`
	Error           string `json:"error,omitempty"` // etcd's own words
	MemberID        ID     `json:"memberID"`
	ClusterID       ID     `json:"clusterID"`
	Hash            uint32 `json:"hash"`
	Revision        int64  `json:"revision"`
	CompactRevision int64  `json:"compactRevision"`
}

// TargetMode is serve or drain.
type TargetMode string

// A drained target takes no new connection and loses none until told.
const (
	Serve TargetMode = "serve"
	Drain TargetMode = "drain"
)

// ProxyTarget is one etcd a proxy may splice to.
type ProxyTarget struct {
	Node     string     `json:"node"`
	Slot     Slot       `json:"slot"`
	MemberID ID         `json:"memberID"`
	Address  string     `json:"address"` // host:port
	Mode     TargetMode `json:"mode"`
	Local    bool       `json:"local"` // on the proxy's own node; filled by the agent
}

// Targets is STATE/targets.json, written by the agent, read by the proxy.
type Targets struct {
	V         int           `json:"v"`
	Serial    uint64        `json:"serial"` // grows with each write
	Epoch     uint64        `json:"epoch"`
	ClusterID ID            `json:"clusterID"`
	Targets   []ProxyTarget `json:"targets"`
	// ConfirmedBoot is the kernel's boot ID (proxy.BootID) under which the agent
	// confirmed the epoch; the proxy prefers a local target only once it is this
	// boot's, or 10 s after its own start (DESIGN "Proxy targets").
	ConfirmedBoot string `json:"confirmedBoot,omitempty"`
}

// CloseDrainRequest closes the connections spliced to drained targets: of one
// member, or of every one where none is named.
type CloseDrainRequest struct {
	Act
	MemberID ID `json:"memberID,omitempty"`
}

// TargetsRequest sets a node's proxy targets.
type TargetsRequest struct {
	Act
	ClusterID ID            `json:"clusterID"`
	Targets   []ProxyTarget `json:"targets"`
}

// HoldRequest: stop forwarding client bytes for at most Millis (capped at 200), or open again.
type HoldRequest struct {
	V      int   `json:"v"`
	On     bool  `json:"on"`
	Millis int64 `json:"millis"`
}

// ProxyTargetStatus is a proxy's verdict on one target.
type ProxyTargetStatus struct {
	ProxyTarget
	Admitted    bool   `json:"admitted"`
	Verdict     string `json:"verdict"` // "admitted", or why not, in words
	Connections int    `json:"connections"`
}

// ProxyStatus is what the proxy reports on its unix socket (GET /status).
type ProxyStatus struct {
	V       int                 `json:"v"`
	Listen  string              `json:"listen"`
	PID     int                 `json:"pid"`
	Version string              `json:"version"`
	Serial  uint64              `json:"serial"` // of the targets in force
	Targets []ProxyTargetStatus `json:"targets"`
	Held    int                 `json:"held"` // connections waiting for a target
	Holding bool                `json:"holding"`
	Error   string              `json:"error,omitempty"` // e.g. a targets file that was refused
}

// TombPhase is intended (removal decided), final (removal read in a list) or withdrawn.
type TombPhase string

// Phases of a tombstone.
const (
	TombIntended  TombPhase = "intended"
	TombFinal     TombPhase = "final"
	TombWithdrawn TombPhase = "withdrawn"
)

// Tombstone says that a member was, or is about to be, removed. Only a final one stops the gate.
type Tombstone struct {
	ClusterID ID        `json:"clusterID"`
	MemberID  ID        `json:"memberID"`
	Node      string    `json:"node"`
	Slot      Slot      `json:"slot"`
	Address   string    `json:"address"`
	Phase     TombPhase `json:"phase"`
	Why       string    `json:"why"`
	Time      time.Time `json:"time"`
}

// TombstoneRequest records one on this agent; also beside the directory where Node is this node.
type TombstoneRequest struct {
	Act
	Tombstone Tombstone `json:"tombstone"`
}

// StartRequest starts the slot's etcd. For a directory absent or empty, Cluster
// names the join (initial-cluster, state existing); a whole directory must carry MemberID.
type StartRequest struct {
	Act
	Slot      Slot `json:"slot"`
	ClusterID ID   `json:"clusterID"`
	MemberID  ID   `json:"memberID"`
	// InitialCluster is name=peerURL,… from the live member list; empty to start what is there.
	InitialCluster string `json:"initialCluster,omitempty"`
	// NeedsBytes is what a join must find free under the data directory; 0 not known.
	NeedsBytes int64 `json:"needsBytes,omitempty"`
}

// SlotRequest stops, restarts or retires a slot.
type SlotRequest struct {
	Act
	Slot     Slot `json:"slot"`
	MemberID ID   `json:"memberID"`
	// Reason goes to the attic entry (retire).
	Reason string `json:"reason,omitempty"`
}

// RetireReply names where the directory went.
type RetireReply struct {
	Reply
	Attic string `json:"attic,omitempty"`
}

// MemberRequest is a membership call, made by the agent of the raft leader.
type MemberRequest struct {
	Act
	MemberID ID       `json:"memberID,omitempty"` // promote, remove, move-leader's target
	PeerURLs []string `json:"peerURLs,omitempty"` // add-learner
	Node     string   `json:"node,omitempty"`     // add-learner: whose member it is
	Slot     Slot     `json:"slot,omitempty"`     // add-learner: seed where a seed joins (unpivot); empty: member
	// HoldNodes are the nodes whose proxies hold client bytes around move-leader.
	HoldNodes []NodeRef `json:"holdNodes,omitempty"`
}

// MemberReply carries the list read after the call.
type MemberReply struct {
	Reply
	MemberID ID       `json:"memberID,omitempty"`
	Members  []Member `json:"members,omitempty"`
	Leader   ID       `json:"leader,omitempty"`
}

// CertRequest asks for a driver certificate. Refusal NoCAKey: this node cannot
// sign, ask another.
type CertRequest struct {
	V   int    `json:"v"`
	CSR string `json:"csr"` // PEM; only its key and common name count
}

// CertReply carries the certificate, valid for a day.
type CertReply struct {
	Reply
	Cert string `json:"cert,omitempty"` // PEM
}

// Class of a data directory (DESIGN "Directory classes"). Empty string: unknown.
type Class string

// The classes. Only absent, empty and whole may start.
const (
	ClassUnknown Class = ""
	ClassAbsent  Class = "absent"
	ClassEmpty   Class = "empty"
	ClassRunning Class = "running"
	ClassWhole   Class = "whole"
	ClassPart    Class = "part"
	ClassForeign Class = "foreign"
)

// ProcState of a slot's etcd.
type ProcState string

// States of a process. Up: the process holds the lock but does not serve clients yet.
const (
	ProcUnknown ProcState = ""
	ProcDown    ProcState = "down"
	ProcUp      ProcState = "up"
	ProcServing ProcState = "serving"
)

// Process is a slot's etcd as the runtime sees it.
type Process struct {
	State     ProcState `json:"state"`
	PID       int       `json:"pid,omitempty"`
	Args      []string  `json:"args,omitempty"` // read from the process, not from the spec
	Adopted   bool      `json:"adopted,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	Restarts  int       `json:"restarts,omitempty"`
	// Deaths in a row since it was last told to run; 0 once it stayed up.
	Deaths int `json:"deaths,omitempty"`
	// LastExit is why it last ended: exit status, or the end of its log and "exit status unknown".
	LastExit string `json:"lastExit,omitempty"`
	// PeerUp: /version answers on its peer port.
	PeerUp bool `json:"peerUp,omitempty"`
	// MetricsUp: its metrics port answers (opens before the client port).
	MetricsUp bool `json:"metricsUp,omitempty"`
}

// EtcdStatus is what the slot's etcd says of itself. Nil in SlotStatus: it does not answer.
type EtcdStatus struct {
	// From is "status" (the maintenance call) or "metrics" (client port still shut).
	From      string   `json:"from"`
	MemberID  ID       `json:"memberID"`
	ClusterID ID       `json:"clusterID"`
	Leader    ID       `json:"leader"`
	Learner   bool     `json:"learner"`
	Term      uint64   `json:"term"`
	Index     uint64   `json:"index"`   // raft (committed) index
	Applied   uint64   `json:"applied"` // applied index
	Revision  int64    `json:"revision"`
	Version   string   `json:"version"`
	DBSize    int64    `json:"dbSize"`
	DBInUse   int64    `json:"dbInUse"`
	Alarms    []string `json:"alarms,omitempty"`
	// Members is the list this member serves; read linearizably by a leader, else serializably. Learners serve none.
	Members       []Member `json:"members,omitempty"`
	Linearizable  bool     `json:"linearizable,omitempty"`
	CompactedHint int64    `json:"compactRevision,omitempty"`
	// SnapshotReceived: this process received a database snapshot from a peer in
	// this life (etcd_network_snapshot_receive_success), and none is being applied.
	// Read from the metrics port, where the client port is still shut.
	SnapshotReceived bool `json:"snapshotReceived,omitempty"`
}

// SlotStatus is one slot of a node.
type SlotStatus struct {
	Slot   Slot   `json:"slot"`
	Class  Class  `json:"class"`
	Reason string `json:"reason,omitempty"` // why part, foreign or unknown; who holds it where running
	// Reading: the stopped directory is being read; its class is known soon.
	Reading bool `json:"reading,omitempty"`
	// Identity of the directory (stopped) or the process (running); zero unknown.
	ClusterID ID     `json:"clusterID"`
	MemberID  ID     `json:"memberID"`
	LastTerm  uint64 `json:"lastTerm,omitempty"`
	LastIndex uint64 `json:"lastIndex,omitempty"`
	DBSize    int64  `json:"dbSize,omitempty"`
	// Assigned is the member identity a driver gave this slot (start), zero if none.
	Assigned ID `json:"assigned"`
	// Recorded: a log of the assigned identity was once seen in this slot.
	Recorded     bool        `json:"recorded,omitempty"`
	Wanted       bool        `json:"wanted"` // the agent keeps it running
	Parked       bool        `json:"parked"`
	LateRestarts int         `json:"lateRestarts"`
	Process      Process     `json:"process"`
	Etcd         *EtcdStatus `json:"etcd,omitempty"`
}

// CertStatus is one certificate of the node.
type CertStatus struct {
	Name     string    `json:"name"`
	NotAfter time.Time `json:"notAfter"`
	Problem  string    `json:"problem,omitempty"`
	// Unusable: whoever is shown it refuses it, or its owner cannot load it; a
	// Problem without that is one of care (an open key file).
	Unusable bool `json:"unusable,omitempty"`
}

// Disk is the filesystem of the data directory, in bytes.
type Disk struct {
	FreeBytes  int64 `json:"freeBytes"`
	TotalBytes int64 `json:"totalBytes"`
}

// Observation is everything one agent may know.
type Observation struct {
	V          int          `json:"v"`
	Time       time.Time    `json:"time"`
	Identity   Identity     `json:"identity"`
	Version    string       `json:"version"`
	Epoch      Epoch        `json:"epoch"`
	Fence      Fence        `json:"fence"`
	Spec       *Spec        `json:"spec,omitempty"`
	Slots      []SlotStatus `json:"slots"`
	Proxy      *ProxyStatus `json:"proxy,omitempty"`
	Tombstones []Tombstone  `json:"tombstones,omitempty"`
	Certs      []CertStatus `json:"certs,omitempty"`
	Disk       Disk         `json:"disk"`
	Problems   []string     `json:"problems,omitempty"` // what the agent could not read, in words
	// Unfit says why a member that started here now would come to nothing.
	Unfit []string `json:"unfit,omitempty"`
	// SeedUnfit is the same of a seed that joined here now (unpivot).
	SeedUnfit []string `json:"seedUnfit,omitempty"`
}

// SlotOf finds a slot.
func (o *Observation) SlotOf(s Slot) *SlotStatus {
	for i := range o.Slots {
		if o.Slots[i].Slot == s {
			return &o.Slots[i]
		}
	}
	return nil
}

// JournalEntry is one line of the journal.
type JournalEntry struct {
	V        int       `json:"v"`
	Seq      uint64    `json:"seq"`
	Time     time.Time `json:"time"`
	Node     string    `json:"node"`
	Step     string    `json:"step"`
	By       string    `json:"by"` // holder name and fencing number, or "agent"
	Number   uint64    `json:"number,omitempty"`
	Why      string    `json:"why,omitempty"`
	Evidence string    `json:"evidence,omitempty"`
	Outcome  string    `json:"outcome"` // "ok", "begun", "refused: …", "failed: …"
}

// JournalReply lists the last entries, oldest first.
type JournalReply struct {
	V       int            `json:"v"`
	Node    string         `json:"node"`
	Entries []JournalEntry `json:"entries"`
}

package pivot

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// MemberID is etcd's member ID; zero means unknown or none.
type MemberID uint64

func (m MemberID) String() string { return fmt.Sprintf("%x", uint64(m)) }

// Tri is a fact that may be unknown. The zero value is Unknown.
type Tri uint8

// The values of a fact.
const (
	Unknown Tri = iota
	No
	Yes
)

func (t Tri) String() string { return [...]string{"unknown", "no", "yes"}[t] }

// Answer says whether a node's agent answered this look.
type Answer uint8

// Unasked is zero; Silent is not death (I4).
const (
	Unasked Answer = iota
	Answers
	Silent
)

func (a Answer) String() string { return [...]string{"unasked", "answers", "silent"}[a] }

// Class of a data directory, as one look sees it (DESIGN "Directory classes").
// Older is a whole directory of this cluster's past: an older epoch, or a
// member that the list no longer names.
type Class uint8

// Classes; a process that holds the lock makes it Running.
const (
	ClassUnknown Class = iota
	Absent
	Empty
	Whole
	Part
	Foreign
	Older
	Running
)

func (c Class) String() string {
	return [...]string{"unknown", "absent", "empty", "whole", "part", "foreign", "older", "running"}[c]
}

// Proc is the state of a slot's process. Up holds the lock and does not serve clients yet.
type Proc uint8

// States of a process.
const (
	ProcUnknown Proc = iota
	Down
	Up
	Serving
)

func (p Proc) String() string { return [...]string{"unknown", "down", "up", "serving"}[p] }

// Role in raft's configuration.
type Role uint8

// Roles; RoleNone never appears in State.Members.
const (
	RoleNone Role = iota
	Learner
	Voter
)

func (r Role) String() string { return [...]string{"none", "learner", "voter"}[r] }

// SlotName is one of a node's two places for an etcd.
type SlotName string

// The slots of a node.
const (
	MemberSlot SlotName = "member"
	SeedSlot   SlotName = "seed"
)

// Target is what the spec asks for.
type Target uint8

// A zero target is unknown: no spec was found.
const (
	TargetUnknown Target = iota
	TargetSeed
	TargetMembers
)

func (t Target) String() string { return [...]string{"unknown", "seed", "members"}[t] }

// Want is the desired spec as far as the brain needs it.
type Want struct {
	Target Target
	// Nodes in the spec's order. For TargetSeed the first is where the seed is, or
	// is to be; proxies of all of them go to it.
	Nodes []string
	// Forget names unstarted learners that a person declared never to come (by ID).
	Forget []MemberID
}

// Has says whether the spec names the node.
func (w Want) Has(node string) bool {
	for _, n := range w.Nodes {
		if n == node {
			return true
		}
	}
	return false
}

// Slot is one slot of a node that answers; of a silent node it is the zero value, unknown.
type Slot struct {
	Class  Class
	Reason string // why part or foreign, for people
	// ID of the directory or process; 0 unknown or none.
	ID MemberID
	// Assigned is the identity that the agent's own records give this slot; 0 none.
	Assigned MemberID
	Proc     Proc
	// Reading: the directory is being read; its class is known soon.
	Reading bool
	// PeerUp: /version answers on its peer port.
	PeerUp Tri
	Parked bool
	// LateRestarted: the agent's durable count says it was restarted once as a late learner.
	LateRestarted bool
	// Kept: its process is down and its agent starts it again by itself, as Assigned.
	Kept bool
	// Ended is why the process of a slot that its agent keeps running last ended,
	// for people; empty where it did not, or has come up since.
	Ended string
	// Args is what takes part in apply, read from the running process ("max-learners=8"); empty unknown.
	Args string
}

// Proxy of a node.
type Proxy struct {
	// Routed: its targets are the members of the list, those on their way out
	// drained (State.Drains), and one of the others is admitted.
	Routed Tri
}

// Node is one node, named by the spec or by a member on it.
type Node struct {
	Name  string
	Agent Answer
	Why   string // of the silence, for people
	// SpecCurrent: its agent stores the wanted spec.
	SpecCurrent Tri
	Member      Slot
	Seed        Slot
	Proxy       Proxy
	// Disk under its data directory; not part of String, since it changes all the time.
	Disk Disk
	// Unfit says why a member that starts there now would come to nothing
	// (certificates, ports, mounts), for people; empty: nothing is known against it.
	Unfit string
}

// Slot by name.
func (n *Node) Slot(s SlotName) *Slot {
	if s == SeedSlot {
		return &n.Seed
	}
	return &n.Member
}

// Member is one entry of raft's configuration, read from the leader.
type Member struct {
	ID   MemberID
	Node string   // empty: its peer URL belongs to no known node
	Slot SlotName // empty with Node
	URL  string   // for people
	Role Role
	// Started: it has a name in the list, or its process was seen.
	Started Tri
	// Serves: its client port answers, with a leader.
	Serves Tri
	// AtIndex: its applied index is within 1,000 of the leader's, from one look (I7).
	AtIndex Tri
	// Late: it received a database snapshot in this life, holds the leader's index,
	// has a leader and still serves nobody: its publish proposal was lost.
	Late Tri
	// Settled: its process runs long enough that etcd counts it as connected when
	// it judges a removal (5 s, mayRemoveMember); unknown holds nothing back.
	Settled Tri
	// Clients: some proxy has connections to it.
	Clients Tri
	// Lag in entries behind the leader, for choosing and for people; meaningful when AtIndex is known.
	Lag uint64
}

// Tombstone of a member.
type Tombstone struct {
	ID    MemberID
	Final bool
	// Partial: not every agent that answers has it; the step that wrote it, or
	// withdrew it, was cut short.
	Partial bool
}

// Grant is this driver's grant at the joint majorities.
type Grant struct {
	Held Tri
	// By names another holder, for people.
	By string
}

// Proof says which members had equal HashKV at one revision, under which list.
// The hands drop it when member list, epoch or driver change.
type Proof struct {
	// Members proved, sorted; empty: nothing proved.
	Members []MemberID
	// Differ names what differed; a difference stops everything.
	Differ string
}

// Has says whether all ids are proved.
func (p Proof) Has(ids ...MemberID) bool {
	for _, id := range ids {
		ok := false
		for _, m := range p.Members {
			ok = ok || m == id
		}
		if !ok {
			return false
		}
	}
	return true
}

// State is everything that may be known in one look. Slices are sorted (Nodes
// in the spec's order, then others by name; Members by ID).
type State struct {
	Want  Want
	Nodes []Node
	// ListKnown: Members is raft's configuration; otherwise Members is empty.
	ListKnown bool
	Members   []Member
	Leader    MemberID // 0 unknown
	// Founded: the agents know the cluster's ID, so a seed that makes one would be
	// the second (I1).
	Founded bool
	// DBSize is the leader's database in bytes, 0 unknown; not part of String.
	DBSize int64
	// Unstarted are voters that never started, in words, of a list that a member
	// serves while no leader answers: they say why a wait will not pass by itself.
	Unstarted  []string
	Grant      Grant
	Proof      Proof
	Tombstones []Tombstone
}

// Node finds a node by name, nil where there is none.
func (s *State) Node(name string) *Node {
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			return &s.Nodes[i]
		}
	}
	return nil
}

// Member finds a member by ID, nil where there is none.
func (s *State) Member(id MemberID) *Member {
	for i := range s.Members {
		if s.Members[i].ID == id {
			return &s.Members[i]
		}
	}
	return nil
}

// MemberOn finds the member of a node's slot, nil where there is none.
func (s *State) MemberOn(node string, slot SlotName) *Member {
	for i := range s.Members {
		if s.Members[i].Node == node && s.Members[i].Slot == slot {
			return &s.Members[i]
		}
	}
	return nil
}

// SeedMember finds the seed in the list, nil where there is none.
func (s *State) SeedMember() *Member {
	for i := range s.Members {
		if s.Members[i].Slot == SeedSlot {
			return &s.Members[i]
		}
	}
	return nil
}

// Tombstone finds a member's tombstone.
func (s *State) Tombstone(id MemberID) *Tombstone {
	for i := range s.Tombstones {
		if s.Tombstones[i].ID == id {
			return &s.Tombstones[i]
		}
	}
	return nil
}

// Voters lists the voters.
func (s *State) Voters() []Member { return s.withRole(Voter) }

// Learners lists the learners.
func (s *State) Learners() []Member { return s.withRole(Learner) }

func (s *State) withRole(r Role) []Member {
	var out []Member
	for _, m := range s.Members {
		if m.Role == r {
			out = append(out, m)
		}
	}
	return out
}

// Clone copies a state deeply.
func (s State) Clone() State {
	s.Want.Nodes = append([]string(nil), s.Want.Nodes...)
	s.Want.Forget = append([]MemberID(nil), s.Want.Forget...)
	s.Nodes = append([]Node(nil), s.Nodes...)
	s.Members = append([]Member(nil), s.Members...)
	s.Proof.Members = append([]MemberID(nil), s.Proof.Members...)
	s.Tombstones = append([]Tombstone(nil), s.Tombstones...)
	s.Unstarted = append([]string(nil), s.Unstarted...)
	return s
}

// Normalize sorts what has an order: members by ID, tombstones and proof by ID.
func (s *State) Normalize() {
	sort.Slice(s.Members, func(i, j int) bool { return s.Members[i].ID < s.Members[j].ID })
	sort.Slice(s.Tombstones, func(i, j int) bool { return s.Tombstones[i].ID < s.Tombstones[j].ID })
	sort.Slice(s.Proof.Members, func(i, j int) bool { return s.Proof.Members[i] < s.Proof.Members[j] })
}

// String is the state, one fact a line, in a stable order: what stories and the
// walk compare.
func (s State) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "want %s %s", s.Want.Target, strings.Join(s.Want.Nodes, " "))
	for _, id := range s.Want.Forget {
		fmt.Fprintf(&b, " forget=%s", id)
	}
	fmt.Fprintf(&b, "\ngrant %s", s.Grant.Held)
	if s.Grant.By != "" {
		fmt.Fprintf(&b, " by=%q", s.Grant.By)
	}
	b.WriteByte('\n')
	for _, n := range s.Nodes {
		b.WriteString(n.String() + "\n")
	}
	if s.Founded {
		b.WriteString("founded\n")
	}
	if !s.ListKnown {
		b.WriteString("list unknown\n")
	}
	for _, u := range s.Unstarted {
		b.WriteString("unstarted " + u + "\n")
	}
	for _, m := range s.Members {
		b.WriteString(m.String())
		if m.ID == s.Leader {
			b.WriteString(" leader")
		}
		b.WriteByte('\n')
	}
	for _, t := range s.Tombstones {
		fmt.Fprintf(&b, "tombstone %s final=%t partial=%t\n", t.ID, t.Final, t.Partial)
	}
	if len(s.Proof.Members) > 0 || s.Proof.Differ != "" {
		fmt.Fprintf(&b, "proof %v differ=%q\n", s.Proof.Members, s.Proof.Differ)
	}
	return b.String()
}

func (n Node) String() string {
	out := fmt.Sprintf("node %s %s spec=%s member[%s] seed[%s] proxy[routed=%s]",
		n.Name, n.Agent, n.SpecCurrent, n.Member, n.Seed, n.Proxy.Routed)
	if n.Unfit != "" {
		out += " unfit=" + strconv.Quote(n.Unfit)
	}
	return out
}

func (s Slot) String() string {
	out := fmt.Sprintf("%s %s", s.Class, s.Proc)
	if s.ID != 0 {
		out += " id=" + s.ID.String()
	}
	if s.Assigned != 0 && s.Assigned != s.ID {
		out += " assigned=" + s.Assigned.String()
	}
	if s.PeerUp != Unknown {
		out += " peerup=" + s.PeerUp.String()
	}
	if s.Parked {
		out += " parked"
	}
	if s.Kept {
		out += " kept"
	}
	if s.LateRestarted {
		out += " late-restarted"
	}
	if s.Args != "" {
		out += " args=" + s.Args
	}
	return out
}

func (m Member) String() string {
	out := fmt.Sprintf("member %s %s on %s/%s started=%s serves=%s atindex=%s",
		m.ID, m.Role, m.Node, m.Slot, m.Started, m.Serves, m.AtIndex)
	for _, f := range []struct {
		name string
		v    Tri
	}{{"late", m.Late}, {"settled", m.Settled}, {"clients", m.Clients}} {
		if f.v != Unknown {
			out += " " + f.name + "=" + f.v.String()
		}
	}
	return out
}

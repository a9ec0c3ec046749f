package pivot

import "fmt"

// The walk's world is the truth; a State is only what a look shows of it
// (observe). Steps and accidents change the world, the brain sees States.

const (
	maxNodes = 5
	seedIx   = maxNodes // index of the seed beside the members of nodes 0…4
	nobody   = -1
	seedID   = MemberID(1)
	strayID  = MemberID(0xee)
)

// A process of the world: opening holds the lock and answers nobody yet.
type wproc uint8

const (
	wDown wproc = iota
	wOpening
	wUp
	wServing
)

// wetcd is one slot: its directory, its process, and the entry of the member
// list that belongs to it.
type wetcd struct {
	dir           Class // Absent … Older; that a process holds it is proc's business
	mine          bool  // the directory is that of the listed member
	proc          wproc
	parked        bool
	role          Role
	named         bool // it has published its name once
	sync          bool
	late          bool
	lateRestarted bool
	ran           bool // a process with this ID once wrote a log
	recorded      bool // its agent still knows that
	kept          bool // its agent was told to keep this identity running
}

type wnode struct {
	silent, spec            bool
	m                       wetcd
	routed, namesSeed, deaf bool
}

// listed: the list names the identity of this directory and its process.
func (e *wetcd) listed() bool { return e.role != RoleNone && e.mine }

// Strays: what somebody added by hand.
const (
	strayNone = iota
	strayLearner
	strayForgotten // a learner, and a person declared it gone
	strayVoter
)

// world for up to five nodes; the seed lives on node 0.
type world struct {
	node   [maxNodes]wnode
	seed   wetcd
	args   uint8 // of the seed: 0 as everybody's, 1 another value
	leader int8  // index of a member, seedIx or nobody
	grant  bool
	proof  uint8 // bit i: member of node i, bit seedIx: the seed
	tomb   uint8 // of the seed: 0 none, 1 intended, 2 final
	stray  uint8
	faults uint8 // accidents that may still happen
}

// key is a world in canonical form: nodes but the seed's own are alike, so they
// are sorted.
type key struct {
	node [maxNodes]uint32
	rest uint32
}

type bits struct {
	v uint32
	n uint
}

func (b *bits) put(x uint32, width uint) { b.v |= x << b.n; b.n += width }
func (b *bits) flag(x bool) {
	if x {
		b.put(1, 1)
	} else {
		b.put(0, 1)
	}
}
func (b *bits) get(width uint) uint32 {
	x := b.v & (1<<width - 1)
	b.v >>= width
	return x
}
func (b *bits) is() bool { return b.get(1) == 1 }

func (e *wetcd) pack(b *bits) {
	b.put(uint32(e.dir), 3)
	b.put(uint32(e.proc), 2)
	b.put(uint32(e.role), 2)
	for _, f := range []bool{e.mine, e.parked, e.named, e.sync, e.late, e.lateRestarted, e.ran, e.recorded, e.kept} {
		b.flag(f)
	}
}

func (e *wetcd) unpack(b *bits) {
	e.dir, e.proc, e.role = Class(b.get(3)), wproc(b.get(2)), Role(b.get(2))
	for _, f := range []*bool{&e.mine, &e.parked, &e.named, &e.sync, &e.late, &e.lateRestarted, &e.ran, &e.recorded, &e.kept} {
		*f = b.is()
	}
}

func (w *world) key(n int) key {
	var k key
	for i := 0; i < n; i++ {
		var b bits
		nd := &w.node[i]
		nd.m.pack(&b)
		for _, f := range []bool{nd.silent, nd.spec, nd.routed, nd.namesSeed, nd.deaf, int(w.leader) == i, w.proof>>i&1 == 1} {
			b.flag(f)
		}
		k.node[i] = b.v
	}
	for i := 2; i < n; i++ { // insertion sort of nodes 1…
		for j := i; j > 1 && k.node[j] < k.node[j-1]; j-- {
			k.node[j], k.node[j-1] = k.node[j-1], k.node[j]
		}
	}
	var b bits
	w.seed.pack(&b)
	b.put(uint32(w.args), 1)
	b.flag(w.leader == seedIx)
	b.flag(w.grant)
	b.put(uint32(w.proof>>seedIx), 1)
	b.put(uint32(w.tomb), 2)
	b.put(uint32(w.stray), 2)
	b.put(uint32(w.faults), 2)
	k.rest = b.v
	return k
}

func (k key) world(n int) world {
	w := world{leader: nobody}
	for i := 0; i < n; i++ {
		b := bits{v: k.node[i]}
		nd := &w.node[i]
		nd.m.unpack(&b)
		for _, f := range []*bool{&nd.silent, &nd.spec, &nd.routed, &nd.namesSeed, &nd.deaf} {
			*f = b.is()
		}
		if b.is() {
			w.leader = int8(i)
		}
		w.proof |= uint8(b.get(1)) << i
	}
	b := bits{v: k.rest}
	w.seed.unpack(&b)
	w.args = uint8(b.get(1))
	if b.is() {
		w.leader = seedIx
	}
	w.grant = b.is()
	w.proof |= uint8(b.get(1)) << seedIx
	w.tomb, w.stray, w.faults = uint8(b.get(2)), uint8(b.get(2)), uint8(b.get(2))
	return w
}

// at is the etcd of an index; homeOf the node it is on.
func (w *world) at(ix int) *wetcd {
	if ix == seedIx {
		return &w.seed
	}
	return &w.node[ix].m
}

func homeOf(ix int) int {
	if ix == seedIx {
		return 0
	}
	return ix
}

// each calls f for every etcd of n nodes, the seed last.
func (w *world) each(n int, f func(ix int, e *wetcd)) {
	for i := 0; i < n; i++ {
		f(i, &w.node[i].m)
	}
	f(seedIx, &w.seed)
}

// count is the truth about voters: how many there are, run and serve.
func (w *world) count(n int) (of, up, serving int) {
	w.each(n, func(ix int, e *wetcd) {
		if e.role != Voter {
			return
		}
		of++
		if e.proc >= wUp && e.mine {
			up++
		}
		if e.proc == wServing && w.leader != nobody {
			serving++
		}
	})
	if w.stray == strayVoter {
		of++
	}
	return
}

// fix what follows at once from any change: no quorum, no leader, no service.
func (w *world) fix(n int) {
	of, up, _ := w.count(n)
	if w.leader != nobody {
		if l := w.at(int(w.leader)); l.proc < wUp || l.role != Voter || !l.mine || 2*up <= of {
			w.leader = nobody
		}
	}
	if 2*up <= of {
		w.each(n, func(_ int, e *wetcd) {
			if e.proc == wServing {
				e.proc = wUp
			}
		})
	}
	w.each(n, func(_ int, e *wetcd) {
		if !e.listed() && e.proc == wServing {
			e.proc = wUp
		}
		if e.proc < wUp {
			e.late = false
		}
	})
}

// canLead says whether this configuration can ever serve again as its disks are.
// A seed parked on its way out counts, except beside a voter that somebody added
// by hand in that very moment: without a leader the brain cannot see that voter,
// and to it the others look as if they were about to elect.
func (w *world) canLead(n int) bool {
	of, can := 0, 0
	w.each(n, func(_ int, e *wetcd) {
		if e.role != Voter {
			return
		}
		of++
		if e.mine && (e.proc != wDown || e.dir == Whole && !(e.parked && w.stray == strayVoter)) {
			can++
		}
	})
	if w.stray == strayVoter {
		of++
	}
	return 2*can > of
}

func nodeName(i int) string { return fmt.Sprintf("cp-%d", i+1) }

// memberID of a node's member under an order of the nodes: IDs are random in
// real clusters, so the walk lets them follow every order it tries.
func memberID(pos int) MemberID { return MemberID(0x100 + pos) }

func staleID(i int) MemberID { return MemberID(0x50 + i) }

// view is one order of the nodes in the spec.
type view struct {
	order []int // order[p] is the world's node at position p
	pos   [maxNodes]int
}

func newView(order []int) view {
	v := view{order: order}
	for p, i := range order {
		v.pos[i] = p
	}
	return v
}

func (v view) id(ix int) MemberID {
	if ix == seedIx {
		return seedID
	}
	return memberID(v.pos[ix])
}

// index of a member ID, nobody where there is none.
func (v view) index(id MemberID) int {
	switch {
	case id == seedID:
		return seedIx
	case id >= memberID(0) && id < memberID(len(v.order)):
		return v.order[id-memberID(0)]
	}
	return nobody
}

// observe is one look: a silent agent's node is unknown, and so are its members;
// the list is known where a member that serves can be asked.
func (v view) observe(w *world, target Target) State {
	s := State{Want: Want{Target: target}, Grant: Grant{Held: No}}
	if w.grant {
		s.Grant.Held = Yes
	}
	for p, i := range v.order {
		s.Want.Nodes = append(s.Want.Nodes, nodeName(i))
		s.Nodes = append(s.Nodes, v.observeNode(w, p, i))
	}
	asked := false
	w.each(len(v.order), func(ix int, e *wetcd) {
		asked = asked || e.role == Voter && e.proc == wServing && w.leader != nobody && !w.node[homeOf(ix)].silent
		if w.proof>>ix&1 == 1 {
			s.Proof.Members = append(s.Proof.Members, v.id(ix))
		}
	})
	if w.tomb > 0 {
		s.Tombstones = []Tombstone{{ID: seedID, Final: w.tomb == 2}}
	}
	if w.stray == strayForgotten {
		s.Want.Forget = []MemberID{strayID}
	}
	if asked {
		v.observeList(w, &s)
	}
	s.Normalize()
	return s
}

func tri(b bool) Tri {
	if b {
		return Yes
	}
	return No
}

func (v view) observeNode(w *world, p, i int) Node {
	nd := &w.node[i]
	if nd.silent {
		return Node{Name: nodeName(i), Agent: Silent}
	}
	admitted := false
	for j := range v.order {
		admitted = admitted || w.node[j].m.role == Voter && w.node[j].m.proc == wServing && w.leader != nobody
	}
	out := Node{Name: nodeName(i), Agent: Answers, SpecCurrent: tri(nd.spec),
		Proxy:  Proxy{Members: tri(nd.routed && admitted && !nd.deaf), Seed: tri(nd.namesSeed)},
		Member: observeSlot(w, &nd.m, memberID(p), staleID(i), "max-learners=8"),
		Seed:   Slot{Class: Absent, Proc: Down, PeerUp: No}}
	if i == 0 {
		args := "max-learners=8"
		if w.args == 1 {
			args = "max-learners=1"
		}
		out.Seed = observeSlot(w, &w.seed, seedID, seedID, args)
		if w.seed.ran {
			out.Seed.Assigned = seedID
		}
	}
	return out
}

func observeSlot(w *world, e *wetcd, mine, stale MemberID, args string) Slot {
	sl := Slot{Class: e.dir, Proc: Down, PeerUp: tri(e.proc >= wUp), Parked: e.parked, LateRestarted: e.lateRestarted}
	switch {
	case e.mine:
		sl.ID = mine
	case e.dir == Whole || e.dir == Older:
		sl.ID = stale
	}
	if e.kept && e.proc == wDown {
		sl.Kept, sl.Assigned = true, mine
	}
	if e.proc != wDown {
		sl.Class, sl.Proc, sl.Args = Running, Up, args
		if e.proc == wServing && w.leader != nobody {
			sl.Proc = Serving
		}
	}
	return sl
}

func (v view) observeList(w *world, s *State) {
	s.ListKnown = true
	s.Leader = v.id(int(w.leader))
	w.each(len(v.order), func(ix int, e *wetcd) {
		if e.role == RoleNone {
			return
		}
		m := Member{ID: v.id(ix), Node: nodeName(homeOf(ix)), Slot: MemberSlot, Role: e.role, Started: tri(e.named), Serves: Unknown, AtIndex: Unknown}
		if ix == seedIx {
			m.Slot = SeedSlot
		}
		if !w.node[homeOf(ix)].silent {
			m.Started = tri(e.named || e.recorded)
			m.Serves = tri(e.proc == wServing)
			m.AtIndex = tri(e.sync && e.mine && e.proc >= wUp)
			m.Late = tri(e.late)
			if m.AtIndex == No {
				m.Lag = 5000
			}
		}
		s.Members = append(s.Members, m)
	})
	switch w.stray {
	case strayLearner, strayForgotten:
		s.Members = append(s.Members, Member{ID: strayID, URL: "https://192.0.2.9:2380", Role: Learner, Started: No})
	case strayVoter:
		s.Members = append(s.Members, Member{ID: strayID, URL: "https://192.0.2.9:2380", Role: Voter, Started: No})
	}
}

package pivot

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
	tomb          uint8
	clients       bool // somebody's connection through a proxy
}

// Tombstones of the identity that was listed last.
const (
	tombNone = iota
	tombIntended
	tombFinal
	tombPartial // at some agents only
)

type wnode struct {
	silent, spec bool
	m            wetcd
	routed, deaf bool // routed: its targets are those of this very list and target
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
	stray  uint8
	faults uint8 // accidents that may still happen
	back   bool  // a person wants one seed
	known  bool  // the agents know the cluster's ID
}

func (w *world) target() Target {
	if w.back {
		return TargetSeed
	}
	return TargetMembers
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
	b.put(uint32(e.tomb), 2)
	for _, f := range []bool{e.mine, e.parked, e.named, e.sync, e.late, e.lateRestarted, e.ran, e.recorded, e.kept, e.clients} {
		b.flag(f)
	}
}

func (e *wetcd) unpack(b *bits) {
	e.dir, e.proc, e.role, e.tomb = Class(b.get(3)), wproc(b.get(2)), Role(b.get(2)), uint8(b.get(2))
	for _, f := range []*bool{&e.mine, &e.parked, &e.named, &e.sync, &e.late, &e.lateRestarted, &e.ran, &e.recorded, &e.kept, &e.clients} {
		*f = b.is()
	}
}

func (w *world) key(n int) key {
	var k key
	for i := 0; i < n; i++ {
		var b bits
		nd := &w.node[i]
		nd.m.pack(&b)
		for _, f := range []bool{nd.silent, nd.spec, nd.routed, nd.deaf, int(w.leader) == i, w.proof>>i&1 == 1} {
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
	b.put(uint32(w.stray), 2)
	b.put(uint32(w.faults), 2)
	b.flag(w.back)
	b.flag(w.known)
	k.rest = b.v
	return k
}

func (k key) world(n int) world {
	w := world{leader: nobody}
	for i := 0; i < n; i++ {
		b := bits{v: k.node[i]}
		nd := &w.node[i]
		nd.m.unpack(&b)
		for _, f := range []*bool{&nd.silent, &nd.spec, &nd.routed, &nd.deaf} {
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
	w.stray, w.faults = uint8(b.get(2)), uint8(b.get(2))
	w.back, w.known = b.is(), b.is()
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
		w.forget(e)
	})
}

// forget what tells no two worlds apart any more.
func (w *world) forget(e *wetcd) {
	if e.role != Learner {
		e.late, e.lateRestarted = false, false
	}
	if e.proc == wDown || !w.back {
		e.clients = false
	}
	if gone := e.dir == Absent || e.dir == Empty; gone && e.role == RoleNone && e.proc == wDown && !e.kept && w.known {
		*e = wetcd{dir: e.dir, tomb: e.tomb}
		if e.tomb == tombFinal {
			e.tomb = tombNone
		}
	}
}

// drains is the truth about who gets no new connection (State.Drains).
func (w *world) drains(ix, n int) bool {
	if !w.back {
		return ix == seedIx
	}
	of, _, _ := w.count(n)
	return ix != seedIx && (w.seed.role == Voter || w.at(ix).role == Learner || w.seed.role == Learner && ix == 0 && of >= 3)
}

// targets is what every proxy should have, to compare.
func (w *world) targets(n int) (k uint32) {
	w.each(n, func(ix int, e *wetcd) {
		if e.role != RoleNone {
			k |= 1 << ix
			if w.drains(ix, n) {
				k |= 0x100 << ix
			}
		}
	})
	return k
}

// unroute: what the proxies have is out of date once their targets should be others.
func (w *world) unroute(before uint32, n int) {
	if w.targets(n) != before {
		for i := range w.node {
			w.node[i].routed = false
		}
	}
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

func nodeName(i int) string { return nodeNames[i] }

var nodeNames = [maxNodes]string{"cp-1", "cp-2", "cp-3", "cp-4", "cp-5"}

// memberID of a node's member under an order of the nodes: IDs are random in
// real clusters, so the walk lets them follow every order it tries.
func memberID(pos int) MemberID { return MemberID(0x100 + pos) }

func staleID(i int) MemberID { return MemberID(0x50 + i) }

const staleSeedID = MemberID(0x60)

package pivot

import "fmt"

// edge is one thing that happens to the world.
type edge struct {
	label string
	to    world
	// progress: nothing fails. Only these edges count for liveness.
	progress bool
	step     bool // one of ours
}

// perform is a step of ours that worked, on the truth; it is written apart from Apply.
func (v view) perform(w world, step Step) world {
	n := len(v.order)
	ix := v.index(step.ID)
	before := w.targets(n)
	node := nobody
	for i := 0; i < n; i++ {
		if nodeName(i) == step.Node {
			node = i
		}
	}
	slot := func() *wetcd {
		if step.Slot == SeedSlot {
			return &w.seed
		}
		return &w.node[node].m
	}
	switch step.Kind {
	case TakeGrant:
		w.grant = true
	case WriteSpec:
		for i := 0; i < n; i++ {
			w.node[i].spec = w.node[i].spec || !w.node[i].silent
		}
	case RegisterLearner:
		e := slot()
		e.role, e.named, e.sync, e.late, e.lateRestarted, e.mine, e.ran, e.recorded, e.kept, e.tomb = Learner, false, false, false, false, false, false, false, false, tombNone
	case StartSeed, StartMember:
		w.start(slot(), step.Kind == StartSeed && w.seed.role == RoleNone)
	case RestartLateMember:
		e := slot()
		e.proc, e.late, e.lateRestarted = wOpening, false, true
	case RestartMember:
		e := slot()
		e.proc, e.clients, e.sync = wOpening, false, false
	case PromoteLearner:
		w.at(ix).role = Voter
	case ProveHashes:
		w.proof = 0
		w.each(n, func(i int, e *wetcd) {
			if e.role == Voter && e.proc == wServing && !w.node[homeOf(i)].silent {
				w.proof |= 1 << i
			}
		})
	case RouteProxies:
		for i := 0; i < n; i++ {
			w.route(i, n)
		}
	case MoveLeader:
		w.leader = int8(ix)
	case WriteTombstone:
		w.at(ix).tomb = tombIntended
	case WithdrawTombstone:
		w.at(ix).tomb = tombNone
	case FinishTombstone:
		w.at(ix).tomb = tombFinal
	case StopMember:
		e := slot()
		e.proc, e.parked, e.kept, e.sync, e.clients = wDown, true, false, false, false
	case RemoveMember:
		if step.ID == strayID {
			w.stray = strayNone
			break
		}
		e := w.at(ix)
		w.proof &^= 1 << ix
		e.role, e.named, e.sync, e.late = RoleNone, false, false, false
	case RetireDirectory:
		e := slot()
		if e.kept {
			break // its agent refuses
		}
		e.dir, e.mine, e.parked, e.recorded = Absent, false, false, false
		if e.role == RoleNone {
			e.ran = false
		}
	}
	w.fix(n)
	w.unroute(before, n)
	return w
}

func (w *world) start(e *wetcd, seed bool) {
	e.proc, e.parked, e.kept = wOpening, false, true
	if e.dir != Absent && e.dir != Empty {
		return
	}
	e.dir, e.mine, e.ran, e.recorded = Whole, true, true, true
	if seed { // the first start makes the cluster
		e.role, e.named, w.known = Voter, true, true
	}
}

func (w *world) route(i, n int) {
	if w.node[i].silent {
		return
	}
	w.node[i].routed = true
	for j := 0; j < n; j++ {
		e := &w.node[j].m
		e.clients = e.clients || e.role == Voter && e.proc == wServing && !w.drains(j, n)
	}
}

// turn is a person who changes their mind, by another command.
func turn(w world, n int) world {
	before := w.targets(n)
	w.back = !w.back
	for i := range w.node {
		w.node[i].spec = false
	}
	for i := range w.node {
		e := &w.node[i].m
		e.clients = w.back && e.role == Voter && e.proc == wServing
	}
	w.fix(n)
	w.unroute(before, n)
	return newDriver(w)
}

// newDriver: the driver is gone and another one looks; grant and proof were its own.
func newDriver(w world) world {
	w.grant, w.proof = false, 0
	return w
}

// slot of a step: the node's index and the etcd there.
func (v view) slot(w *world, step Step) (node int, e *wetcd) {
	for i := range v.order {
		if nodeName(i) == step.Node {
			if step.Slot == SeedSlot {
				return i, &w.seed
			}
			return i, &w.node[i].m
		}
	}
	return nobody, nil
}

// halves are what a driver killed within a step may leave behind (I8).
func (v view) halves(w world, step Step) []edge {
	n := len(v.order)
	var out []edge
	add := func(what string, x world) {
		x.fix(n)
		out = append(out, edge{label: "killed within " + step.String() + ": " + what, to: newDriver(x)})
	}
	switch step.Kind {
	case WriteSpec, RouteProxies:
		for i := 0; i < n && !v.coarse; i++ {
			x := w
			if x.node[i].silent {
				continue
			}
			if step.Kind == WriteSpec {
				x.node[i].spec = true
			} else {
				x.route(i, n)
			}
			add("only "+nodeName(i)+" has it", x)
		}
	case StopMember:
		x := w
		_, e := v.slot(&x, step)
		e.parked, e.kept = true, false
		add("parked and not yet signalled", x)
	case WriteTombstone, WithdrawTombstone:
		x := w
		x.at(v.index(step.ID)).tomb = tombPartial
		add("some agents have it", x)
	case RestartLateMember:
		x := w
		e := x.at(v.index(step.ID))
		e.lateRestarted, e.proc, e.late = true, wDown, false
		add("counted and stopped", x)
	case StartMember:
		x := w
		if e := &x.node[v.order[0]].m; e.dir == Absent && nodeName(v.order[0]) == step.Node {
			e.dir = Empty
			add("the directory is made and nothing in it", x)
			e.kept = true
			add("the agent has it written down, the directory is made and nothing in it", x)
		}
	}
	return out
}

// progress is what time brings where nothing fails.
func (w *world) progress(n int) []edge {
	var out []edge
	add := func(label string, f func(x *world)) {
		x := *w
		f(&x)
		x.fix(n)
		out = append(out, edge{label: label, to: x, progress: true})
	}
	for i := 0; i < n; i++ {
		if w.node[i].silent {
			add(nodeName(i)+" answers again", func(x *world) { x.node[i].silent = false })
		}
		if w.node[i].deaf {
			add("the proxy of "+nodeName(i)+" admits again", func(x *world) { x.node[i].deaf = false })
		}
	}
	of, up, _ := w.count(n)
	w.each(n, func(ix int, e *wetcd) {
		name := etcdName(ix)
		led := w.leader != nobody && e.listed()
		switch {
		case e.proc == wDown && e.listed() && e.dir == Whole && !e.parked:
			add("the agent restarts "+name, func(x *world) { x.at(ix).proc = wOpening })
		case e.proc == wDown && e.kept && e.role != RoleNone && !e.ran && (e.dir == Absent || e.dir == Empty):
			add("the agent starts "+name+" again", func(x *world) { x.start(x.at(ix), false) })
		case e.proc == wOpening:
			add(name+" answers its peers", func(x *world) { x.at(ix).proc = wUp })
		case e.proc == wUp && led:
			add(name+" serves", func(x *world) { y := x.at(ix); y.proc, y.named, y.late = wServing, true, false })
		}
		if e.proc >= wUp && led && !e.sync {
			add(name+" is in sync", func(x *world) { x.at(ix).sync = true })
		}
		if e.proc == wUp && led && e.sync && e.role == Learner && !e.late && !e.lateRestarted {
			add(name+" is late", func(x *world) { x.at(ix).late = true })
		}
		if e.proc != wDown && !e.listed() {
			// It read its removal; its own directory says so from now on.
			add(name+" learns of its removal and ends", func(x *world) { y := x.at(ix); y.proc, y.dir = wDown, Older })
		}
		if w.leader == nobody && e.role == Voter && e.mine && e.proc >= wUp && 2*up > of {
			add(name+" is elected", func(x *world) { x.leader = int8(ix); x.at(ix).sync = true })
		}
	})
	return out
}

func etcdName(ix int) string {
	if ix == seedIx {
		return "the seed"
	}
	return nodeName(ix) + "'s member"
}

// accidents are what may go wrong; each costs one of the world's faults.
func (w *world) accidents(n int) []edge {
	if w.faults == 0 {
		return nil
	}
	var out []edge
	add := func(label string, f func(x *world)) {
		x := *w
		x.faults--
		f(&x)
		x.fix(n)
		x.unroute(w.targets(n), n)
		out = append(out, edge{label: "ACCIDENT " + label, to: x})
	}
	for i := 0; i < n; i++ {
		if !w.node[i].silent {
			add(nodeName(i)+" goes silent", func(x *world) { x.node[i].silent = true })
		}
		if w.node[i].routed && !w.node[i].deaf {
			add("the proxy of "+nodeName(i)+" loses its member", func(x *world) { x.node[i].deaf = true })
		}
	}
	if w.stray == strayNone && w.leader != nobody {
		for kind, what := range map[uint8]string{strayLearner: "a learner", strayForgotten: "a learner, declared gone,", strayVoter: "a voter"} {
			add("somebody adds "+what+" by hand", func(x *world) { x.stray = kind })
		}
	}
	w.each(n, func(ix int, e *wetcd) { w.accidentsOf(ix, e, add) })
	return out
}

func (w *world) accidentsOf(ix int, e *wetcd, add func(string, func(*world))) {
	name := etcdName(ix)
	if e.proc != wDown {
		add(name+" dies", func(x *world) { y := x.at(ix); y.proc, y.sync = wDown, false })
		if ix != seedIx {
			add(name+" dies, and a write cut short leaves it parked", func(x *world) { y := x.at(ix); y.proc, y.sync, y.parked, y.kept = wDown, false, true, false })
		}
	}
	if e.role == Learner && e.proc == wOpening && !e.named && !e.lateRestarted {
		add(name+" ends before it wrote anything", func(x *world) {
			y := x.at(ix)
			y.proc, y.dir, y.mine, y.ran, y.recorded = wDown, Absent, false, false, false
		})
	}
	if e.role == Learner && e.mine && !e.sync && e.dir == Whole {
		add(name+" dies half way", func(x *world) { y := x.at(ix); y.proc, y.dir = wDown, Part })
	}
	if e.role == Voter && int(w.leader) != ix && w.leader != nobody && e.proc == wServing {
		add(name+" takes leadership", func(x *world) { x.leader = int8(ix); x.at(ix).sync = true })
	}
	if e.role != RoleNone && e.mine && e.ran {
		for _, c := range []Class{Absent, Part, Foreign, Older} {
			add(fmt.Sprintf("%s dies, its directory is %s", name, c), func(x *world) {
				y := x.at(ix)
				y.proc, y.sync, y.dir, y.mine = wDown, false, c, c == Part
			})
		}
	}
}

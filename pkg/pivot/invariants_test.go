package pivot

import "fmt"

// broken says which invariant a step of ours breaks, "" where none. It judges
// the truth, before and after, and shares nothing with the guards.
func (v view) broken(before, after world, step Step) string {
	n := len(v.order)
	for _, f := range []func(world, world, Step, int) string{
		v.brokenRight, v.brokenSilence, v.brokenGrowth, v.brokenDirectory, v.brokenLeave, v.brokenQuorum,
	} {
		if why := f(before, after, step, n); why != "" {
			return why
		}
	}
	return ""
}

func (v view) target(w *world, step Step, n int) (e *wetcd, node int) {
	for i := 0; i < n; i++ {
		if nodeName(i) == step.Node {
			if step.Slot == SeedSlot {
				return &w.seed, i
			}
			return &w.node[i].m, i
		}
	}
	return nil, nobody
}

// brokenRight: nothing without grant and spec (I1); the spec names the node.
func (v view) brokenRight(w, _ world, step Step, n int) string {
	if step.Kind != TakeGrant && !w.grant {
		return "I1: acts without a grant"
	}
	if step.Kind != TakeGrant && step.Kind != WriteSpec {
		for i := 0; i < n; i++ {
			if !w.node[i].silent && !w.node[i].spec {
				return "I1: acts before " + nodeName(i) + " stores the spec"
			}
		}
	}
	if _, node := v.target(&w, step, n); step.Node != "" && node == nobody {
		return "I1: the spec does not name " + step.Node
	}
	if step.Slot == SeedSlot && step.Node != nodeName(0) {
		return "I1: another node's seed"
	}
	return ""
}

// brokenQuorum: I2, whatever the step.
func (v view) brokenQuorum(w, x world, step Step, n int) string {
	of, _, have := w.count(n)
	of2, _, have2 := x.count(n)
	if 2*have > of && 2*have2 <= of2 {
		return fmt.Sprintf("I2: %d of %d voters served, now %d of %d", have, of, have2, of2)
	}
	return ""
}

var irreversible = map[Kind]bool{RegisterLearner: true, PromoteLearner: true, RestartLateMember: true, MoveLeader: true,
	WriteTombstone: true, FinishTombstone: true, StopMember: true, RemoveMember: true, RetireDirectory: true}

// brokenSilence: I4.
func (v view) brokenSilence(w, _ world, step Step, n int) string {
	if !irreversible[step.Kind] {
		return ""
	}
	for i := 0; i < n; i++ {
		if w.node[i].silent {
			return "I4: " + nodeName(i) + " is silent"
		}
	}
	if w.leader == nobody {
		return "I4: nobody leads, so the list is unknown"
	}
	if w.stray != strayNone && membershipStep(step.Kind) && !(step.ID == strayID && w.stray == strayForgotten) {
		return "I4: a membership step beside a member nobody understands"
	}
	return ""
}

// brokenGrowth: I7, I11, and the order of starts.
func (v view) brokenGrowth(w, x world, step Step, n int) string {
	e, node := v.target(&w, step, n)
	switch step.Kind {
	case PromoteLearner:
		if e.role != Learner || !e.sync || e.proc != wServing {
			return "I7: promoted and not a learner in sync that serves"
		}
	case RegisterLearner:
		if y := &x.node[node].m; step.Slot != MemberSlot || e.role != RoleNone || y.role != Learner {
			return "I7: added and not as the first member of its node, as a learner"
		}
		for i := 0; i < n; i++ {
			if w.node[i].m.role == Learner && w.args == 1 && w.seed.role != RoleNone {
				return "I11: a second learner beside different arguments"
			}
		}
	case StartMember:
		if e.dir != Absent && e.dir != Empty {
			break
		}
		for i := 0; i < n; i++ {
			if o := &w.node[i].m; o.role == Learner && o.mine && o.proc == wOpening {
				return "order: started before " + nodeName(i) + " answers its peers"
			}
			if w.args == 0 && w.node[i].m.role == RoleNone {
				return "order: started before all were registered"
			}
		}
	case RestartLateMember:
		if e.role != Learner || e.proc != wUp || !e.late || e.lateRestarted {
			return "I2: restarted and not a late learner, once"
		}
	case MoveLeader:
		if ix := v.index(step.ID); ix == nobody || w.at(ix).role != Voter || w.at(ix).proc != wServing || !w.at(ix).sync {
			return "I7: leadership to one that cannot lead"
		}
	}
	return ""
}

// brokenDirectory: I3, I9, one process per directory.
func (v view) brokenDirectory(w, _ world, step Step, n int) string {
	e, node := v.target(&w, step, n)
	switch step.Kind {
	case StartSeed, StartMember:
		switch {
		case e.proc != wDown:
			return "two processes on one directory"
		case w.node[node].silent:
			return "I4: started through a silent agent"
		case e.dir != Absent && e.dir != Empty && e.dir != Whole:
			return "I9: started on a directory that is " + e.dir.String()
		case e.dir != Whole && (e.ran || step.Kind == StartMember && e.role == RoleNone):
			return "I9: an identity that ran, or that nobody registered, starts on nothing"
		case step.Slot == SeedSlot && e.dir == Whole && e.role == RoleNone && w.tomb == 2:
			return "I9: started under a final tombstone"
		}
	case RetireDirectory:
		switch {
		case e.proc != wDown:
			return "I3: retired under a process"
		case e.dir == Foreign || e.dir == Absent || e.dir == Empty:
			return "I3: retired what is not ours: " + e.dir.String()
		case e.listed() && (e.dir == Whole || e.role == Voter):
			return "I3: retired the newest copy of a listed member"
		case step.Slot == SeedSlot:
			return v.brokenLastCopy(w, n)
		}
	case RemoveMember:
		if ix := v.index(step.ID); ix != nobody && ix != seedIx && w.at(ix).listed() && w.at(ix).dir == Whole {
			return "I9: removed a member whose directory is whole"
		}
	}
	return ""
}

// brokenLastCopy: the seed's directory goes when every voter holds the data and is proved.
func (v view) brokenLastCopy(w world, n int) string {
	if w.seed.role != RoleNone {
		return "I3: the seed's directory retired while it is listed"
	}
	for i := 0; i < n; i++ {
		if e := &w.node[i].m; e.role != Voter || !e.mine || e.dir != Whole {
			return "I3: the seed's directory retired before " + nodeName(i) + " holds the data"
		}
		if w.proof>>i&1 == 0 {
			return "I3: the seed's directory retired before " + nodeName(i) + " is proved"
		}
	}
	return ""
}

// brokenLeave: what must stand before a voter goes (M12, I8).
func (v view) brokenLeave(w, _ world, step Step, n int) string {
	switch step.Kind {
	case FinishTombstone:
		if w.seed.role != RoleNone {
			return "I8: a tombstone made final before the removal"
		}
	case StopMember, RemoveMember:
		ix := v.index(step.ID)
		if ix == nobody || w.at(ix).role != Voter {
			return ""
		}
		if ix != seedIx {
			return "I4: a managed voter goes"
		}
		if w.tomb == 0 {
			return "I8: a voter goes without a tombstone"
		}
		for i := 0; i < n; i++ {
			nd := &w.node[i]
			if nd.m.role != Voter || !nd.m.mine || nd.m.dir != Whole {
				return "I3: the seed goes before " + nodeName(i) + " holds the data as a voter"
			}
			if i != 0 && w.proof>>i&1 == 0 { // node 0's own is proved after
				return "I3: the seed goes before " + nodeName(i) + " is proved"
			}
			if !nd.routed || nd.deaf {
				return "I1: the seed goes before the proxy of " + nodeName(i) + " is on a member"
			}
		}
	}
	return ""
}

// unfinished says what a Done leaves undone.
func (w *world) unfinished(n int) string {
	_, _, serving := w.count(n)
	switch {
	case serving != n || w.stray != strayNone:
		return fmt.Sprintf("%d of %d voters serve", serving, n)
	case w.seed.role != RoleNone || w.seed.proc != wDown:
		return "the seed is still there"
	case w.seed.dir != Absent && w.seed.dir != Empty && w.seed.dir != Foreign:
		return "the seed's directory is still in its place"
	case w.tomb != 2:
		return "the seed's tombstone is not final"
	}
	for i := 0; i < n; i++ {
		if nd := &w.node[i]; nd.silent || !nd.routed || nd.namesSeed || nd.deaf {
			return "the proxy of " + nodeName(i) + " is not on members alone"
		}
	}
	return ""
}

// idle names a listed member that is down on a whole directory where nothing
// keeps it from starting.
func (w *world) idle(n int) string {
	name := ""
	w.each(n, func(ix int, e *wetcd) {
		if e.listed() && e.dir == Whole && e.proc == wDown && !e.parked && !e.kept && !w.node[homeOf(ix)].silent {
			name = etcdName(ix)
		}
	})
	return name
}

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

func (v view) target(w *world, step Step, _ int) (e *wetcd, node int) {
	node, e = v.slot(w, step)
	return e, node
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
	WriteTombstone: true, FinishTombstone: true, WithdrawTombstone: true, RestartMember: true, StopMember: true, RemoveMember: true, RetireDirectory: true}

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
	e, _ := v.target(&w, step, n)
	switch step.Kind {
	case PromoteLearner:
		if e.role != Learner || !e.sync || e.proc != wServing {
			return "I7: promoted and not a learner in sync that serves"
		}
		if w.back != (step.Slot == SeedSlot) {
			return "I7: promoted what the spec has no place for"
		}
		if of, _, _ := w.count(n); w.back && of >= 3 && w.node[0].m.role == Voter {
			return "I2: two voters on one machine, and it could have been none"
		}
	case RegisterLearner:
		if y, _ := v.target(&x, step, n); e.role != RoleNone || y.role != Learner || w.back != (step.Slot == SeedSlot) {
			return "I7: added and not as the first member of its node, as a learner"
		}
		learners := 0
		w.each(n, func(_ int, e *wetcd) {
			if e.role == Learner {
				learners++
			}
		})
		if learners > 0 && w.args == 1 && w.seed.role != RoleNone {
			return "I11: a second learner beside different arguments"
		}
	case StartMember:
		if e.dir != Absent && e.dir != Empty {
			break
		}
		for i := 0; i < n; i++ {
			if o := &w.node[i].m; o.role == Learner && o.mine && o.proc == wOpening {
				return "order: started before " + nodeName(i) + " answers its peers"
			}
			if w.args == 0 && !w.back && w.node[i].m.role == RoleNone {
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
		case e.dir != Whole && (e.ran || (step.Kind == StartMember || w.known) && e.role == RoleNone):
			return "I9: an identity that ran, or that nobody registered, starts on nothing"
		case e.dir == Whole && e.mine && e.role == RoleNone && e.tomb == tombFinal:
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
		case step.Slot == SeedSlot || w.back:
			return v.brokenLastCopy(w, e, n)
		}
	case RemoveMember:
		if ix := v.index(step.ID); ix != nobody && w.back == (ix == seedIx) && w.at(ix).listed() && w.at(ix).dir == Whole {
			return "I9: removed a wanted member whose directory is whole"
		}
	}
	return ""
}

// brokenLastCopy: a directory that the target has no use for goes when every
// voter holds the data and is proved; the seed's, when every node has one.
func (v view) brokenLastCopy(w world, e *wetcd, n int) string {
	if e.listed() {
		return "I3: a directory retired while its member is listed"
	}
	why := ""
	w.each(n, func(ix int, e *wetcd) {
		switch {
		case e.role != Voter && (w.back || ix == seedIx):
		case e.role != Voter || !e.mine || e.dir != Whole:
			why = "I3: a directory retired before " + etcdName(ix) + " holds the data"
		case w.proof>>ix&1 == 0:
			why = "I3: a directory retired before " + etcdName(ix) + " is proved"
		}
	})
	if of, _, _ := w.count(n); of == 0 {
		why = "I3: a directory retired and nobody holds the data"
	}
	return why
}

// brokenLeave: what must stand before a voter goes (M12, I8).
func (v view) brokenLeave(w, _ world, step Step, n int) string {
	switch step.Kind {
	case FinishTombstone:
		if w.at(v.index(step.ID)).role != RoleNone {
			return "I8: a tombstone made final before the removal"
		}
	case WithdrawTombstone:
		if ix := v.index(step.ID); w.at(ix).role == RoleNone || w.back != (ix == seedIx) {
			return "I8: a tombstone taken back of a member that is gone, or goes"
		}
	case StopMember, RemoveMember, RestartMember:
		ix := v.index(step.ID)
		if ix == nobody || w.at(ix).role != Voter {
			return ""
		}
		if w.back == (ix == seedIx) {
			return "I4: a voter goes that the spec wants"
		}
		if w.at(ix).tomb != tombIntended && step.Kind != RestartMember {
			return "I8: a voter goes without a tombstone"
		}
		if w.back {
			return v.brokenReturn(w, ix, n)
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

// brokenReturn: what must stand before a member goes on the way to a seed.
func (v view) brokenReturn(w world, ix, n int) string {
	if s := &w.seed; !s.mine || s.dir != Whole || s.proc != wServing || !s.sync && int(w.leader) != seedIx {
		return "I3: a member goes before the seed holds the data and serves"
	}
	if w.seed.role != Voter && ix != 0 {
		return "I2: another member than the one on the seed's node goes before the seed has a vote"
	}
	why := ""
	others := 0
	w.each(n, func(jx int, e *wetcd) {
		if e.role != Voter || e.parked && e.proc == wDown {
			return
		}
		if w.proof>>jx&1 == 0 {
			why = "I3: a member goes before " + etcdName(jx) + " is proved"
		}
		if jx != ix && e.proc == wServing {
			others++
		}
	})
	if others == 0 {
		return "I3: a member goes and no other voter serves"
	}
	for i := 0; i < n; i++ {
		if nd := &w.node[i]; !nd.routed || nd.deaf {
			return "I1: a member goes before the proxy of " + nodeName(i) + " is on one that stays"
		}
	}
	return why
}

// unfinished says what a Done leaves undone.
func (w *world) unfinished(n int) string {
	of, _, serving := w.count(n)
	want := n
	if w.back {
		want = 1
	}
	if serving != want || of != want || w.stray != strayNone {
		return fmt.Sprintf("%d of %d voters serve", serving, of)
	}
	why := ""
	w.each(n, func(ix int, e *wetcd) {
		goes := w.back == (ix != seedIx)
		switch {
		case e.tomb == tombIntended || e.tomb == tombPartial:
			why = "a tombstone of " + etcdName(ix) + " is neither final nor taken back"
		case !goes && e.role != Voter:
			why = etcdName(ix) + " is missing"
		case !goes:
		case e.role != RoleNone || e.proc != wDown || e.kept:
			why = etcdName(ix) + " is still there"
		case e.dir != Absent && e.dir != Empty && e.dir != Foreign:
			why = "the directory of " + etcdName(ix) + " is still in its place"
		}
	})
	for i := 0; i < n; i++ {
		if nd := &w.node[i]; nd.silent || !nd.routed || nd.deaf {
			return "the proxy of " + nodeName(i) + " is not on what stays alone"
		}
	}
	return why
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

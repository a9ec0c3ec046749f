//go:build cases || sweep

package cases

import (
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// Agents are killed and started again in turn, one after each step, under one
// grant: it counts as fresh in the new agent, and the driver goes on with it.
func TestAgentsKilledInTurn(t *testing.T) {
	t.Parallel()
	l := rig.Up(t, 3)
	steps := inTurn(t, l, 0, func(n int, _ pivot.Step) *accident {
		a := agentDies(n % 3)
		return &a
	})
	if n := count(steps, "TakeGrant"); n != 1 {
		t.Errorf("%d grants taken, want one for all of it: %v", n, steps)
	}
}

// After each step the seed is killed, or the member of a joining node, in turn;
// their agents start them again.
func TestSeedAndJoinersKilledInTurn(t *testing.T) {
	t.Parallel()
	l := rig.Up(t, 3)
	rig.Must(t, lab.Fill(rig.Context(t, time.Minute), l.Client(0), "/fill", 5))
	victims := []accident{dies(0, "seed"), dies(2, "member"), dies(0, "seed"), dies(1, "member")}
	inTurn(t, l, 0, func(n int, step pivot.Step) *accident {
		if step.Kind == pivot.TakeGrant || step.Kind == pivot.WriteSpec {
			return &victims[0]
		}
		return &victims[n%len(victims)]
	})
}

// A node loses its power in mid-pivot: the seed's, while the seed is the only
// voter and its learners join; then a joined one, between the proof and the routing.
func TestPowerLossInMidPivot(t *testing.T) {
	t.Parallel()
	l := rig.Up(t, 3)
	seen := map[pivot.Kind]int{}
	inTurn(t, l, 1, func(_ int, step pivot.Step) *accident {
		seen[step.Kind]++
		var a accident
		switch {
		case step.Kind == pivot.StartMember && step.Node == "cp-2" && seen[step.Kind] <= 3:
			a = losesPower(0, 2*time.Second)
		case step.Kind == pivot.ProveHashes && seen[step.Kind] == 1:
			a = losesPower(2, 2*time.Second)
		default:
			return nil
		}
		return &a
	})
}

// A member is paused for 10 s where it tells: the seed, leading alone, while its
// learners join; a voter between routing and the move of leadership; the seed
// when it is about to be stopped.
func TestPausedForTenSeconds(t *testing.T) {
	t.Parallel()
	l := rig.Up(t, 3)
	const pause = 10 * time.Second
	done := map[string]bool{}
	steps := inTurn(t, l, 0, func(_ int, step pivot.Step) *accident {
		var a accident
		switch {
		case step.Kind == pivot.StartMember && step.Node == "cp-2":
			a = pausedFor(0, "seed", pause)
		case step.Kind == pivot.RouteProxies:
			a = pausedFor(1, "member", pause)
		case step.Kind == pivot.WriteTombstone:
			a = pausedFor(0, "seed", pause)
		}
		if key := string(step.Kind); a.do == nil || done[key] {
			return nil
		} else {
			done[key] = true
		}
		return &a
	})
	if len(done) != 3 || count(steps, "RemoveMember") != 1 {
		t.Errorf("paused at %v, in %v", done, steps)
	}
}

// Five nodes at once, under writers.
func TestPivotOfFive(t *testing.T) {
	t.Parallel()
	l := rig.Up(t, 5)
	ctx := rig.Context(t, 3*time.Minute)
	w := load(ctx, t, l)
	start := time.Now()
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatal(r)
	}
	_, failed, errs := w.Counts()
	t.Logf("five voters and no seed after %.1f s; %d writes failed %v", time.Since(start).Seconds(), failed, errs)
	finish(ctx, t, l, w)
}

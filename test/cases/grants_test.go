//go:build cases || sweep

package cases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// A driver is paused past its grant, another takes over, the first one is
// resumed: what it would still send is refused by every agent, it waits for the
// other, and nothing is done twice.
func TestDriverPausedPastItsGrant(t *testing.T) {
	t.Parallel()
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 4*time.Minute)
	w := load(ctx, t, l)
	first := startPivot(t, l, l.PivotArgs(0)...)
	first.await(60*time.Second, "PromoteLearner cp-2")
	rig.Must(t, first.cmd.Process.Signal(syscall.SIGSTOP))
	fence, err := agents(t, l).Fence(ctx, l.Nodes[0].Ref.Address)
	rig.Must(t, err)
	late := false
	drive(ctx, t, l, 1, func(_ int, step pivot.Step) {
		if step.Kind == pivot.TakeGrant && !late {
			late = true
			refusesLate(ctx, t, l, fence)
			rig.Must(t, first.cmd.Process.Signal(syscall.SIGCONT))
		}
	})
	if !late {
		t.Error("the second driver took no grant")
	}
	if err := first.wait(); err != nil {
		t.Errorf("the first driver: %v\n%s", err, first.text())
	}
	if said := first.text(); !strings.Contains(said, "GrantHeld") && !strings.Contains(said, "number") {
		t.Errorf("the first driver does not say what it met:\n%s", said)
	}
	oneAtATime(ctx, t, l)
	finish(ctx, t, l, w)
}

// refusesLate sends every mutating call as the driver of fence would, whose
// grant has been taken over since; each agent refuses each by name.
func refusesLate(ctx context.Context, t *testing.T, l *rig.Lab, fence wire.Fence) {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(l.Nodes[0].StateDir(), wire.FileDriverKey))
	rig.Must(t, err)
	v := l.LookFrom(ctx, 2)
	act := wire.Act{V: wire.V, Driver: strings.TrimSpace(string(key)), Number: fence.Number, Round: 1, Epoch: v.Epoch.Number, Seen: wire.ListHash(v.Members), Step: "Late"}
	if act.Driver != fence.Holder {
		t.Fatalf("holder %q, key %q", fence.Holder, act.Driver)
	}
	c := agents(t, l)
	for i, n := range l.Nodes {
		m := memberOf(v.Members, n)
		slot := wire.SlotRequest{Act: act, Slot: wire.SlotMember, MemberID: m.ID, Reason: "late"}
		member := wire.MemberRequest{Act: act, MemberID: m.ID, Node: n.Name, PeerURLs: m.PeerURLs}
		spec := *v.Spec
		spec.Count += 100
		_, retire := c.Retire(ctx, n.Ref.Address, slot)
		_, add := c.AddLearner(ctx, n.Ref.Address, member)
		_, promote := c.Promote(ctx, n.Ref.Address, member)
		_, remove := c.Remove(ctx, n.Ref.Address, member)
		_, move := c.MoveLeader(ctx, n.Ref.Address, member)
		for name, err := range map[string]error{
			"retire": retire, "add": add, "promote": promote, "remove": remove, "move": move,
			"spec":        c.Spec(ctx, n.Ref.Address, wire.SpecRequest{Act: act, Spec: spec}),
			"targets":     c.Targets(ctx, n.Ref.Address, wire.TargetsRequest{Act: act, ClusterID: v.Epoch.ClusterID}),
			"close drain": c.CloseDrain(ctx, n.Ref.Address, wire.CloseDrainRequest{Act: act}),
			"tombstone":   c.Tombstone(ctx, n.Ref.Address, wire.TombstoneRequest{Act: act, Tombstone: wire.Tombstone{ClusterID: v.Epoch.ClusterID, MemberID: m.ID, Node: n.Name, Slot: wire.SlotMember, Phase: wire.TombFinal}}),
			"start":       c.Start(ctx, n.Ref.Address, wire.StartRequest{Act: act, Slot: wire.SlotMember, MemberID: m.ID, ClusterID: v.Epoch.ClusterID}),
			"restart":     c.RestartLate(ctx, n.Ref.Address, slot),
			"stop":        c.Stop(ctx, n.Ref.Address, slot),
		} {
			if r := agentclient.AsRefusal(err); r == nil || r.Name != "NoGrant" {
				t.Errorf("%s of the late driver at cp-%d: %v, want NoGrant", name, i+1, err)
			}
		}
	}
}

// oneAtATime reads all journals: the steps that were done, in the order of
// time, have numbers that never fall, and what ends something is done once.
func oneAtATime(ctx context.Context, t *testing.T, l *rig.Lab) {
	t.Helper()
	var all []wire.JournalEntry
	for _, n := range l.Nodes {
		all = append(all, journal(ctx, t, l, n)...)
	}
	slices.SortFunc(all, func(a, b wire.JournalEntry) int { return a.Time.Compare(b.Time) })
	var top wire.JournalEntry
	once, drivers := map[string]int{}, map[string]bool{}
	for _, e := range all {
		if e.Step == "TakeGrant" || e.Step == "DropGrant" || e.Number == 0 {
			continue
		}
		if e.Outcome == "begun" {
			if drivers[e.By] = true; e.Number < top.Number {
				t.Errorf("%s of number %d by %s on %s began after %s of number %d by %s", e.Step, e.Number, e.By, e.Node, top.Step, top.Number, top.By)
			} else {
				top = e
			}
		}
		if e.Outcome == "ok" && (e.Step == "RemoveMember" || e.Step == "MoveLeader" || e.Step == "PromoteLearner" || e.Step == "StopMember" && strings.HasPrefix(e.Why, "stop ")) {
			once[e.Step+" "+strings.SplitN(e.Why, ":", 2)[0]]++
		}
	}
	t.Logf("drivers: %v", drivers)
	for what, n := range once {
		if n != 1 {
			t.Errorf("%s: done %d times", what, n)
		}
	}
}

// Two drivers that want different nodes: never both at once; whoever comes
// second says for whom it waits, and in the end the one that would leave a
// member out is refused by its name.
func TestTwoDriversWithDifferentNodes(t *testing.T) {
	t.Parallel()
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 4*time.Minute)
	w := load(ctx, t, l)
	three := l.PivotArgs(0)
	two := []string{"pivot", "--state-dir", l.Nodes[1].StateDir(), "--log-level", "warn", l.NodesFlag(2)}
	var wg sync.WaitGroup
	var ran [2]rig.Ran
	for i, args := range [][]string{three, two} {
		wg.Go(func() { ran[i] = l.Run(args...) })
	}
	wg.Wait()
	if r := ran[0]; r.Code != 0 {
		t.Errorf("who wants three nodes: %s", r)
	}
	// Who wants two is done before the others begin, or refused because of cp-3.
	if r := ran[1]; r.Code != 0 && !(r.Code == 3 && strings.Contains(r.Stderr, "MemberNotNamed") && strings.Contains(r.Stderr, "cp-3")) {
		t.Errorf("who wants two nodes: %s", r)
	}
	said := ran[0].Stdout + ran[1].Stdout + ran[0].Stderr + ran[1].Stderr
	if !strings.Contains(said, "GrantHeld") || !strings.Contains(said, "pivot on cp-") {
		t.Errorf("neither says for whom it waited:\n%s\n%s", ran[0], ran[1])
	}
	oneAtATime(ctx, t, l)
	finish(ctx, t, l, w)
	if r := l.Run(two...); r.Code != 3 || !strings.Contains(r.Stderr, "MemberNotNamed") || !strings.Contains(r.Stderr, "cp-3") {
		t.Errorf("want exit 3 and MemberNotNamed for cp-3: %s", r)
	}
	if v := l.Look(ctx); len(v.Members) != 3 || len(v.Spec.Nodes) != 3 {
		t.Errorf("the refused one changed something: %s", fmt.Sprint(v.Members, v.Spec.Nodes))
	}
}

package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Waits inside one step, for its own effect to show.
const (
	routeWait   = 5 * time.Second        // a proxy probes at once after its targets changed
	drainAfter  = time.Second            // SIGTERM to closing what still drains (watch streams)
	stopWait    = 15 * time.Second       // etcd's own stop, the agent's 10 s grace, SIGKILL
	awaitEvery  = 10 * time.Millisecond  // between looks of such a wait
	awaitSlower = 100 * time.Millisecond // after a second of it
)

// do does one step. After an error nothing is known: the caller looks again (I8).
func (d *Driver) do(ctx context.Context, v *View, want wire.Spec, step pivot.Step) error {
	switch step.Kind {
	case pivot.TakeGrant:
		return d.takeGrant(ctx, v, want)
	case pivot.ProveHashes:
		return d.proveHashes(ctx, v)
	}
	act, err := d.act(v, step)
	if err != nil {
		return err
	}
	switch step.Kind {
	case pivot.WriteSpec:
		return d.writeSpec(ctx, v, act, want)
	case pivot.RegisterLearner, pivot.PromoteLearner, pivot.RemoveMember, pivot.MoveLeader:
		return d.membership(ctx, v, act, want, step)
	case pivot.StartSeed, pivot.StartMember:
		return d.start(ctx, v, act, step)
	case pivot.RestartLateMember:
		return d.client.RestartLate(ctx, d.addr(v, step.Node), slotRequest(act, step))
	case pivot.RestartMember:
		return d.restart(ctx, v, act, step)
	case pivot.RouteProxies:
		return d.routeProxies(ctx, v, act, want)
	case pivot.WriteTombstone, pivot.FinishTombstone, pivot.WithdrawTombstone:
		return d.tombstone(ctx, v, act, step)
	case pivot.StopMember:
		return d.stop(ctx, v, act, step)
	case pivot.RetireDirectory:
		_, err := d.client.Retire(ctx, d.addr(v, step.Node), slotRequest(act, step))
		return err
	}
	return fmt.Errorf("step %s is not known to this driver; use the release that decided it", step.Kind)
}

func slotRequest(act wire.Act, step pivot.Step) wire.SlotRequest {
	return wire.SlotRequest{Act: act, Slot: wire.Slot(step.Slot), MemberID: wire.ID(step.ID), Reason: step.Why}
}

func (d *Driver) addr(v *View, node string) string {
	if nv := v.Node(node); nv != nil {
		return nv.Ref.Address
	}
	return ""
}

// refs of the nodes that answered, and of those that did not.
func (v *View) refs() (answering []wire.NodeRef) {
	for _, nv := range v.Nodes {
		if nv.Obs != nil {
			answering = append(answering, nv.Ref)
		}
	}
	return answering
}

// all calls f at every answering node in parallel; the first error per node is kept.
func (d *Driver) all(v *View, f func(wire.NodeRef) error) error {
	var mu sync.Mutex
	var errs []error
	each(v.refs(), func(r wire.NodeRef) {
		if err := f(r); err != nil {
			mu.Lock()
			errs = append(errs, fmt.Errorf("%s: %w", r.Name, err))
			mu.Unlock()
		}
	})
	return errors.Join(errs...)
}

func (d *Driver) writeSpec(ctx context.Context, v *View, act wire.Act, want wire.Spec) error {
	want.V, want.Epoch, want.Fence = wire.V, act.Epoch, act.Number
	d.specCount++
	want.Count = d.specCount
	return d.all(v, func(r wire.NodeRef) error {
		return d.client.Spec(ctx, r.Address, wire.SpecRequest{Act: act, Spec: want})
	})
}

// membership calls go through the agent of the raft leader only, which checks
// fence and list again.
func (d *Driver) membership(ctx context.Context, v *View, act wire.Act, want wire.Spec, step pivot.Step) error {
	leader, _ := v.SlotOfMember(v.Leader)
	if leader == nil {
		return fmt.Errorf("the agent of leader %s does not answer", v.Leader)
	}
	req := wire.MemberRequest{Act: act, MemberID: wire.ID(step.ID), Node: step.Node, Slot: wire.Slot(step.Slot)}
	call := d.client.AddLearner
	switch step.Kind {
	case pivot.RegisterLearner:
		nv := v.Node(step.Node)
		if nv == nil {
			return fmt.Errorf("%s was not asked", step.Node)
		}
		_, peer, _ := d.ports.Of(req.Slot)
		req.PeerURLs = []string{"https://" + nv.Ref.HostPort(peer)}
	case pivot.PromoteLearner:
		call = d.client.Promote
	case pivot.RemoveMember:
		call = d.client.Remove
	case pivot.MoveLeader:
		call = d.client.MoveLeader
		req.HoldNodes = want.Nodes
	}
	_, err := call(ctx, leader.Ref.Address, req)
	return err
}

func (d *Driver) start(ctx context.Context, v *View, act wire.Act, step pivot.Step) error {
	req := wire.StartRequest{Act: act, Slot: wire.Slot(step.Slot), MemberID: wire.ID(step.ID), ClusterID: v.Epoch.ClusterID}
	nv := v.Node(step.Node)
	if nv == nil || nv.Obs == nil {
		return fmt.Errorf("%s does not answer", step.Node)
	}
	if sl := nv.Obs.SlotOf(req.Slot); sl == nil || sl.Class != wire.ClassWhole {
		req.InitialCluster = d.initialCluster(v)
		if v.State.DBSize > 0 {
			req.NeedsBytes = pivot.JoinNeeds(v.State.DBSize)
		}
	}
	return d.client.Start(ctx, nv.Ref.Address, req)
}

// initialCluster is the live list as etcd wants it; a member that never
// started has no name yet and gets its node's (M3), a seed its own.
func (d *Driver) initialCluster(v *View) string {
	var rows []string
	for _, m := range v.Members {
		name := m.Name
		if name == "" {
			var slot wire.Slot
			if name, slot = v.place(m, d.ports); slot == wire.SlotSeed {
				name = wire.SeedName(name, v.Epoch.Number)
			}
		}
		for _, u := range m.PeerURLs {
			rows = append(rows, name+"="+u)
		}
	}
	return strings.Join(rows, ",")
}

// targets are what every proxy should have: the members of the list, those on
// their way out drained.
func (d *Driver) targets(v *View, s *pivot.State) []wire.ProxyTarget {
	var out []wire.ProxyTarget
	for _, m := range v.Members {
		node, slot := v.place(m, d.ports)
		nv := v.Node(node)
		if nv == nil {
			continue
		}
		client, _, _ := d.ports.Of(slot)
		t := wire.ProxyTarget{Node: node, Slot: slot, MemberID: m.ID, Address: nv.Ref.HostPort(client), Mode: wire.Serve}
		if s.Drains(pivot.MemberID(m.ID)) {
			t.Mode = wire.Drain
		}
		out = append(out, t)
	}
	return out
}

func (d *Driver) routeProxies(ctx context.Context, v *View, act wire.Act, want wire.Spec) error {
	req := wire.TargetsRequest{Act: act, ClusterID: v.Epoch.ClusterID, Targets: d.targets(v, &v.State)}
	if err := d.all(v, func(r wire.NodeRef) error { return d.client.Targets(ctx, r.Address, req) }); err != nil {
		return err
	}
	return d.await(ctx, want, routeWait, "every proxy to report an admitted member", func(v *View) bool {
		for _, name := range v.State.Want.Nodes {
			if n := v.State.Node(name); n == nil || n.Proxy.Routed != pivot.Yes {
				return false
			}
		}
		return true
	})
}

func (d *Driver) tombstone(ctx context.Context, v *View, act wire.Act, step pivot.Step) error {
	t := wire.Tombstone{ClusterID: v.Epoch.ClusterID, MemberID: wire.ID(step.ID), Phase: wire.TombIntended, Why: step.Why, Time: time.Now().UTC()}
	for _, nv := range v.Nodes { // what was recorded when it was intended
		if nv.Obs == nil {
			continue
		}
		for _, o := range nv.Obs.Tombstones {
			if o.MemberID == t.MemberID && o.Phase != wire.TombWithdrawn {
				t = o
			}
		}
	}
	if step.Node != "" {
		t.Node, t.Slot, t.Address = step.Node, wire.Slot(step.Slot), d.addr(v, step.Node)
	}
	switch step.Kind {
	case pivot.FinishTombstone:
		t.Phase = wire.TombFinal
	case pivot.WithdrawTombstone:
		t.Phase, t.Why = wire.TombWithdrawn, step.Why
	}
	return d.all(v, func(r wire.NodeRef) error {
		return d.client.Tombstone(ctx, r.Address, wire.TombstoneRequest{Act: act, Tombstone: t})
	})
}

// stop parks and signals; what still drains a second later (watch streams,
// which would keep etcd for 7 s) is closed.
func (d *Driver) stop(ctx context.Context, v *View, act wire.Act, step pivot.Step) error {
	if err := d.client.Stop(ctx, d.addr(v, step.Node), slotRequest(act, step)); err != nil {
		return err
	}
	down := func(v *View) bool {
		n := v.State.Node(step.Node)
		return n != nil && n.Agent == pivot.Answers && n.Slot(step.Slot).Proc == pivot.Down
	}
	want := *v.wanted
	err := d.await(ctx, want, drainAfter, "it to end", down)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if err := d.closeDrain(ctx, v, step); err != nil {
		return err
	}
	return d.await(ctx, want, stopWait, fmt.Sprintf("%s/%s to end", step.Node, step.Slot), down)
}

// closeDrain closes what is still connected to a drained member, and nothing of
// another that drains too: a write under way there would fail for good.
func (d *Driver) closeDrain(ctx context.Context, v *View, step pivot.Step) error {
	act, err := d.act(v, step)
	if err != nil {
		return err
	}
	req := wire.CloseDrainRequest{Act: act, MemberID: wire.ID(step.ID)}
	if err := d.all(v, func(r wire.NodeRef) error { return d.client.CloseDrain(ctx, r.Address, req) }); err != nil {
		d.log.Warn("not every proxy closed what drains", "error", err)
	}
	return nil
}

// restart ends a member with SIGTERM, so that its clients go elsewhere without an
// error, and starts it again: one step of its agent, which finishes it alone.
func (d *Driver) restart(ctx context.Context, v *View, act wire.Act, step pivot.Step) error {
	done := make(chan error, 1)
	go func() { done <- d.client.RestartLate(ctx, d.addr(v, step.Node), slotRequest(act, step)) }()
	select {
	case err := <-done:
		return err
	case <-time.After(drainAfter):
	}
	return errors.Join(d.closeDrain(ctx, v, step), <-done)
}

// await looks until ok or the time is over.
func (d *Driver) await(ctx context.Context, want wire.Spec, wait time.Duration, what string, ok func(*View) bool) error {
	start := time.Now()
	for {
		v, err := d.look(ctx, &want, nil)
		if err != nil {
			return err
		}
		if ok(v) {
			return nil
		}
		passed := time.Since(start)
		if passed > wait {
			return fmt.Errorf("waited %s for %s", wait, what)
		}
		pause := awaitEvery
		if passed > time.Second {
			pause = awaitSlower
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, t time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(t):
		return nil
	}
}

package agent

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/proxy"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// tendEvery is how often the agent looks for what it records by itself.
const tendEvery = 100 * time.Millisecond

// confirmEvery is how often peers are asked for their epoch until it is confirmed.
const confirmEvery = time.Second

// tend records what shows by itself: that a slot's log exists, the IDs a seed
// got, its first proxy targets, and that no peer knows a newer epoch since this boot.
func (a *Agent) tend(ctx context.Context) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	var asked time.Time
	failing := ""
	for {
		err := a.record()
		if err == nil && time.Since(asked) >= confirmEvery {
			asked = time.Now()
			err = a.confirm(ctx)
		}
		if err != nil && err.Error() != failing {
			a.log.Error("not recorded", "error", err)
		}
		failing = ""
		if err != nil {
			failing = err.Error()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *Agent) record() error {
	for _, slot := range bothSlots {
		if !a.slotMu[slot].TryLock() {
			continue // being changed; the next look comes soon
		}
		err := a.recordSlot(slot)
		a.slotMu[slot].Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// recordSlot notes once that the slot's log exists. etcd makes its first log
// file elsewhere and renames the directory when the metadata is in it.
func (a *Agent) recordSlot(slot wire.Slot) error {
	r := a.store.slot(slot)
	if !r.Wanted || len(r.Args) == 0 {
		return nil
	}
	if !r.Recorded {
		if wals, err := filepath.Glob(filepath.Join(a.id.SlotDir(slot), "member", "wal", "*.wal")); err != nil || len(wals) == 0 {
			return err
		}
		if r.Assigned == 0 {
			if err := a.recordSeed(&r); err != nil {
				return err
			}
		}
		r.Recorded = true
		if err := a.store.setSlot(slot, r); err != nil {
			return err
		}
		a.log.Info("data directory recorded", "slot", slot, "memberID", r.Assigned, "clusterID", r.ClusterID)
	}
	if slot == wire.SlotSeed {
		return a.firstTargets(r)
	}
	return nil
}

// recordSeed computes the IDs the seed's arguments gave it and records them in
// the epoch; the start gate lets only a directory of these IDs go on.
func (a *Agent) recordSeed(r *slotRecord) error {
	flags := member.Flags(r.Args)
	m, c, err := member.NewIDs(flags["name"], flags["initial-cluster"], flags["initial-cluster-token"])
	if err != nil {
		return err
	}
	r.Assigned, r.ClusterID = m, c
	epoch, _, _ := a.store.view()
	epoch.SeedID, epoch.ClusterID = m, c
	return a.store.setEpoch(epoch)
}

// firstTargets writes the seed as the only target where there are none yet
// (DESIGN "Epoch": the IDs are recorded first).
func (a *Agent) firstTargets(r slotRecord) error {
	if _, found, err := a.readTargets(); found || err != nil || r.ClusterID == 0 {
		return err
	}
	return a.writeTargets(r.ClusterID, []wire.ProxyTarget{{Node: a.id.Node.Name, Slot: wire.SlotSeed, MemberID: r.Assigned,
		Address: a.id.Node.HostPort(a.id.Ports.SeedClient), Mode: wire.Serve}}, "")
}

// confirm marks the targets with this boot once a majority of the spec's nodes
// answered and none knows a newer epoch (DESIGN "Proxy targets").
func (a *Agent) confirm(ctx context.Context) error {
	have, found, err := a.readTargets()
	epoch, spec, _ := a.store.view()
	boot := proxy.BootID()
	if err != nil || !found || have.ConfirmedBoot == boot || spec == nil || epoch.Number == 0 {
		return err
	}
	answers, newer := 0, false
	for _, f := range a.askFences(ctx, spec.Nodes) {
		answers++
		newer = newer || f.Epoch.Number > epoch.Number
	}
	if newer || 2*answers <= len(spec.Nodes) {
		return nil
	}
	return a.writeTargets(have.ClusterID, have.Targets, boot)
}

// askFences asks the agents of nodes (this one answers itself) within 2 s.
// Only an answer in the node's own name counts.
func (a *Agent) askFences(ctx context.Context, nodes []wire.NodeRef) map[string]wire.Fence {
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]wire.Fence{}
	for _, n := range nodes {
		wg.Go(func() {
			f, err := a.askFence(ctx, n)
			if err != nil {
				return // silence is no answer, and no objection
			}
			mu.Lock()
			defer mu.Unlock()
			out[n.Name] = f
		})
	}
	wg.Wait()
	return out
}

package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func serving(slot wire.Slot) func(*wire.Observation) bool {
	return func(o *wire.Observation) bool {
		s := o.SlotOf(slot)
		return s.Process.State == wire.ProcServing && s.Etcd != nil && s.Etcd.Leader != 0
	}
}

// A whole pivot by hand through the RPCs of three agents with real etcds, each
// call made again where a driver that died would make it again.
func TestPivotByHand(t *testing.T) {
	r := newRig(t, 3)
	r.prepare()
	for i := range r.ids {
		r.start(i)
	}
	a1 := r.ids[0].Node.Address
	o := r.await(0, "seed serves, recorded, proxy admits it", func(o *wire.Observation) bool {
		return serving(wire.SlotSeed)(o) && o.Epoch.ClusterID != 0 && o.Proxy != nil && len(o.Proxy.Targets) == 1 && o.Proxy.Targets[0].Admitted
	})
	seed := o.SlotOf(wire.SlotSeed)
	if seed.Assigned != seed.MemberID || o.Epoch.SeedID != seed.MemberID || o.Epoch.ClusterID != seed.ClusterID || !seed.Etcd.Linearizable ||
		len(seed.Etcd.Members) != 1 || !seed.Process.PeerUp || !seed.Process.MetricsUp || !slices.Contains(seed.Process.Args, "--max-learners=8") {
		t.Fatalf("%+v %+v epoch %+v", seed, seed.Etcd, o.Epoch)
	}
	if o := r.observe(1); o.Epoch.Number != 0 || o.SlotOf(wire.SlotMember).Class != wire.ClassAbsent {
		t.Fatalf("%+v", o)
	}
	epoch := o.Epoch
	r.grant("driver", 1, epoch)
	if o := r.observe(2); o.Epoch != epoch || o.Spec == nil || len(o.Spec.Nodes) != 3 {
		t.Fatalf("epoch and spec not adopted: %+v", o)
	}
	stop := r.writes()

	members := r.register(a1, o)
	r.startMembers(members, epoch)
	r.promoteAll(a1, members)
	r.proveAndMove(members, epoch)
	r.retireSeed(members[0].ID, seed.MemberID, epoch)
	if failed := stop(); failed != "" {
		t.Errorf("a write failed: %s", failed)
	}
	r.afterwards(members)
}

// register adds three learners; each refusal that guards it is provoked first.
func (r *rig) register(a1 string, o *wire.Observation) (out []wire.Member) {
	r.t.Helper()
	ctx := r.t.Context()
	list := o.SlotOf(wire.SlotSeed).Etcd.Members
	for i, n := range r.nodes() {
		req := wire.MemberRequest{Act: r.act, Node: n.Name, PeerURLs: []string{"https://" + n.HostPort(testPorts.Peer)}}
		if i == 1 {
			req.Seen = "stale"
			r.refused(errOf(r.client.AddLearner(ctx, a1, req)), "ListChanged")
		}
		req.Seen = wire.ListHash(list)
		if i == 1 {
			wrong := req
			wrong.PeerURLs = []string{"https://" + r.nodes()[2].HostPort(testPorts.Peer)}
			r.refused(errOf(r.client.AddLearner(ctx, a1, wrong)), "WrongPeerURL")
			r.refused(errOf(r.client.AddLearner(ctx, r.nodes()[1].Address, req)), "NotLeader")
		}
		first, err := r.client.AddLearner(ctx, a1, req)
		r.must(err)
		req.Seen = wire.ListHash(first.Members)
		again, err := r.client.AddLearner(ctx, a1, req) // CASES M4
		r.must(err)
		if first.MemberID == 0 || again.MemberID != first.MemberID || len(again.Members) != i+2 {
			r.t.Fatalf("%+v then %+v", first, again)
		}
		list = again.Members
		m, _ := find(list, again.MemberID)
		m.Name = n.Name
		out = append(out, m)
	}
	return out
}

func (r *rig) startMembers(ms []wire.Member, epoch wire.Epoch) {
	r.t.Helper()
	rows := []string{wire.SeedName("cp-1", 1) + "=https://" + r.nodes()[0].HostPort(testPorts.SeedPeer)}
	for _, m := range ms {
		rows = append(rows, m.Name+"="+m.PeerURLs[0])
	}
	for i, m := range ms {
		req := wire.StartRequest{Act: r.act, Slot: wire.SlotMember, ClusterID: epoch.ClusterID, MemberID: m.ID}
		r.refused(r.client.Start(r.t.Context(), r.nodes()[i].Address, req), "NothingToStart")
		req.InitialCluster = strings.Join(append(rows, "=https://x:1"), ",")
		r.refused(r.client.Start(r.t.Context(), r.nodes()[i].Address, req), "BadInitialCluster")
		req.InitialCluster = strings.Join(rows, ",")
		req.NeedsBytes = 1 << 62
		r.refused(r.client.Start(r.t.Context(), r.nodes()[i].Address, req), "EnoughDisk")
		req.NeedsBytes = 1 << 20
		for range 2 {
			r.must(r.client.Start(r.t.Context(), r.nodes()[i].Address, req))
		}
		r.await(i, "peer port", func(o *wire.Observation) bool { return o.SlotOf(wire.SlotMember).Process.PeerUp })
	}
	for i := range ms {
		r.await(i, "learner serves", serving(wire.SlotMember))
	}
	// One restart, as of a late learner: another process, counted.
	before := r.observe(2).SlotOf(wire.SlotMember)
	r.must(r.client.RestartLate(r.t.Context(), r.nodes()[2].Address, wire.SlotRequest{Act: r.act, Slot: wire.SlotMember, MemberID: ms[2].ID}))
	after := r.await(2, "learner serves again", serving(wire.SlotMember)).SlotOf(wire.SlotMember)
	if after.Process.PID == before.Process.PID || after.LateRestarts != 1 || after.MemberID != ms[2].ID || !after.Etcd.Learner {
		r.t.Errorf("%+v", after)
	}
}

func (r *rig) promoteAll(a1 string, ms []wire.Member) {
	r.t.Helper()
	for _, m := range ms {
		for end := time.Now().Add(10 * time.Second); ; {
			list := r.observe(0).SlotOf(wire.SlotSeed).Etcd.Members
			act := r.act
			act.Seen = wire.ListHash(list)
			out, err := r.client.Promote(r.t.Context(), a1, wire.MemberRequest{Act: act, MemberID: m.ID})
			if err == nil {
				if got, _ := find(out.Members, m.ID); got.Learner {
					r.t.Fatalf("%+v", out)
				}
				break
			}
			if time.Now().After(end) {
				r.t.Fatal(err)
			}
		}
	}
}

func (r *rig) proveAndMove(ms []wire.Member, epoch wire.Epoch) {
	r.t.Helper()
	ctx := r.t.Context()
	rev := r.observe(0).SlotOf(wire.SlotSeed).Etcd.Revision
	hashes := map[uint32]bool{}
	for i := range ms {
		for end := time.Now().Add(5 * time.Second); ; {
			h, err := r.client.Hash(ctx, r.nodes()[i].Address, wire.HashRequest{Slot: wire.SlotMember, Revision: rev})
			r.must(err)
			if h.OK {
				hashes[h.Hash] = true
				break
			}
			if time.Now().After(end) {
				r.t.Fatal(h.Error)
			}
		}
	}
	if len(hashes) != 1 {
		r.t.Errorf("hashes differ: %v", hashes)
	}
	if h, err := r.client.Hash(ctx, r.nodes()[0].Address, wire.HashRequest{Slot: wire.SlotMember, Revision: 1 << 40}); err != nil || h.OK || h.Error == "" {
		r.t.Errorf("a future revision: %+v %v", h, err)
	}
	targets := []wire.ProxyTarget{{Node: "cp-1", Slot: wire.SlotSeed, MemberID: epoch.SeedID, Address: r.nodes()[0].HostPort(testPorts.SeedClient), Mode: wire.Drain}}
	for i, m := range ms {
		targets = append(targets, wire.ProxyTarget{Node: m.Name, Slot: wire.SlotMember, MemberID: m.ID, Address: r.nodes()[i].HostPort(testPorts.Client), Mode: wire.Serve})
	}
	for i, n := range r.nodes() {
		r.must(r.client.Targets(ctx, n.Address, wire.TargetsRequest{Act: r.act, ClusterID: epoch.ClusterID, Targets: targets}))
		r.await(i, "routed", func(o *wire.Observation) bool {
			return o.Proxy != nil && slices.ContainsFunc(o.Proxy.Targets, func(t wire.ProxyTargetStatus) bool { return t.Slot == wire.SlotMember && t.Admitted })
		})
	}
	act := r.act
	act.Seen = wire.ListHash(r.observe(0).SlotOf(wire.SlotSeed).Etcd.Members)
	for range 2 { // moved is moved
		out, err := r.client.MoveLeader(ctx, r.nodes()[0].Address, wire.MemberRequest{Act: act, MemberID: ms[0].ID, HoldNodes: r.nodes()})
		r.must(err)
		if out.Leader != ms[0].ID {
			r.t.Fatalf("%+v", out)
		}
	}
}

func (r *rig) retireSeed(leader, seed wire.ID, epoch wire.Epoch) {
	r.t.Helper()
	ctx, a1 := r.t.Context(), r.nodes()[0].Address
	tomb := wire.Tombstone{ClusterID: epoch.ClusterID, MemberID: seed, Node: "cp-1", Slot: wire.SlotSeed, Address: a1, Phase: wire.TombIntended, Why: "pivot", Time: time.Now().UTC()}
	slot := wire.SlotRequest{Act: r.act, Slot: wire.SlotSeed, MemberID: seed, Reason: "pivot"}
	r.must(r.client.Tombstone(ctx, a1, wire.TombstoneRequest{Act: r.act, Tombstone: tomb}))
	r.refused(errOf(r.client.Retire(ctx, a1, slot)), "StillWanted")
	r.must(r.client.Stop(ctx, a1, slot))
	// Connections end by GOAWAY; what is left a second later is closed.
	stopped := time.Now()
	closed := false
	r.await(0, "seed down", func(o *wire.Observation) bool {
		if !closed && time.Since(stopped) > time.Second {
			closed = true
			r.must(r.client.CloseDrain(ctx, a1, wire.CloseDrainRequest{Act: r.act}))
		}
		s := o.SlotOf(wire.SlotSeed)
		return s.Process.State == wire.ProcDown && s.Parked
	})
	r.must(r.client.CloseDrain(ctx, a1, wire.CloseDrainRequest{Act: r.act}))
	act := r.act
	act.Seen = wire.ListHash(r.observe(0).SlotOf(wire.SlotMember).Etcd.Members)
	out, err := r.client.Remove(ctx, a1, wire.MemberRequest{Act: act, MemberID: seed})
	r.must(err)
	if len(out.Members) != 3 || out.Leader != leader {
		r.t.Errorf("%+v", out)
	}
	tomb.Phase = wire.TombFinal
	r.must(r.client.Tombstone(ctx, a1, wire.TombstoneRequest{Act: r.act, Tombstone: tomb}))
	start := wire.StartRequest{Act: r.act, Slot: wire.SlotSeed, ClusterID: epoch.ClusterID, MemberID: seed}
	r.refused(r.client.Start(ctx, a1, start), "Tombstoned")
	attic, err := r.client.Retire(ctx, a1, slot)
	r.must(err)
	again, err := r.client.Retire(ctx, a1, slot)
	r.must(err)
	if _, statErr := os.Stat(filepath.Join(attic, "member", "wal")); statErr != nil || again != attic {
		r.t.Errorf("attic %q, again %q: %v", attic, again, statErr)
	}
	if s := r.observe(0).SlotOf(wire.SlotSeed); s.Class != wire.ClassAbsent || s.Assigned != 0 || !s.Parked || s.Wanted {
		r.t.Errorf("%+v", s)
	}
}

// afterwards: an agent's restart touches no member; a killed member comes back;
// one look at a healthy node takes no time.
func (r *rig) afterwards(ms []wire.Member) {
	r.t.Helper()
	before := r.observe(1).SlotOf(wire.SlotMember).Process
	r.end(1)
	r.start(1)
	after := r.await(1, "serves", serving(wire.SlotMember))
	p := after.SlotOf(wire.SlotMember).Process
	if p.PID != before.PID || !p.Adopted || after.SlotOf(wire.SlotMember).Assigned != ms[1].ID {
		r.t.Errorf("pid %d became %+v", before.PID, p)
	}
	r.must(syscall.Kill(p.PID, syscall.SIGKILL))
	r.await(1, "member back", func(o *wire.Observation) bool {
		q := o.SlotOf(wire.SlotMember).Process
		return serving(wire.SlotMember)(o) && q.PID != p.PID && strings.HasPrefix(q.LastExit, "exit status unknown")
	})
	best := time.Hour
	for range 10 {
		start := time.Now()
		r.observe(0)
		best = min(best, time.Since(start))
	}
	r.t.Logf("one look takes %s", best)
	if best > 100*time.Millisecond {
		r.t.Errorf("one look takes %s", best)
	}
	j, err := r.client.Journal(r.t.Context(), r.nodes()[0].Address, 100)
	r.must(err)
	var steps []string
	for _, e := range j.Entries {
		steps = append(steps, e.Step+" "+e.Outcome)
	}
	for _, want := range []string{"AgentStart ok", "TakeGrant ok", "RegisterLearner begun", "RegisterLearner ok", "MoveLeader ok", "RetireDirectory ok"} {
		if !slices.Contains(steps, want) {
			r.t.Errorf("journal without %q: %q", want, steps)
		}
	}
}

// writes puts keys through the first node's proxy until stopped; it says the first failure.
func (r *rig) writes() (stop func() string) {
	r.t.Helper()
	conf, err := pki.ClientConfig(r.ids[0].PKIDir, pki.RoleEtcdClient)
	r.must(err)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + r.nodes()[0].Proxy() + ":2379"}, TLS: conf.Clone(), DialTimeout: 5 * time.Second})
	r.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed := ""
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			pctx, done := context.WithTimeout(context.Background(), 10*time.Second)
			if _, err := c.Put(pctx, "k", strings.Repeat("v", 100)); err != nil {
				mu.Lock()
				failed = err.Error()
				mu.Unlock()
			}
			done()
			time.Sleep(5 * time.Millisecond)
		}
	})
	return func() string {
		cancel()
		wg.Wait()
		c.Close()
		return failed
	}
}

package agent

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent/child"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// change edits a slot's record while the agent is down, as a crash in the middle of an RPC leaves it.
func (r *rig) change(i int, slot wire.Slot, f func(*slotRecord)) {
	r.t.Helper()
	s, err := openStore(r.ids[i])
	r.must(err)
	rec := s.slot(slot)
	f(&rec)
	r.must(s.setSlot(slot, rec))
}

// The life of a seed through everything that can interrupt its agent.
func TestSeedLife(t *testing.T) {
	r := newRig(t, 1)
	r.prepare()
	r.start(0)
	ctx, addr := t.Context(), r.ids[0].Node.Address
	o := r.await(0, "seed serves and is recorded", func(o *wire.Observation) bool { return serving(wire.SlotSeed)(o) && o.Epoch.ClusterID != 0 })
	id, epoch := o.SlotOf(wire.SlotSeed).MemberID, o.Epoch
	pid := func() int { return r.observe(0).SlotOf(wire.SlotSeed).Process.PID }

	t.Run("a frozen etcd is unknown, and the rest is told in time", func(t *testing.T) {
		p := pid()
		r.must(syscall.Kill(p, syscall.SIGSTOP))
		start := time.Now()
		s := r.observe(0).SlotOf(wire.SlotSeed)
		took := time.Since(start)
		r.must(syscall.Kill(p, syscall.SIGCONT))
		if s.Etcd != nil || s.Process.State != wire.ProcUp || s.Class != wire.ClassRunning || took > 1900*time.Millisecond {
			t.Errorf("after %s: %+v", took, s)
		}
		r.await(0, "serves", serving(wire.SlotSeed))
	})
	t.Run("a restart begun is finished, once", func(t *testing.T) {
		p := pid()
		r.end(0)
		r.change(0, wire.SlotSeed, func(rec *slotRecord) {
			rec.LateRestarts, rec.Restart = 1, &restartIntent{PID: p, Ticks: child.StartTicks(p)}
		})
		r.start(0)
		r.await(0, "restarted", func(o *wire.Observation) bool {
			return serving(wire.SlotSeed)(o) && o.SlotOf(wire.SlotSeed).Process.PID != p
		})
		q := pid()
		r.end(0)
		if s, err := openStore(r.ids[0]); err != nil || s.slot(wire.SlotSeed).Restart != nil || s.slot(wire.SlotSeed).LateRestarts != 1 {
			t.Fatalf("%+v %v", s.slots, err)
		}
		r.change(0, wire.SlotSeed, func(rec *slotRecord) { rec.Restart = &restartIntent{PID: p, Ticks: 1} })
		r.start(0)
		r.await(0, "adopted", serving(wire.SlotSeed))
		if pid() != q {
			t.Error("restarted a second time")
		}
	})
	t.Run("parked, and the agent died before the signal", func(t *testing.T) {
		r.end(0)
		r.change(0, wire.SlotSeed, func(rec *slotRecord) { rec.Wanted, rec.Parked = false, "test" })
		r.start(0)
		s := r.await(0, "down", func(o *wire.Observation) bool {
			sl := o.SlotOf(wire.SlotSeed)
			return sl.Process.State == wire.ProcDown && !sl.Reading
		}).SlotOf(wire.SlotSeed)
		if s.Class != wire.ClassWhole || s.MemberID != id || s.ClusterID != epoch.ClusterID || s.LastIndex == 0 || !s.Parked || s.Wanted {
			t.Errorf("%+v", s)
		}
	})

	r.grant("driver", 1, epoch)
	start := wire.StartRequest{Act: r.act, Slot: wire.SlotSeed, ClusterID: epoch.ClusterID, MemberID: id}
	t.Run("starts only as what it is", func(t *testing.T) {
		wrong := start
		wrong.MemberID = 0xbad
		r.refused(r.client.Start(ctx, addr, wrong), "WrongIdentity")
		wrong = start
		wrong.ClusterID = 0xbad
		r.refused(r.client.Start(ctx, addr, wrong), "OtherCluster")
		stop := wire.SlotRequest{Act: r.act, Slot: wire.SlotSeed, MemberID: 0xbad}
		r.refused(r.client.Stop(ctx, addr, stop), "WrongIdentity")
		r.refused(errOf(r.client.Retire(ctx, addr, stop)), "WrongIdentity")
		stop.MemberID = id
		r.refused(r.client.RestartLate(ctx, addr, stop), "NotRunning")
	})
	t.Run("an unmounted disk is not a wiped one", func(t *testing.T) { // CASES L4
		dir := r.ids[0].SlotDir(wire.SlotSeed)
		r.must(os.Rename(dir, dir+".away"))
		r.refused(r.client.Start(ctx, addr, start), "EmptyButRecorded")
		r.must(os.Rename(dir+".away", dir))
		r.must(r.client.Start(ctx, addr, start))
		r.await(0, "serves", serving(wire.SlotSeed))
		r.must(r.client.Start(ctx, addr, start))
		again := start
		again.MemberID = 0xbad
		r.refused(r.client.Start(ctx, addr, again), "WrongIdentity")
	})
	t.Run("killed, it comes back and says why", func(t *testing.T) {
		p := pid()
		r.must(syscall.Kill(p, syscall.SIGKILL))
		s := r.await(0, "serves", func(o *wire.Observation) bool {
			return serving(wire.SlotSeed)(o) && o.SlotOf(wire.SlotSeed).Process.PID != p
		}).SlotOf(wire.SlotSeed)
		if !strings.HasPrefix(s.Process.LastExit, "signal: killed") || s.Process.Restarts == 0 || s.MemberID != id {
			t.Errorf("%+v", s.Process)
		}
	})
	t.Run("stopping twice is stopping, and a start meanwhile waits", func(t *testing.T) {
		stop := wire.SlotRequest{Act: r.act, Slot: wire.SlotSeed, MemberID: id, Reason: "test"}
		p := pid()
		r.must(syscall.Kill(p, syscall.SIGSTOP)) // so that it outlives the signal
		r.must(r.client.Stop(ctx, addr, stop))
		r.must(r.client.Stop(ctx, addr, stop))
		r.refused(r.client.Start(ctx, addr, start), "StillStopping")
		r.refused(errOf(r.client.Retire(ctx, addr, stop)), "StillRunning")
		r.must(syscall.Kill(p, syscall.SIGCONT))
		r.await(0, "down", func(o *wire.Observation) bool { return o.SlotOf(wire.SlotSeed).Process.State == wire.ProcDown })
		r.must(r.client.Start(ctx, addr, start))
		r.await(0, "serves", serving(wire.SlotSeed))
	})
}

// The fence check of membership calls: a joint majority has this number from
// this driver, and nobody a higher one.
func TestSuperseded(t *testing.T) {
	r := newRig(t, 3)
	epoch := wire.Epoch{Number: 1, SeedID: 1, ClusterID: 2}
	for i, id := range r.ids {
		r.must(WriteBundleState(id))
		if i > 0 {
			r.start(i)
		}
	}
	a, err := open(r.ids[0], Config{Logger: testLog(t), Now: time.Now, GrantTTL: DefaultGrantTTL})
	r.must(err)
	t.Cleanup(a.close)
	spec := wire.Spec{V: 1, Epoch: 1, Nodes: r.nodes(), Ports: testPorts}
	take := func(i int, driver string, number uint64) {
		t.Helper()
		in := wire.GrantRequest{V: 1, Driver: driver, DriverName: driver, Number: number, Round: 1, Epoch: epoch, Spec: spec}
		if i == 0 {
			r.must(a.take(in))
			return
		}
		r.must(errOf(r.client.GrantTake(t.Context(), r.nodes()[i].Address, in)))
	}
	nodes := map[string]wire.NodeRef{}
	all := []string{}
	for _, n := range r.nodes() {
		nodes[n.Name] = n
		all = append(all, n.Name)
	}
	check := func(driver string, number uint64, voters []string, want string) {
		t.Helper()
		err := a.superseded(t.Context(), wire.Act{Driver: driver, Number: number}, voters, all, nodes)
		var ref *wire.Refusal
		if errors.As(err, &ref); err == nil && want != "" || ref != nil && ref.Name != want || err != nil && ref == nil {
			t.Errorf("%s %d over %v: got %v, want %q", driver, number, voters, err, want)
		}
	}
	take(0, "a", 5)
	check("a", 5, all[:1], "NoMajority") // one voter, but one of three desired
	take(1, "a", 5)
	check("a", 5, all, "")
	check("a", 5, all[1:], "NoMajority") // one of the two voters' nodes
	check("b", 5, all, "NoMajority")     // an equal number of another holder
	take(2, "b", 5)                      // alone there: no majority
	check("b", 5, all, "NoMajority")
	take(1, "a", 6) // the same holder elsewhere
	check("a", 5, all, "Superseded")
	take(0, "a", 6)
	check("a", 6, all, "")
	r.end(1)
	check("a", 6, all, "NoMajority")
}

package agent

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent/child"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/version"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// observeDeadline bounds one look at everything, below the driver's 2 s: what
// did not answer by then is unknown, and the rest is told.
const observeDeadline = 1500 * time.Millisecond

func (a *Agent) getObserve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), observeDeadline)
	defer cancel()
	write(w, http.StatusOK, a.observe(ctx))
}

// observe looks at everything in parallel and caches nothing a decision rests
// on; only a stopped directory that did not change is not read again.
func (a *Agent) observe(ctx context.Context) wire.Observation {
	epoch, spec, tombs := a.store.view()
	o := wire.Observation{V: wire.V, Time: a.now().UTC(), Identity: a.id, Version: version.Version,
		Epoch: epoch, Spec: spec, Tombstones: tombs, Fence: a.fence(), Slots: make([]wire.SlotStatus, len(bothSlots))}
	var wg sync.WaitGroup
	var mu sync.Mutex
	problem := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		o.Problems = append(o.Problems, fmt.Sprintf(format, args...))
	}
	for i, slot := range bothSlots {
		wg.Go(func() {
			o.Slots[i] = a.observeSlot(ctx, slot)
			if o.Slots[i].Class == wire.ClassUnknown {
				problem("slot %s: %s", slot, o.Slots[i].Reason)
			}
		})
	}
	wg.Go(func() {
		st, err := a.proxy.Status(ctx)
		if err != nil {
			problem("%v%s", err, a.lastEnd(NameProxy))
		}
		o.Proxy = st
	})
	wg.Go(func() {
		o.Certs = pki.Inspect(a.id.PKIDir, a.id.Node, proxyIPs(a.id, spec), a.now())
		var err error
		if o.Disk, err = statfs(a.id.DataDir); err != nil {
			problem("disk of %s: %v", a.id.DataDir, err)
		}
	})
	wg.Wait()
	o.Unfit, o.SeedUnfit = a.unfit(&o, wire.SlotMember), a.unfit(&o, wire.SlotSeed)
	return o
}

// lastEnd says why a process that is down ended, if that is known.
func (a *Agent) lastEnd(n Name) string {
	p, err := a.rt.Process(n)
	if err != nil || p.State != wire.ProcDown || p.LastExit == "" {
		return ""
	}
	return "; it is down: " + p.LastExit
}

func proxyIPs(id wire.Identity, spec *wire.Spec) []string {
	if spec == nil {
		return []string{id.Node.Proxy()}
	}
	return pki.ProxyAddresses(spec.Nodes)
}

func (a *Agent) observeSlot(ctx context.Context, slot wire.Slot) wire.SlotStatus {
	r := a.store.slot(slot)
	s := wire.SlotStatus{Slot: slot, Assigned: r.Assigned, Recorded: r.Recorded, Wanted: r.Wanted, Parked: r.Parked != "", LateRestarts: r.LateRestarts}
	p, err := a.rt.Process(Name(slot))
	s.Process = p
	if err != nil {
		s.Reason = err.Error()
		return s
	}
	if p.State == wire.ProcDown {
		a.observeStopped(ctx, &s)
		return s
	}
	a.observeRunning(ctx, &s)
	return s
}

// readWait is how long a look waits for a stopped directory to be read; a large
// one is read on behind it, and the slot says so.
const readWait = 30 * time.Millisecond

func (a *Agent) observeStopped(ctx context.Context, s *wire.SlotStatus) {
	wait, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	info, err := a.classes.get(wait, s.Slot)
	if err != nil {
		s.Reading = wait.Err() != nil
		s.Reason = err.Error()
		return
	}
	s.Class, s.Reason = info.Class, info.Reason
	s.ClusterID, s.MemberID = info.ClusterID, info.MemberID
	s.LastTerm, s.LastIndex, s.DBSize = info.LastTerm, info.LastIndex, info.DBSize
}

func (a *Agent) observeRunning(ctx context.Context, s *wire.SlotStatus) {
	s.Class = wire.ClassRunning
	s.Reason = fmt.Sprintf("held by pid %d", s.Process.PID)
	s.Process.Args = etcdArgs(child.Args(s.Process.PID))
	c := a.local[s.Slot]
	var wg sync.WaitGroup
	var peer, metrics, serving bool
	wg.Go(func() { peer = c.peerUp(ctx) })
	wg.Go(func() { metrics = c.metricsUp(ctx) })
	s.Etcd, serving = c.look(ctx)
	wg.Wait()
	s.Process.PeerUp, s.Process.MetricsUp = peer, metrics
	if serving {
		s.Process.State = wire.ProcServing
	}
	if s.Etcd != nil {
		s.MemberID, s.ClusterID, s.DBSize = s.Etcd.MemberID, s.Etcd.ClusterID, s.Etcd.DBSize
	}
}

// statfs looks at the filesystem of dir, or of its nearest parent there is.
func statfs(dir string) (wire.Disk, error) {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return wire.Disk{}, err
	}
	return wire.Disk{FreeBytes: int64(st.Bavail) * st.Bsize, TotalBytes: int64(st.Blocks) * st.Bsize}, nil
}

package proxy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// missesToClose is how many bad probes in a row end an admission and, where
// another target is admitted, the connections (DESIGN "Proxy targets").
const missesToClose = 2

// target is one entry of the targets file with what is known of it. Mode and
// Local, which change with the file, and all from listed on are guarded by
// table.mu; the rest never changes.
type target struct {
	wire.ProxyTarget
	cluster wire.ID

	cancel context.CancelFunc // ends its prober
	kick   chan struct{}      // asks its prober for a probe now

	listed   bool // still in the targets in force
	admitted bool
	misses   int
	answers  bool // the last probe was answered
	verdict  string
	conns    map[*conn]struct{}
}

// targetKey is what makes two entries one target.
type targetKey struct {
	wire.ProxyTarget // without Mode and Local
	cluster          wire.ID
}

func (t *target) key() targetKey {
	k := targetKey{t.ProxyTarget, t.cluster}
	k.Mode, k.Local = "", false
	return k
}

// table holds the targets in force, their verdicts and their connections.
type table struct {
	log         *slog.Logger
	now         func() time.Time
	started     time.Time
	preferAfter time.Duration
	bootID      string
	maxHeld     int
	probe       func(*target) // starts the prober of a new target

	mu       sync.Mutex
	inForce  wire.Targets
	targets  []*target
	retired  []*target // no longer listed, connections left until another is admitted
	changed  chan struct{}
	rotation int
	held     int
	closed   bool
}

func newTable(cfg Config, probe func(*target)) *table {
	return &table{
		log: cfg.Logger, now: cfg.Now, started: cfg.Now(), preferAfter: cfg.PreferAfter, bootID: BootID(),
		maxHeld: cfg.MaxHeld, probe: probe, changed: make(chan struct{}),
	}
}

// set puts ts in force. Entries of the same node, slot, address and IDs keep their verdict
// and connections; connections to entries of another cluster are closed at
// once, to entries no longer listed as soon as another target is admitted.
func (tb *table) set(ts wire.Targets) {
	tb.mu.Lock()
	old := map[targetKey]*target{}
	for _, t := range tb.targets {
		old[t.key()] = t
	}
	tb.inForce, tb.targets = ts, nil
	var fresh []*target
	for _, e := range ts.Targets {
		t := &target{ProxyTarget: e, cluster: ts.ClusterID}
		if o := old[t.key()]; o != nil {
			o.Mode, o.Local = e.Mode, e.Local
			delete(old, t.key())
			t = o
		} else {
			t.kick, t.conns = make(chan struct{}, 1), map[*conn]struct{}{}
			t.listed, t.verdict = true, "not probed yet"
			fresh = append(fresh, t)
		}
		tb.targets = append(tb.targets, t)
	}
	var doomed []*conn
	for _, o := range old {
		o.cancel()
		o.listed, o.admitted = false, false
		if o.cluster != ts.ClusterID {
			doomed = append(doomed, o.take()...)
		} else if len(o.conns) > 0 {
			tb.retired = append(tb.retired, o)
		}
	}
	for _, t := range fresh {
		tb.probe(t)
	}
	doomed = append(doomed, tb.enforce()...)
	tb.kickAll()
	tb.broadcast()
	tb.mu.Unlock()
	tb.log.Info("targets in force", "serial", ts.Serial, "epoch", ts.Epoch, "targets", len(ts.Targets))
	tb.close(doomed, "its target is no longer listed")
}

// take empties t's connections and returns them, to be closed without the lock.
func (t *target) take() []*conn {
	out := make([]*conn, 0, len(t.conns))
	for c := range t.conns {
		out = append(out, c)
	}
	clear(t.conns)
	return out
}

// enforce returns the connections that must be closed now: those of targets
// that failed for good or are no longer listed, once another is admitted.
func (tb *table) enforce() (doomed []*conn) {
	if !tb.anyAdmitted() {
		return nil
	}
	for _, t := range tb.targets {
		if !t.admitted && t.misses >= missesToClose {
			doomed = append(doomed, t.take()...)
		}
	}
	for _, t := range tb.retired {
		doomed = append(doomed, t.take()...)
	}
	tb.retired = nil
	return doomed
}

func (tb *table) anyAdmitted() bool {
	for _, t := range tb.targets {
		if t.admitted {
			return true
		}
	}
	return false
}

func (tb *table) close(cs []*conn, why string) {
	if len(cs) == 0 {
		return
	}
	for _, c := range cs {
		c.close()
	}
	tb.log.Info("connections closed", "count", len(cs), "why", why)
}

func (tb *table) broadcast() {
	close(tb.changed)
	tb.changed = make(chan struct{})
}

func (tb *table) kickAll() {
	for _, t := range tb.targets {
		t.kickNow()
	}
}

func (t *target) kickNow() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// report takes one probe's verdict on t.
func (tb *table) report(t *target, v verdict) {
	tb.mu.Lock()
	if !t.listed { // the file changed while it was probed
		tb.mu.Unlock()
		return
	}
	was, said := t.admitted, t.verdict
	t.verdict, t.answers = v.words, v.kind != silent
	var doomed []*conn
	switch v.kind {
	case good:
		t.admitted, t.misses = true, 0
	case foreign:
		t.admitted, t.misses = false, missesToClose
		doomed = t.take()
	default:
		t.misses++
		if t.misses >= missesToClose {
			t.admitted = false
		} else if t.admitted {
			t.verdict = "admitted; last probe: " + v.words
		}
	}
	doomed = append(doomed, tb.enforce()...)
	is, says := t.admitted, t.verdict
	if was != is {
		tb.broadcast()
	}
	tb.mu.Unlock()
	if was != is || said != says {
		tb.log.Info("verdict on a target", "node", t.Node, "slot", t.Slot, "address", t.Address, "admitted", is, "verdict", says)
	}
	tb.close(doomed, "target not usable: "+v.words)
}

// candidates are the targets a new connection may be spliced to, best first,
// and a channel that is closed when that may have changed. Drained targets are
// candidates only while no serving one is admitted: never refuse while
// something works.
func (tb *table) candidates() ([]*target, <-chan struct{}) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	out := tb.admitted(wire.Serve)
	if len(out) == 0 {
		out = tb.admitted(wire.Drain)
	}
	return out, tb.changed
}

// admitted orders the admitted targets of a mode: whole before once missed,
// then the local one, then the others in turn.
func (tb *table) admitted(mode wire.TargetMode) []*target {
	preferLocal := tb.inForce.ConfirmedBoot != "" && tb.inForce.ConfirmedBoot == tb.bootID ||
		tb.now().Sub(tb.started) >= tb.preferAfter
	var ranks [6][]*target
	n := 0
	for _, t := range tb.targets {
		if !t.admitted || t.Mode != mode {
			continue
		}
		rank := 1
		switch {
		case t.Local && preferLocal:
			rank = 0
		case t.Local:
			rank = 2
		}
		if t.misses > 0 {
			rank += 3
		}
		ranks[rank] = append(ranks[rank], t)
		n++
	}
	tb.rotation++
	out := make([]*target, 0, n)
	for _, r := range ranks {
		for i := range r {
			out = append(out, r[(i+tb.rotation)%len(r)])
		}
	}
	return out
}

// failed says that a connection to t could not be made, so that it is probed now.
func (tb *table) failed(t *target) { t.kickNow() }

// add registers c with t; false: t is no longer in force or c is too late.
func (tb *table) add(t *target, c *conn) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.closed || !t.admitted {
		return false
	}
	t.conns[c] = struct{}{}
	return true
}

func (tb *table) remove(t *target, c *conn) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	delete(t.conns, c)
}

// wait counts one more waiting connection; false: there are too many.
func (tb *table) wait() bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.held >= tb.maxHeld {
		return false
	}
	tb.held++
	return true
}

func (tb *table) waited() {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.held--
}

// closeDrain closes the connections of drained targets, of one member or (0) of
// all, and says how many.
func (tb *table) closeDrain(member wire.ID) int {
	tb.mu.Lock()
	var doomed []*conn
	for _, t := range tb.targets {
		if t.Mode == wire.Drain && (member == 0 || t.MemberID == member) {
			doomed = append(doomed, t.take()...)
		}
	}
	tb.mu.Unlock()
	tb.close(doomed, "told to close what drains")
	return len(doomed)
}

// closeAll closes every connection and takes no further one.
func (tb *table) closeAll() {
	tb.mu.Lock()
	tb.closed = true
	var doomed []*conn
	for _, t := range append(tb.targets, tb.retired...) {
		doomed = append(doomed, t.take()...)
	}
	tb.mu.Unlock()
	tb.close(doomed, "the proxy stops")
}

// status fills in what the table knows.
func (tb *table) status(s *wire.ProxyStatus) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	s.Serial, s.Held = tb.inForce.Serial, tb.held
	s.Targets = make([]wire.ProxyTargetStatus, 0, len(tb.targets))
	for _, t := range tb.targets {
		s.Targets = append(s.Targets, wire.ProxyTargetStatus{
			ProxyTarget: t.ProxyTarget, Admitted: t.admitted, Verdict: t.verdict, Connections: len(t.conns),
		})
	}
}

// pace is how long to wait between the starts of two probes of t, given the
// three paces of Config, and a channel that is closed when that may have changed.
func (tb *table) pace(t *target, cfg *Config) (time.Duration, <-chan struct{}) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	every := cfg.ProbeEvery
	switch {
	case !tb.anyAdmitted():
		every = min(every, cfg.FastEvery)
	case !t.admitted && t.answers:
		every = min(every, cfg.EagerEvery)
	}
	return every, tb.changed
}

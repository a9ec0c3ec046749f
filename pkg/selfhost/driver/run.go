package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Pauses of the loop.
const (
	waitPause = 20 * time.Millisecond  // between looks while something passes by itself
	slowPause = 250 * time.Millisecond // after ten seconds of that
	// patience is how long a refusal that somebody must resolve may stand in the
	// middle of a run (an agent being restarted) before the run ends with it.
	patience = 20 * time.Second
	// sayAgain is how often a failure that lasts is told.
	sayAgain = 5 * time.Second
)

// Driver looks, decides and acts. Not safe for concurrent use, except Look of
// different drivers.
type Driver struct {
	cfg    Config
	log    *slog.Logger
	client *agentclient.Client
	ports  wire.Ports

	mu          sync.Mutex
	nodes       []wire.NodeRef
	leaderIndex uint64 // of the look before: evidence for a late learner

	grant      *grant
	specCount  uint64
	proof      pivot.Proof
	proofEpoch wire.Epoch
	proveFails int
}

// New makes a driver; nothing is asked yet. Close frees its connections.
func New(cfg Config) *Driver {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Ports == (wire.Ports{}) {
		cfg.Ports = wire.DefaultPorts
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Driver{cfg: cfg, log: cfg.Logger, client: agentclient.NewClient(cfg.TLS, cfg.Ports.Agent), ports: cfg.Ports, nodes: unique(cfg.Nodes)}
}

// Close drops the driver's connections.
func (d *Driver) Close() { d.client.Close() }

// Decide asks the brain about a look.
func (d *Driver) Decide(v *View) pivot.Decision { return pivot.Next(v.State) }

// Plan looks once and plans the whole route to want, without doing anything.
func (d *Driver) Plan(ctx context.Context, want wire.Spec, forget []wire.ID) ([]pivot.RouteEntry, *View, error) {
	full, err := d.complete(ctx, want)
	if err != nil {
		return nil, nil, err
	}
	v, err := d.look(ctx, full, forget)
	if err != nil {
		return nil, nil, err
	}
	s := v.State
	if s.Grant.Held == pivot.Unknown && s.Grant.By == "" {
		s.Grant.Held = pivot.No
	}
	return pivot.Route(s, 500), v, nil
}

// Run drives towards want until Done. want needs Nodes and Target; the rest is
// taken from the stored spec (see Survey). Errors: *RefusedError (nothing can be done until
// somebody acts, or a wait outlasted Config.Timeout), the context's (stopped
// between two steps; the same call goes on), or the last failure of a step that
// kept failing. What was done is durable at the agents; running again goes on.
func (d *Driver) Run(ctx context.Context, want wire.Spec, forget []wire.ID) (Result, error) {
	full, err := d.complete(ctx, want)
	if err != nil {
		return Result{}, err
	}
	defer d.dropGrant(ctx)
	r := &run{d: d, want: *full, forget: forget, start: time.Now(), changed: time.Now(), seen: map[string]bool{}}
	for {
		done, err := r.turn(ctx)
		if done || err != nil {
			r.res.Seconds = time.Since(r.start).Seconds()
			return r.res, err
		}
	}
}

// run is one call of Run.
type run struct {
	d      *Driver
	want   wire.Spec
	forget []wire.ID
	start  time.Time
	res    Result
	// seen are the states since the last step: a process that comes and dies in
	// turn changes what is seen, and nothing.
	seen    map[string]bool
	changed time.Time // when something new was last seen, or a step worked
	told    string    // the wait last told
	refused string    // what the first looks refuse, by name
	fails   int
	// the failure last told, so that one that lasts is not told at every look
	failed   string
	failedAt time.Time
}

// turn is one look, one decision, at most one step.
func (r *run) turn(ctx context.Context) (done bool, err error) {
	v, err := r.d.look(ctx, &r.want, r.forget)
	if err != nil {
		return false, err
	}
	v.wanted = &r.want
	r.res.View = v
	r.measure(v)
	if now := v.State.String(); !r.seen[now] {
		r.seen[now], r.changed = true, time.Now()
		r.d.log.Debug("what was seen changed", "state", now)
	}
	dec := pivot.Next(v.State)
	switch {
	case dec.Step == nil:
		return false, r.wait(ctx, v, dec)
	case dec.Step.Kind == pivot.Done:
		r.d.tell(Event{Kind: EventDone, Step: *dec.Step, View: v})
		return true, nil
	}
	return false, r.step(ctx, v, *dec.Step)
}

func (r *run) step(ctx context.Context, v *View, step pivot.Step) error {
	r.told = ""
	r.d.tell(Event{Kind: EventStep, Step: step, View: v})
	began := time.Now()
	err := r.d.do(ctx, v, r.want, step)
	took := time.Since(began)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.fails++
		r.d.answerStale(err)
		if text := step.String() + err.Error(); text != r.failed || time.Since(r.failedAt) > sayAgain {
			r.failed, r.failedAt = text, time.Now()
			r.d.tell(Event{Kind: EventFailed, Step: step, Err: err, Took: took, View: v})
		}
		if time.Since(r.changed) > r.d.cfg.Timeout {
			return fmt.Errorf("%s failed %d times, nothing changed for %s: %w", step, r.fails, r.d.cfg.Timeout, err)
		}
		return sleep(ctx, min(time.Second, waitPause<<min(r.fails, 6)))
	}
	r.fails, r.changed = 0, time.Now()
	clear(r.seen)
	r.res.Steps++
	r.d.tell(Event{Kind: EventDone, Step: step, Took: took, View: v})
	if r.d.cfg.AfterStep != nil {
		return r.d.cfg.AfterStep(step)
	}
	return nil
}

// wait tells a wait once and pauses; refusals that somebody must resolve end
// the run, at once before the first step, after some patience in its middle.
func (r *run) wait(ctx context.Context, v *View, dec pivot.Decision) error {
	still := time.Since(r.changed)
	if !dec.Waits() && (r.res.Steps == 0 || still > patience) {
		// Two looks in a row must say so: an agent on a busy node may miss one.
		if t := names2(dec); r.res.Steps == 0 && t != r.refused {
			r.refused = t
			return sleep(ctx, waitPause)
		}
		return &RefusedError{dec.Refusals}
	}
	if still > r.d.cfg.Timeout {
		return &RefusedError{dec.Refusals}
	}
	kind := EventSync
	if t := names2(dec); t != r.told {
		kind, r.told = EventWait, t
	}
	r.d.tell(Event{Kind: kind, Refusals: dec.Refusals, View: v})
	pause := waitPause
	if still > 10*time.Second {
		pause = slowPause
	}
	return sleep(ctx, pause)
}

// names2 identifies a wait without its figures, which change at every look.
func names2(dec pivot.Decision) string {
	s := ""
	for _, f := range dec.Refusals {
		s += f.Name + " " + f.Node + ";"
	}
	return s
}

// measure notes when all wanted members first were voters, and first served.
func (r *run) measure(v *View) {
	voters, serving := 0, 0
	for _, m := range v.State.Members {
		if m.Slot != pivot.MemberSlot || !v.State.Want.Has(m.Node) {
			continue
		}
		if m.Role == pivot.Voter {
			voters++
		}
		if m.Serves == pivot.Yes {
			serving++
		}
	}
	if r.res.SecondsToVoters == 0 && voters >= len(r.want.Nodes) {
		r.res.SecondsToVoters = time.Since(r.start).Seconds()
	}
	if r.res.SecondsToServing == 0 && serving >= len(r.want.Nodes) {
		r.res.SecondsToServing = time.Since(r.start).Seconds()
	}
}

func (d *Driver) tell(e Event) {
	e.Time = time.Now().UTC()
	switch e.Kind {
	case EventStep:
		d.log.Info("step", "step", e.Step.String(), "why", e.Step.Why)
	case EventDone:
		d.log.Info("step done", "step", e.Step.String(), "took", e.Took)
	case EventFailed:
		d.log.Warn("step failed, looking again", "step", e.Step.String(), "took", e.Took, "error", e.Err)
	case EventWait:
		d.log.Info("waiting", "for", (&RefusedError{e.Refusals}).Error())
	}
	if d.cfg.Events != nil {
		d.cfg.Events(e)
	}
}

// ErrStopped is what AfterStep may return to end a run on purpose.
var ErrStopped = errors.New("stopped after a step")

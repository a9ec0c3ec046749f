package operator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Pauses after runs that failed, so that one that always does costs little.
const (
	firstPause  = 5 * time.Second
	lastPause   = time.Minute
	runPatience = time.Minute // without anything changing, a run ends and is begun anew
)

// engine is what lives longer than a turn of one object: connections, and the
// run under way. Nothing that is decided rests on it.
type engine struct {
	name   types.NamespacedName
	look   *driver.Driver
	refs   []wire.NodeRef
	ports  wire.Ports
	id     string         // of the driver certificate in use
	stored []wire.NodeRef // nodes of the spec last found at the agents

	run       *run
	failed    string
	failures  int
	notBefore time.Time
	told      string // refusal last told as an event
	wrote     time.Time
}

// run is one driver's run, in a goroutine of its own.
type run struct {
	want   wire.Spec
	cancel context.CancelFunc
	done   chan struct{}
	err    error // after done

	mu   sync.Mutex
	last pivot.Decision
}

func (r *run) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *run) decision() (pivot.Decision, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.last.Step != nil || len(r.last.Refusals) > 0
}

// sameWant: nodes, target and source are what a run is about.
func sameWant(a, b wire.Spec) bool {
	at := func(x, y wire.NodeRef) bool { return x.Name == y.Name && x.Address == y.Address }
	return a.Target == b.Target && a.Source.Same(b.Source) && slices.EqualFunc(a.Nodes, b.Nodes, at)
}

func (e *engine) working() bool { return e.run != nil && !e.run.over() }

// stop asks the run to end after the step that it is in, and does not wait.
func (e *engine) stop() {
	if e.working() {
		e.run.cancel()
	}
}

// survey looks once through a driver that is kept while nodes, ports and
// certificate stay the same, since it compares a look with the one before.
func (e *engine) survey(ctx context.Context, o *Operator, id identity, refs []wire.NodeRef, want wire.Spec) (*driver.View, error) {
	for {
		if e.ports == (wire.Ports{}) {
			e.ports = wire.DefaultPorts
			if o.cfg.AgentPort != 0 {
				e.ports.Agent = o.cfg.AgentPort
			}
		}
		if e.look == nil || e.id != id.mark || !slices.EqualFunc(e.refs, refs, sameRef) {
			e.close()
			e.refs, e.id = refs, id.mark
			e.look = driver.New(o.driverConfig(e, id, refs))
		}
		v, err := e.look.Survey(ctx, want)
		if v != nil && v.Spec != nil {
			e.stored = v.Spec.Nodes
			if v.Spec.Ports != e.ports && v.Spec.Ports != (wire.Ports{}) {
				e.ports = v.Spec.Ports
				e.close()
				continue
			}
		}
		return v, err
	}
}

func sameRef(a, b wire.NodeRef) bool { return a.Name == b.Name && a.Address == b.Address }

func (e *engine) close() {
	if e.look != nil {
		e.look.Close()
		e.look = nil
	}
}

func (o *Operator) driverConfig(e *engine, id identity, refs []wire.NodeRef) driver.Config {
	return driver.Config{Nodes: refs, Ports: e.ports, TLS: id.tls, Key: o.key, Name: "operator " + o.cfg.Name,
		Logger: o.log.With("etcdcluster", e.name.String()), Timeout: runPatience}
}

// start begins a run towards want. The run ends with ctx, when it is done, or
// when it is stopped; it needs no API.
func (o *Operator) start(e *engine, c *v1alpha1.EtcdCluster, id identity, want wire.Spec, first pivot.Decision) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{want: want, cancel: cancel, done: make(chan struct{}), last: first}
	e.run = r
	cfg := o.driverConfig(e, id, want.Nodes)
	object := c.DeepCopy()
	cfg.Events = func(ev driver.Event) {
		r.mu.Lock()
		switch ev.Kind {
		case driver.EventStep:
			r.last = pivot.Decision{Step: &ev.Step}
		case driver.EventWait, driver.EventSync:
			r.last = pivot.Decision{Refusals: ev.Refusals}
		}
		r.mu.Unlock()
		o.events.of(object, ev)
	}
	d := driver.New(cfg)
	go func() {
		defer close(r.done)
		defer d.Close()
		defer cancel()
		_, r.err = d.Run(ctx, want, nil)
	}()
}

// finish takes note of how a run ended, once.
func (o *Operator) finish(e *engine) {
	if e.run == nil || !e.run.over() {
		return
	}
	err := e.run.err
	e.run = nil
	var refused *driver.RefusedError
	switch {
	case err == nil:
		e.failed, e.failures, e.notBefore = "", 0, time.Time{}
		return
	case errors.Is(err, context.Canceled):
		return // stopped by us
	case errors.As(err, &refused):
		e.failed = refused.Error()
	default:
		e.failed = err.Error()
	}
	e.failures++
	pause := min(lastPause, firstPause<<min(e.failures-1, 5))
	e.notBefore = o.cfg.Now().Add(pause)
	o.log.Warn("run ended", "etcdcluster", e.name.String(), "error", err, "again in", pause)
}

// stopAll ends every run and waits for them: a step that was begun is awaited by
// its agent, not by us.
func (o *Operator) stopAll(why string) {
	for _, e := range o.engines {
		if e.working() {
			o.log.Info("run stopped", "etcdcluster", e.name.String(), "why", why)
			e.run.cancel()
		}
	}
	for _, e := range o.engines {
		if e.run != nil {
			<-e.run.done
		}
	}
}

func wantOf(c *v1alpha1.EtcdCluster, api string, nodes []wire.NodeRef) wire.Spec {
	return wire.Spec{V: wire.V, Target: wire.TargetMembers, Nodes: nodes,
		Source: &wire.Source{Cluster: api, UID: string(c.UID), Generation: c.Generation, Created: c.CreationTimestamp.UTC()}}
}

func nameOf(c *v1alpha1.EtcdCluster) types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

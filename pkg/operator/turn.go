package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// world is what one turn read from the API, all of it anew.
type world struct {
	clusters []v1alpha1.EtcdCluster   // oldest first
	nodes    map[string][]corev1.Node // by selector, so that a thousand workers are not read
	api      string                   // UID of kube-system
	id       identity
	idErr    error
}

// turnAll is one turn over every object; it returns the pause before the next.
func (o *Operator) turnAll(ctx context.Context) time.Duration {
	if !o.leads.Load() {
		if o.yields() { // not before: with the API away nobody leads, and a run goes on
			o.stopRuns("another operator leads")
		}
		return whileAway
	}
	w, err := o.read(ctx)
	if err != nil {
		if ctx.Err() == nil && o.cfg.Now().Sub(o.awaySay) > time.Minute {
			o.awaySay = o.cfg.Now()
			o.log.Warn("the API does not answer; nothing new is begun, what is under way goes on", "error", err)
		}
		return whileAway
	}
	if !o.awaySay.IsZero() {
		o.awaySay = time.Time{}
		o.log.Info("the API answers again")
	}
	o.readAPI.Store(true)
	o.forget(w)
	pause := o.cfg.LookEvery
	var older []claim
	for i := range w.clusters {
		c := &w.clusters[i]
		t, e := o.turn(ctx, w, c, older)
		if ctx.Err() != nil {
			return pause
		}
		older = append(older, claimOf(t, e))
		if e.working() || !t.done() && t.dec.Step == nil && t.dec.Waits() || t.refusal == nil && t.dec.Step != nil && !t.done() {
			pause = whileWorking
		}
		o.tell(e, t)
		if err := o.writeStatus(ctx, e, t); err != nil {
			o.log.Warn("status not written; the next turn tries again", "etcdcluster", e.name.String(), "error", err)
			pause = whileWorking
		}
	}
	if w.idErr == nil {
		o.renew(ctx, w)
	}
	return pause
}

// read gets everything from the API; one deadline for all of it.
func (o *Operator) read(ctx context.Context) (*world, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var list v1alpha1.EtcdClusterList
	if err := o.api.List(ctx, &list, client.InNamespace(o.cfg.Namespace)); err != nil {
		return nil, fmt.Errorf("list EtcdClusters: %w", err)
	}
	w := &world{nodes: map[string][]corev1.Node{}, clusters: slices.DeleteFunc(list.Items, func(c v1alpha1.EtcdCluster) bool { return c.DeletionTimestamp != nil })}
	slices.SortFunc(w.clusters, func(a, b v1alpha1.EtcdCluster) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if len(w.clusters) == 0 {
		return w, nil
	}
	for i := range w.clusters {
		sel := selector(&w.clusters[i].Spec)
		var nodes corev1.NodeList
		if err := o.api.List(ctx, &nodes, client.MatchingLabelsSelector{Selector: sel}); err != nil {
			return nil, fmt.Errorf("list Nodes: %w", err)
		}
		w.nodes[sel.String()] = nodes.Items
	}
	var ns corev1.Namespace
	if err := o.api.Get(ctx, types.NamespacedName{Name: "kube-system"}, &ns); err != nil {
		return nil, fmt.Errorf("read namespace kube-system: %w", err)
	}
	w.api = string(ns.UID)
	w.id, w.idErr = o.identity(ctx)
	if w.idErr != nil && ctx.Err() != nil {
		return nil, w.idErr
	}
	return w, nil
}

// forget ends the runs of objects that are gone. The members stay as they are.
func (o *Operator) forget(w *world) {
	for uid, e := range o.engines {
		if slices.ContainsFunc(w.clusters, func(c v1alpha1.EtcdCluster) bool { return c.UID == uid }) {
			continue
		}
		if e.working() {
			e.stop() // its engine goes when it has ended
			continue
		}
		e.close()
		delete(o.engines, uid)
		o.log.Info("EtcdCluster deleted; its members stay as they are", "etcdcluster", e.name.String())
	}
}

func (o *Operator) stopRuns(why string) {
	for _, e := range o.engines {
		if e.working() {
			o.log.Info("run stopped", "etcdcluster", e.name.String(), "why", why)
			e.stop()
		}
	}
}

// claimOf an object is what it asks for and what its agents store: one that is
// refused keeps what it has.
func claimOf(t *turn, e *engine) claim {
	c := claim{name: t.object.Name, nodes: map[string]bool{}}
	if total(t.refusal) {
		return c
	}
	for _, n := range slices.Concat(t.choice.nodes, e.stored) {
		c.nodes[n.Name] = true
	}
	return c
}

// turn looks, decides whether the object is obeyed, and begins, keeps or stops a run.
func (o *Operator) turn(ctx context.Context, w *world, c *v1alpha1.EtcdCluster, older []claim) (*turn, *engine) {
	e := o.engines[c.UID]
	if e == nil {
		e = &engine{name: nameOf(c)}
		o.engines[c.UID] = e
	}
	o.finish(e)
	t := &turn{object: c}
	want := o.judge(ctx, w, t, e, older)
	o.steer(e, t, w, want)
	if t.done() {
		e.failed, e.failures, e.notBefore = "", 0, time.Time{}
	}
	t.working, t.failed = e.working(), e.failed
	if t.working { // what it is at, rather than what a look in the middle of it suggests
		if d, ok := e.run.decision(); ok {
			t.dec = d
		}
	}
	return t, e
}

// judge fills t and returns what the agents are to be driven towards; nil: nothing.
func (o *Operator) judge(ctx context.Context, w *world, t *turn, e *engine, older []claim) *wire.Spec {
	c := t.object
	if w.idErr != nil {
		t.refusal = &Refusal{Name: ReasonNoCertificate, Total: true, Found: w.idErr.Error(), Want: "ca.crt, tls.crt and tls.key of a driver in Secret " + o.cfg.Secret}
		return nil
	}
	nodes := w.nodes[selector(&c.Spec).String()]
	for { // the stored spec, once it is known, orders the choice
		before := e.stored
		t.choice = choose(&c.Spec, nodes, e.stored)
		if t.refusal = claimed(c, t.choice.nodes, older); t.refusal != nil {
			return nil
		}
		want, refs := wantOf(c, w.api, t.choice.nodes), t.choice.nodes
		if t.choice.refusal != nil {
			want, refs = wire.Spec{}, askable(&c.Spec, nodes, e.stored)
		}
		v, err := e.survey(ctx, o, w.id, refs, want)
		if before == nil && e.stored != nil {
			continue
		}
		return o.obey(ctx, w, t, e, v, err, want, refs)
	}
}

// askable are nodes whose agents may know what is stored, where the object's
// own choice cannot be made.
func askable(spec *v1alpha1.EtcdClusterSpec, nodes []corev1.Node, stored []wire.NodeRef) []wire.NodeRef {
	if len(stored) > 0 {
		return stored
	}
	var out []wire.NodeRef
	for _, n := range candidates(spec, nodes, nil) {
		if a := internalIP(&n); a != "" {
			out = append(out, wire.NodeRef{Name: n.Name, Address: a})
		}
	}
	return out
}

// obey says what is to be driven towards: the object's wish; where that is
// refused, what the agents store; nothing where the agents are not ours.
func (o *Operator) obey(ctx context.Context, w *world, t *turn, e *engine, v *driver.View, err error, want wire.Spec, refs []wire.NodeRef) *wire.Spec {
	var refused *driver.RefusedError
	if v == nil {
		return nil // the context's end
	}
	t.view = v
	if t.refusal = otherCluster(t.object, w.api, v); t.refusal != nil {
		return nil
	}
	t.past = fromThePast(t.object, v)
	switch {
	case t.past.is:
		t.refusal = &Refusal{Name: ReasonSpecFromThePast, Found: t.past.found, Want: "edit it, or annotate it to confirm it"}
	case t.choice.refusal != nil:
		t.refusal = t.choice.refusal
	default:
		if t.refusal = unsupported(&t.object.Spec); t.refusal == nil {
			t.refusal = unrolled(&t.object.Spec, v)
		}
	}
	if errors.As(err, &refused) {
		t.dec = pivot.Decision{Refusals: refused.Refusals}
		return nil
	}
	if t.refusal == nil {
		t.dec = e.look.Decide(v)
		return v.Wanted()
	}
	if v, err = e.survey(ctx, o, w.id, refs, wire.Spec{}); v == nil || err != nil {
		return nil
	}
	t.view, t.dec = v, e.look.Decide(v)
	return v.Wanted()
}

// steer begins a run when there is something to do, and stops one that is about
// something else by now.
func (o *Operator) steer(e *engine, t *turn, w *world, want *wire.Spec) {
	if e.working() {
		if want == nil || t.object.Spec.Paused || !sameWant(e.run.want, *want) {
			o.log.Info("run stopped", "etcdcluster", e.name.String(), "why", "the object asks for something else")
			e.stop()
		}
		return
	}
	if e.run != nil || want == nil || t.object.Spec.Paused || t.dec.Step == nil || t.done() || o.cfg.Now().Before(e.notBefore) {
		return
	}
	o.start(e, t.object, w.id, *want, t.dec)
}

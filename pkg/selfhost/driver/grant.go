package driver

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// grant is what this driver holds: a number, and the last round that the joint
// majorities answered within 2 s. A round is used for 7 s from when it was
// sent, which is before any answer to it (DESIGN "Who may drive").
type grant struct {
	mu     sync.Mutex
	number uint64
	round  uint64 // last sent
	good   uint64 // last that had the majorities
	goodAt time.Time
	spec   wire.Spec
	epoch  wire.Epoch
	voters []string
	// outbid: an agent keeps this number for another holder, or a higher one, and
	// would refuse every act of ours for ever.
	outbid  bool
	refs    []wire.NodeRef
	cancel  context.CancelFunc
	stopped chan struct{}
	kick    chan struct{} // asks for a round at once
}

func (d *Driver) grantState(v *View, want *wire.Spec) pivot.Grant {
	if d.grant != nil && d.grant.valid() {
		return pivot.Grant{Held: pivot.Yes}
	}
	g := pivot.Grant{Held: pivot.No}
	if d.cfg.Key == "" {
		g.Held = pivot.Unknown // a mere look
	}
	free, holders := map[string]bool{}, map[string]bool{}
	for _, nv := range v.Nodes {
		if nv.Obs == nil {
			continue
		}
		f := nv.Obs.Fence
		if f.LeftMillis > 0 && f.Holder != d.cfg.Key {
			holders[fmt.Sprintf("%s (number %d, %s left at %s)", f.HolderName, f.Number, time.Duration(f.LeftMillis)*time.Millisecond, nv.Ref.Name)] = true
			continue
		}
		free[nv.Ref.Name] = true
	}
	if len(holders) == 0 || want == nil || pivot.JointMajority(free, v.voterNodes(d.ports, want), names(want.Nodes)) {
		return g
	}
	for h := range holders {
		if g.By == "" || h < g.By {
			g.By = h
		}
	}
	return g
}

// voterNodes are the nodes of the current voters; without a list, the wanted nodes.
func (v *View) voterNodes(ports wire.Ports, want *wire.Spec) []string {
	var out []string
	for _, m := range v.Members {
		if node, _ := v.place(m, ports); !m.Learner {
			out = append(out, node)
		}
	}
	if len(out) == 0 && want != nil {
		return names(want.Nodes)
	}
	return out
}

func names(refs []wire.NodeRef) []string {
	var out []string
	for _, r := range refs {
		out = append(out, r.Name)
	}
	return out
}

func (g *grant) valid() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.good > 0 && !g.outbid && time.Since(g.goodAt) < RoundValid
}

// takeGrant asks every node for a grant one above the highest number any agent
// reports; without the joint majorities it gives back what it got.
func (d *Driver) takeGrant(ctx context.Context, v *View, want wire.Spec) error {
	d.dropGrant(ctx)
	g := &grant{spec: want, epoch: v.Epoch, voters: v.voterNodes(d.ports, &want), stopped: make(chan struct{}), kick: make(chan struct{}, 1)}
	for _, nv := range v.Nodes {
		g.refs = append(g.refs, nv.Ref)
		if nv.Obs != nil && nv.Obs.Fence.Number > g.number {
			g.number = nv.Obs.Fence.Number
		}
	}
	g.number++
	g.spec.Epoch, g.spec.Fence, g.spec.Count = v.Epoch.Number, g.number, 1
	if err := d.roundOf(ctx, g); err != nil {
		close(g.stopped)
		d.grant = g
		d.dropGrant(context.WithoutCancel(ctx))
		return err
	}
	rctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g.cancel = cancel
	d.grant = g
	go d.renew(rctx, g)
	d.log.Info("driver grant taken", "number", g.number, "epoch", g.epoch.Number)
	return nil
}

// roundOf sends one round to every node; it is good when the joint majorities
// answered within 2 s.
func (d *Driver) roundOf(ctx context.Context, g *grant) error {
	g.mu.Lock()
	g.round++
	round, sent := g.round, time.Now()
	req := wire.GrantRequest{V: wire.V, Driver: d.cfg.Key, DriverName: d.cfg.Name, Number: g.number, Round: round,
		TTLMillis: GrantTTL.Milliseconds(), Epoch: g.epoch, Spec: g.spec}
	refs := g.refs
	g.mu.Unlock()

	var mu sync.Mutex
	granted, why := map[string]bool{}, map[string]error{}
	each(refs, func(ref wire.NodeRef) {
		_, err := d.client.GrantTake(ctx, ref.Address, req)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			granted[ref.Name] = true
		} else {
			why[ref.Name] = err
		}
	})
	if time.Since(sent) > agentclient.ReadDeadline+200*time.Millisecond || !pivot.JointMajority(granted, g.voters, names(g.spec.Nodes)) {
		return noMajorities(granted, why)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.good, g.goodAt, g.outbid = round, sent, outbid(why)
	return nil
}

// outbid finds an agent whose number is ours and another's, or higher: two
// drivers that began at once took the same one, and the other gave up. A grant
// taken anew, above it, is granted there too.
func outbid(why map[string]error) bool {
	for _, err := range why {
		if r := agentclient.AsRefusal(err); r != nil && (r.Name == "EqualNumber" || r.Name == "LowerNumber" || r.Name == "GrantDropped") {
			return true
		}
	}
	return false
}

func noMajorities(granted map[string]bool, why map[string]error) error {
	var rows []string
	for n, err := range why {
		rows = append(rows, n+": "+err.Error())
	}
	sort.Strings(rows)
	return fmt.Errorf("%d agents granted, no majority of voters and of desired nodes: %s", len(granted), strings.Join(rows, "; "))
}

func (d *Driver) renew(ctx context.Context, g *grant) {
	defer close(g.stopped)
	t := time.NewTicker(RenewEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-g.kick:
		}
		if err := d.roundOf(ctx, g); err != nil && ctx.Err() == nil {
			d.log.Warn("driver grant not renewed", "number", g.number, "error", err)
		}
	}
}

// answerStale sends a round at once where a step failed because an agent does
// not know the last one: it was restarted and counts the grant as fresh, rounds
// of before may not be used there.
func (d *Driver) answerStale(err error) {
	if r := agentclient.AsRefusal(err); r == nil || r.Name != "StaleRound" || d.grant == nil {
		return
	}
	select {
	case d.grant.kick <- struct{}{}:
	default: // one is under way
	}
}

// dropGrant stops renewing and frees the grant at every agent that hears it;
// others let it run out.
func (d *Driver) dropGrant(ctx context.Context) {
	g := d.grant
	if g == nil {
		return
	}
	d.grant = nil
	if g.cancel != nil {
		g.cancel()
	}
	<-g.stopped
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	each(g.refs, func(ref wire.NodeRef) {
		// An agent that does not hear it lets the grant run out; nothing is lost.
		_ = d.client.GrantDrop(ctx, ref.Address, wire.Act{V: wire.V, Driver: d.cfg.Key, Number: g.number, Round: g.round, Epoch: g.epoch.Number})
	})
}

var errNoGrant = errors.New("the grant ran out: the majorities did not answer for 7 s")

// act heads a mutating RPC for a step.
func (d *Driver) act(v *View, step pivot.Step) (wire.Act, error) {
	if d.grant == nil || !d.grant.valid() {
		return wire.Act{}, errNoGrant
	}
	d.grant.mu.Lock()
	defer d.grant.mu.Unlock()
	return wire.Act{V: wire.V, Driver: d.cfg.Key, Number: d.grant.number, Round: d.grant.good, Epoch: d.grant.epoch.Number,
		Seen: wire.ListHash(v.Members), Step: string(step.Kind), Why: step.Why, Evidence: evidence(v)}, nil
}

// evidence is the look a step was decided on, short enough for a journal line.
func evidence(v *View) string {
	var rows []string
	for _, m := range v.State.Members {
		rows = append(rows, fmt.Sprintf("%s %s %s/%s serves=%s lag=%d", m.ID, m.Role, m.Node, m.Slot, m.Serves, m.Lag))
	}
	return fmt.Sprintf("leader %s; %s", v.Leader, strings.Join(rows, "; "))
}

// each calls f for every node in parallel and waits.
func each(refs []wire.NodeRef, f func(wire.NodeRef)) {
	var wg sync.WaitGroup
	for _, r := range refs {
		wg.Go(func() { f(r) })
	}
	wg.Wait()
}

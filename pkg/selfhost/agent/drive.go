package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func (a *Agent) getFence(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, a.fence())
}

func (a *Agent) fence() wire.Fence {
	epoch, _, _ := a.store.view()
	a.grantMu.Lock()
	defer a.grantMu.Unlock()
	return a.grant.report(a.id.Node.Name, epoch, a.now())
}

// grantTake takes or renews a grant. A takeover, and with it the epoch and spec
// of an agent that has none, is durable before the answer.
func (a *Agent) grantTake(_ context.Context, in wire.GrantRequest) (wire.GrantReply, error) {
	err := a.take(in)
	return wire.GrantReply{V: wire.V, OK: err == nil, Fence: a.fence()}, err
}

func (a *Agent) take(in wire.GrantRequest) error {
	a.grantMu.Lock()
	defer a.grantMu.Unlock()
	adopt, err := a.checkEpoch(in)
	if err != nil {
		return err
	}
	renewal, refusal := a.grant.check(in, a.now())
	if refusal != nil {
		refusal.Node = a.id.Node.Name
		return refusal
	}
	f := a.grant.fence
	if !renewal {
		f = fenceFile{V: wire.V, Number: in.Number, Holder: in.Driver, HolderName: in.DriverName, TTLMillis: in.TTLMillis, Adopt: adopt}
		if err := a.store.setFence(f); err != nil {
			return err
		}
		if err := a.journal.Append(wire.JournalEntry{Step: "TakeGrant", By: by(in.DriverName, in.Number), Number: in.Number, Outcome: "ok"}); err != nil {
			return err // stored, not answered: the driver asks again with the next number
		}
	}
	if err := a.learnIDs(in.Epoch); err != nil {
		return err
	}
	a.grant.set(f, in, a.ttl, a.now())
	return nil
}

// checkEpoch refuses another epoch than ours; an agent without one adopts the
// request's, if its spec names this node at its own address (DESIGN "Epoch").
func (a *Agent) checkEpoch(in wire.GrantRequest) (*adoption, error) {
	own, _, _ := a.store.view()
	if own.Number != 0 {
		return nil, a.sameEpoch(own, in.Epoch)
	}
	n, named := in.Spec.Node(a.id.Node.Name)
	if in.Epoch.Number == 0 || in.Spec.Epoch != in.Epoch.Number || !named || !sameHost(n.Address, a.id.Node.Address) {
		found := fmt.Sprintf("epoch %d, a spec of epoch %d that does not name it", in.Epoch.Number, in.Spec.Epoch)
		if named {
			found = fmt.Sprintf("epoch %d, a spec of epoch %d that puts it at %s", in.Epoch.Number, in.Spec.Epoch, n.Address)
		}
		return nil, &wire.Refusal{Name: "NotNamed", Node: a.id.Node.Name, Found: found, Cites: `DESIGN "Epoch"`,
			Want: fmt.Sprintf("an epoch, and a spec of it that names this node at %s: it has none yet", a.id.Node.Address)}
	}
	in.Spec.V = wire.V
	return &adoption{Epoch: in.Epoch, Spec: in.Spec}, nil
}

func (a *Agent) sameEpoch(own, theirs wire.Epoch) error {
	r := &wire.Refusal{Node: a.id.Node.Name, Found: epochString(theirs), Want: epochString(own), Cites: `DESIGN "Epoch"`}
	switch {
	case theirs.Number < own.Number:
		r.Name = "OlderEpoch"
	case theirs.Number > own.Number:
		r.Name = "NewerEpoch"
	case differ(own.SeedID, theirs.SeedID) || differ(own.ClusterID, theirs.ClusterID):
		r.Name = "EpochConflict"
	default:
		return nil
	}
	return r
}

func differ(a, b wire.ID) bool { return a != 0 && b != 0 && a != b }

func epochString(e wire.Epoch) string {
	if e.ClusterID == 0 {
		return fmt.Sprintf("epoch %d", e.Number)
	}
	return fmt.Sprintf("epoch %d of cluster %s", e.Number, e.ClusterID)
}

// learnIDs fills in IDs that were not recorded when the epoch was adopted; the
// seed's own node reads them from its WAL instead.
func (a *Agent) learnIDs(e wire.Epoch) error {
	own, _, _ := a.store.view()
	if own.ClusterID != 0 || e.ClusterID == 0 || own.Number != e.Number || len(a.store.slot(wire.SlotSeed).Args) > 0 {
		return nil
	}
	return a.store.setEpoch(e)
}

// grantDrop frees the grant; by anybody but its holder it does nothing.
func (a *Agent) grantDrop(_ context.Context, in wire.Act) (wire.Reply, error) {
	a.grantMu.Lock()
	defer a.grantMu.Unlock()
	f := a.grant.fence
	if in.Driver == "" || in.Driver != f.Holder || in.Number != f.Number || f.Free {
		return ok(), nil
	}
	f = a.grant.dropped()
	if err := a.store.setFence(f); err != nil {
		return wire.Reply{}, err
	}
	a.grant.setDropped(f)
	return ok(), a.journal.Append(wire.JournalEntry{Step: "DropGrant", By: by(f.HolderName, f.Number), Number: f.Number, Outcome: "ok"})
}

func by(name string, number uint64) string { return fmt.Sprintf("%s, number %d", name, number) }

// act runs the work of a mutating RPC: only under the current grant and a
// round answered here less than RoundUse ago, journaled before and after. The
// work does not end with the caller's connection: a driver that died has one
// RPC under way, which is done or not, never half. Its context ends with the
// grant of that round.
func (a *Agent) act(in wire.Act, step, what string, work func(ctx context.Context) error) error {
	e := wire.JournalEntry{Step: step, By: a.holderName(in), Number: in.Number, Why: in.Why, Evidence: in.Evidence}
	if in.Step != "" {
		e.Step = in.Step
	}
	if e.Why == "" {
		e.Why = what
	} else {
		e.Why = what + ": " + e.Why
	}
	until, err := a.mayAct(in)
	if err == nil {
		e.Outcome = "begun"
		if err := a.journal.Append(e); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), until.Sub(a.now()))
		defer cancel()
		err = work(ctx)
	}
	e.Outcome = outcome(err)
	return errors.Join(err, a.journal.Append(e))
}

func outcome(err error) string {
	var r *wire.Refusal
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &r):
		return "refused: " + r.Error()
	}
	return "failed: " + err.Error()
}

func (a *Agent) holderName(in wire.Act) string {
	a.grantMu.Lock()
	defer a.grantMu.Unlock()
	if in.Driver == a.grant.fence.Holder {
		return by(a.grant.fence.HolderName, in.Number)
	}
	return by("an unknown driver", in.Number)
}

func (a *Agent) mayAct(in wire.Act) (until time.Time, err error) {
	a.grantMu.Lock()
	defer a.grantMu.Unlock()
	until, refusal := a.grant.act(in, a.now())
	if refusal != nil {
		refusal.Node = a.id.Node.Name
		return until, refusal
	}
	own, _, _ := a.store.view()
	return until, a.sameEpoch(own, wire.Epoch{Number: in.Epoch})
}

// setSpec stores a spec above the stored one; the same again is done.
func (a *Agent) setSpec(_ context.Context, in wire.SpecRequest) (wire.Reply, error) {
	return ok(), a.act(in.Act, "WriteSpec", fmt.Sprintf("spec %d.%d.%d", in.Spec.Epoch, in.Spec.Fence, in.Spec.Count), func(context.Context) error {
		own, have, _ := a.store.view()
		next := in.Spec
		next.V = wire.V
		if next.Epoch != own.Number {
			return a.sameEpoch(own, wire.Epoch{Number: next.Epoch})
		}
		if have == nil || next.Newer(*have) {
			return a.store.setSpec(next)
		}
		if sameJSON(next, *have) {
			return nil
		}
		name := "OlderSpec"
		if !have.Newer(next) {
			name = "SpecConflict"
		}
		return &wire.Refusal{Name: name, Node: a.id.Node.Name, Cites: `DESIGN "Desired spec"`,
			Found: fmt.Sprintf("(epoch %d, fence %d, count %d)", next.Epoch, next.Fence, next.Count),
			Want:  fmt.Sprintf("one above (epoch %d, fence %d, count %d)", have.Epoch, have.Fence, have.Count)}
	})
}

func sameJSON(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

// tombstone records a removal, at the gate too where it is of this node.
func (a *Agent) tombstone(_ context.Context, in wire.TombstoneRequest) (wire.Reply, error) {
	t := in.Tombstone
	return ok(), a.act(in.Act, "WriteTombstone", fmt.Sprintf("%s tombstone of member %s", t.Phase, t.MemberID), func(context.Context) error {
		switch t.Phase {
		case wire.TombIntended, wire.TombFinal, wire.TombWithdrawn:
		default:
			return badRequest{fmt.Errorf("tombstone phase %q", t.Phase)}
		}
		if t.MemberID == 0 || t.ClusterID == 0 {
			return badRequest{errors.New("a tombstone names member and cluster")}
		}
		return a.store.setTombstone(t)
	})
}

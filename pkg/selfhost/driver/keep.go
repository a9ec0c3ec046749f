package driver

import (
	"context"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Keeper is one node's answer about what it keeps of the past. Err is why its
// agent gave none.
type Keeper struct {
	Ref     wire.NodeRef
	Attic   *wire.AtticReply
	Journal *wire.JournalFilesReply
	Err     error
}

// keepers asks every node that answers a look. A silent node is told with its
// reason; the error is the context's.
func (d *Driver) keepers(ctx context.Context, ask func(context.Context, *Keeper)) ([]Keeper, error) {
	v, err := d.Look(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Keeper, len(v.Nodes))
	at := map[string]*Keeper{}
	var refs []wire.NodeRef
	for i, nv := range v.Nodes {
		out[i] = Keeper{Ref: nv.Ref, Err: nv.Err}
		if nv.Obs != nil {
			at[nv.Ref.Name] = &out[i]
			refs = append(refs, nv.Ref)
		}
	}
	each(refs, func(r wire.NodeRef) { ask(ctx, at[r.Name]) })
	return out, ctx.Err()
}

// Attics asks every node for its attic; keep is how many of the newest entries
// are to stay.
func (d *Driver) Attics(ctx context.Context, keep int) ([]Keeper, error) {
	return d.keepers(ctx, func(ctx context.Context, k *Keeper) {
		k.Attic, k.Err = d.client.Attic(ctx, k.Ref.Address, keep)
	})
}

// Journals asks every node for the journals that were set aside.
func (d *Driver) Journals(ctx context.Context) ([]Keeper, error) {
	return d.keepers(ctx, func(ctx context.Context, k *Keeper) {
		k.Journal, k.Err = d.client.JournalFiles(ctx, k.Ref.Address)
	})
}

// Pruned is what one prune did on a node.
type Pruned struct {
	Node    string   `json:"node"`
	Removed []string `json:"removed"`
	Bytes   int64    `json:"bytes"`
}

// PruneAttic removes one entry of a node's attic under a grant. The node's agent
// looks at the live members itself, and refuses what they do not hold (I3).
func (t *Tidying) PruneAttic(ctx context.Context, ref wire.NodeRef, entry string, keep int) (Pruned, error) {
	act, err := t.act()
	if err != nil {
		return Pruned{}, err
	}
	r, err := t.d.client.AtticPrune(ctx, ref.Address, wire.AtticPruneRequest{Act: act, Entry: entry, Keep: keep})
	return Pruned{ref.Name, r.Removed, r.Bytes}, err
}

// PruneJournals removes all but the newest keep journals a node set aside.
func (t *Tidying) PruneJournals(ctx context.Context, ref wire.NodeRef, keep int) (Pruned, error) {
	act, err := t.act()
	if err != nil {
		return Pruned{}, err
	}
	r, err := t.d.client.JournalPrune(ctx, ref.Address, wire.JournalPruneRequest{Act: act, Keep: keep})
	return Pruned{ref.Name, r.Removed, r.Bytes}, err
}

// Tidying is a grant taken to remove what is kept of the past. Close gives it back.
type Tidying struct {
	d *Driver
	v *View
}

// Tidy takes a grant where there is nothing else to do: every node answers and
// the brain, asked about the stored spec, says Done. Anything else is a
// *RefusedError, NotSettled: what is half done may still need what is kept (I8),
// and nothing irreversible follows from silence (I4).
func (d *Driver) Tidy(ctx context.Context) (*Tidying, error) {
	v, err := d.Look(ctx)
	if err != nil {
		return nil, err
	}
	if r := settled(v, d.Decide(v)); r != nil {
		return nil, &RefusedError{[]pivot.Refusal{*r}}
	}
	if by := v.State.Grant.By; by != "" {
		return nil, &RefusedError{[]pivot.Refusal{{Name: "GrantHeld", Step: pivot.TakeGrant, Found: "another driver holds the grant: " + by, Want: "it ends, or its grant runs out"}}}
	}
	if err := d.takeGrant(ctx, v, *v.Spec); err != nil {
		return nil, err
	}
	t := &Tidying{d: d, v: v}
	// Another driver may have ended between the look and the grant; from here on there is none.
	if v, err = d.Look(ctx); err == nil {
		t.v = v
		if r := settled(v, d.Decide(v)); r != nil {
			err = &RefusedError{[]pivot.Refusal{*r}}
		}
	}
	if err != nil {
		t.Close(ctx)
		return nil, err
	}
	return t, nil
}

// prune is the step that Tidy refuses.
const prune pivot.Kind = "Prune"

func settled(v *View, dec pivot.Decision) *pivot.Refusal {
	r := &pivot.Refusal{Name: "NotSettled", Step: prune, Cites: "I4, I8", Want: "prune again when every agent answers and `bootstrap status` ends with `next: nothing`"}
	for _, nv := range v.Nodes {
		if nv.Obs == nil {
			r.Node, r.Found = nv.Ref.Name, "its agent does not answer: "+agentclient.Why(nv.Err)
			return r
		}
	}
	if v.Spec == nil || dec.Step == nil || dec.Step.Kind != pivot.Done {
		r.Found = "something is to be done or waited for: " + dec.String()
		return r
	}
	return nil
}

// Close gives the grant back.
func (t *Tidying) Close(ctx context.Context) { t.d.dropGrant(ctx) }

func (t *Tidying) act() (wire.Act, error) {
	return t.d.act(t.v, pivot.Step{Kind: "", Why: "asked for by a person"})
}

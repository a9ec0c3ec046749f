package driver

import (
	"context"
	"fmt"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Survey looks once and judges what was seen against want, doing nothing: the
// view's State is what Decide and Wanted speak of. Without nodes want is the
// stored spec. A *RefusedError comes together with the view: want contradicts
// what an agent says, and the view is judged against the stored spec.
func (d *Driver) Survey(ctx context.Context, want wire.Spec) (*View, error) {
	v, err := d.look(ctx, &want, nil)
	if err != nil {
		return nil, err
	}
	full, err := d.completeFrom(v, want)
	if err != nil || len(full.Nodes) == 0 {
		full = v.Spec
	}
	v.order(full)
	d.fill(v, full, nil)
	v.wanted = full
	return v, err
}

// Wanted is the spec that the view was judged against; nil where there was none.
func (v *View) Wanted() *wire.Spec { return v.wanted }

// complete looks once and fills want from the stored spec and the agents' own
// identities.
func (d *Driver) complete(ctx context.Context, want wire.Spec) (*wire.Spec, error) {
	v, err := d.look(ctx, &want, nil)
	if err != nil {
		return nil, err
	}
	return d.completeFrom(v, want)
}

// completeFrom fills want: ports, settings and binary are the cluster's,
// addresses the node's own word, or as last stored where its agent is silent.
// The source stays on record where want names none.
func (d *Driver) completeFrom(v *View, want wire.Spec) (*wire.Spec, error) {
	out := wire.Spec{V: wire.V, Target: want.Target, Ports: d.ports, EtcdBinary: want.EtcdBinary, Settings: want.Settings, Source: want.Source}
	if v.Spec != nil {
		out.Ports, out.EtcdBinary, out.Settings = v.Spec.Ports, v.Spec.EtcdBinary, v.Spec.Settings
		if len(want.Nodes) == 0 {
			want.Nodes = v.Spec.Nodes
		}
		if out.Target == "" {
			out.Target = v.Spec.Target
		}
		if out.Source == nil {
			out.Source = v.Spec.Source
		}
	}
	for _, n := range want.Nodes {
		nv := v.Node(n.Name)
		switch {
		case nv != nil && nv.Obs != nil && n.Address != "" && !isAt(nv.Ref, n.Address):
			return nil, &RefusedError{[]pivot.Refusal{{Name: "AddressDiffers", Step: pivot.WriteSpec, Node: n.Name,
				Found: fmt.Sprintf("%s was asked for, and its agent says that it is at %s", n.Address, nv.Ref.Address),
				Want:  fmt.Sprintf("%s=%s, or the name of the node that has %s", n.Name, nv.Ref.Address, n.Address)}}}
		case nv != nil && nv.Obs != nil:
			n = nv.Ref
		case v.Spec != nil:
			if old, ok := v.Spec.Node(n.Name); ok && isAt(old, n.Address) {
				n = old
			}
		}
		out.Nodes = append(out.Nodes, n)
	}
	return &out, nil
}

// isAt says whether addr is one of the node's addresses.
func isAt(n wire.NodeRef, addr string) bool {
	if sameIP(n.Address, addr) {
		return true
	}
	for _, a := range n.MoreAddresses {
		if sameIP(a, addr) {
			return true
		}
	}
	return false
}

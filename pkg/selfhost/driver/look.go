package driver

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// inSyncEntries is I7's bound on top of etcd's own 90 %.
const inSyncEntries = 1000

// Look asks every known agent once, in parallel, each under its own deadline,
// and puts the answers together. Nodes that a spec names and nobody asked yet
// are asked in a second round. It never fails for a silent node; the error is
// the context's.
func (d *Driver) Look(ctx context.Context) (*View, error) { return d.look(ctx, nil, nil) }

func (d *Driver) look(ctx context.Context, want *wire.Spec, forget []wire.ID) (*View, error) {
	refs := d.known(want)
	got := d.ask(ctx, refs)
	if more := unasked(got, refs); len(more) > 0 {
		for name, nv := range d.ask(ctx, more) {
			join(got, name, nv)
		}
		d.learn(more)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v := &View{At: time.Now()}
	for _, nv := range got {
		v.Nodes = append(v.Nodes, nv)
		if nv.Obs == nil {
			continue
		}
		if sp := nv.Obs.Spec; sp != nil && (v.Spec == nil || sp.Newer(*v.Spec)) {
			v.Spec = sp
		}
		if nv.Obs.Epoch.Number > v.Epoch.Number || nv.Obs.Epoch.Number == v.Epoch.Number && v.Epoch.ClusterID == 0 {
			v.Epoch = nv.Obs.Epoch
		}
	}
	v.nameSilent(want)
	v.order(want)
	v.readList()
	d.fill(v, want, forget)
	return v, nil
}

// nameSilent gives nodes that were asked by address alone, and are silent, the
// name under which a spec knows that address.
func (v *View) nameSilent(want *wire.Spec) {
	for _, sp := range []*wire.Spec{want, v.Spec} {
		if sp == nil {
			continue
		}
		for i := range v.Nodes {
			if nv := &v.Nodes[i]; nv.Obs == nil && nv.Ref.Name == nv.Ref.Address {
				for _, n := range sp.Nodes {
					if sameIP(n.Address, nv.Ref.Address) && v.Node(n.Name) == nil {
						nv.Ref = n
					}
				}
			}
		}
	}
}

// ask observes refs in parallel.
func (d *Driver) ask(ctx context.Context, refs []wire.NodeRef) map[string]NodeView {
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]NodeView{}
	for _, ref := range refs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, ObserveTimeout)
			defer cancel()
			obs, err := d.client.Observe(ctx, ref.Address)
			if err == nil && ref.Name != "" && obs.Identity.Node.Name != ref.Name {
				err = fmt.Errorf("the agent at %s is %s's, expected %s", ref.Address, obs.Identity.Node.Name, ref.Name)
				obs = nil
			}
			name := ref.Name
			if obs != nil {
				ref = obs.Identity.Node // the node's own word on its addresses
				name = ref.Name
			}
			if name == "" {
				name, ref.Name = ref.Address, ref.Address
			}
			mu.Lock()
			defer mu.Unlock()
			join(out, name, NodeView{Ref: ref, Obs: obs, Err: err})
		})
	}
	wg.Wait()
	return out
}

// join puts a view beside the others. One node may be asked at several of its
// addresses; two addresses that go by one name are two machines, and nothing
// that either says may be taken for that node's word: it is unknown.
func join(out map[string]NodeView, name string, nv NodeView) {
	have, twice := out[name]
	switch {
	case !twice:
		out[name] = nv
	case sameIP(have.Ref.Address, nv.Ref.Address):
		if have.Obs == nil {
			out[name] = nv
		}
	default:
		at := []string{have.Ref.Address, nv.Ref.Address}
		sort.Strings(at)
		have.Obs = nil
		have.Ref.MoreAddresses = append(slices.Clone(have.Ref.MoreAddresses), nv.Ref.Address) // a member at either is this name's
		have.Err = fmt.Errorf("two agents go by the name %s, at %s and at %s, so neither is believed: one is a copy, or was given the other's name; stop that one", name, at[0], at[1])
		out[name] = have
	}
}

// known are the nodes to ask: the configured, the learnt, the wanted.
func (d *Driver) known(want *wire.Spec) []wire.NodeRef {
	d.mu.Lock()
	defer d.mu.Unlock()
	refs := append([]wire.NodeRef(nil), d.nodes...)
	if want != nil {
		refs = append(refs, want.Nodes...)
	}
	return unique(refs)
}

func (d *Driver) learn(refs []wire.NodeRef) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = unique(append(d.nodes, refs...))
}

func unique(refs []wire.NodeRef) []wire.NodeRef {
	var out []wire.NodeRef
	seen := map[string]bool{}
	for _, r := range refs {
		if !seen[r.Address] {
			seen[r.Address] = true
			out = append(out, r)
		}
	}
	return out
}

// unasked are nodes that an answering agent's spec names and refs does not.
func unasked(got map[string]NodeView, refs []wire.NodeRef) []wire.NodeRef {
	asked := map[string]bool{}
	for _, r := range refs {
		asked[r.Address] = true
	}
	var more []wire.NodeRef
	for _, nv := range got {
		if nv.Obs == nil || nv.Obs.Spec == nil {
			continue
		}
		for _, n := range nv.Obs.Spec.Nodes {
			if !asked[n.Address] {
				asked[n.Address] = true
				more = append(more, n)
			}
		}
	}
	return more
}

// order sorts nodes: the spec's order, then others by name.
func (v *View) order(want *wire.Spec) {
	if want == nil {
		want = v.Spec
	}
	rank := map[string]int{}
	if want != nil {
		for i, n := range want.Nodes {
			rank[n.Name] = i + 1
		}
	}
	sort.Slice(v.Nodes, func(i, j int) bool {
		a, b := rank[v.Nodes[i].Ref.Name], rank[v.Nodes[j].Ref.Name]
		if a != b && a != 0 && b != 0 {
			return a < b
		}
		if (a == 0) != (b == 0) {
			return a != 0
		}
		return v.Nodes[i].Ref.Name < v.Nodes[j].Ref.Name
	})
}

// Node finds a node by name.
func (v *View) Node(name string) *NodeView {
	for i := range v.Nodes {
		if v.Nodes[i].Ref.Name == name {
			return &v.Nodes[i]
		}
	}
	return nil
}

// SlotOfMember finds where a member runs or lies.
func (v *View) SlotOfMember(id wire.ID) (*NodeView, *wire.SlotStatus) {
	for i := range v.Nodes {
		if v.Nodes[i].Obs == nil {
			continue
		}
		for j := range v.Nodes[i].Obs.Slots {
			if sl := &v.Nodes[i].Obs.Slots[j]; sl.MemberID == id && id != 0 {
				return &v.Nodes[i], sl
			}
		}
	}
	return nil, nil
}

// readList takes the leader of the highest term, and the list that the leader
// itself serves, read linearizably; a served list of anybody else decides nothing (I7).
func (v *View) readList() {
	var term uint64
	for _, nv := range v.Nodes {
		for _, sl := range nv.slots() {
			if e := sl.Etcd; e != nil && e.Leader != 0 && e.Term > term {
				term, v.Leader = e.Term, e.Leader
			}
		}
	}
	if _, sl := v.SlotOfMember(v.Leader); sl != nil && sl.Etcd != nil && sl.Etcd.Linearizable {
		v.Members = sl.Etcd.Members
		return
	}
	// For people only: what a member serves while no leader answers.
	for _, nv := range v.Nodes {
		for _, sl := range nv.slots() {
			if e := sl.Etcd; e != nil && len(e.Members) > 0 && v.Served == nil {
				v.Served = e.Members
			}
		}
	}
}

// unstarted lists, in words, the voters of the served list that never started:
// registered by other means, they stop every election (CASES M1).
func (v *View) unstarted() []string {
	var out []string
	for _, m := range v.Served {
		if m.Name == "" && !m.Learner {
			out = append(out, fmt.Sprintf("voter %s %s never started", m.ID, strings.Join(m.PeerURLs, " ")))
		}
	}
	return out
}

func (nv *NodeView) slots() []wire.SlotStatus {
	if nv.Obs == nil {
		return nil
	}
	return nv.Obs.Slots
}

// place maps a member to the node and slot whose peer URL it carries, or
// whose process or directory has its ID. Members are IDs; URLs only find the place.
func (v *View) place(m wire.Member, ports wire.Ports) (node string, slot wire.Slot) {
	if nv, sl := v.SlotOfMember(m.ID); nv != nil {
		return nv.Ref.Name, sl.Slot
	}
	for _, raw := range m.PeerURLs {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		host, port := u.Hostname(), u.Port()
		for _, nv := range v.Nodes {
			for _, a := range append([]string{nv.Ref.Address}, nv.Ref.MoreAddresses...) {
				if !sameIP(a, host) {
					continue
				}
				switch port {
				case strconv.Itoa(ports.Peer):
					return nv.Ref.Name, wire.SlotMember
				case strconv.Itoa(ports.SeedPeer):
					return nv.Ref.Name, wire.SlotSeed
				}
			}
		}
	}
	return "", ""
}

func sameIP(a, b string) bool {
	x, y := net.ParseIP(a), net.ParseIP(b)
	if x == nil || y == nil {
		return a == b
	}
	return x.Equal(y)
}

// tombstones: one that not every answering agent has is partial, final only when
// all have it final, so that a half-written one is written again (I8). What was
// withdrawn is none.
func tombstones(v *View) []pivot.Tombstone {
	type count struct{ any, final int }
	seen, agents := map[wire.ID]*count{}, 0
	for _, nv := range v.Nodes {
		if nv.Obs == nil {
			continue
		}
		agents++
		for _, t := range nv.Obs.Tombstones {
			if t.Phase == wire.TombWithdrawn {
				continue
			}
			if seen[t.MemberID] == nil {
				seen[t.MemberID] = &count{}
			}
			seen[t.MemberID].any++
			if t.Phase == wire.TombFinal {
				seen[t.MemberID].final++
			}
		}
	}
	var out []pivot.Tombstone
	for id, c := range seen {
		out = append(out, pivot.Tombstone{ID: pivot.MemberID(id), Final: c.final == agents, Partial: c.any != agents && c.final == 0})
	}
	return out
}

func tri(b bool) pivot.Tri {
	if b {
		return pivot.Yes
	}
	return pivot.No
}

// sameSpec compares what a driver wants with what an agent stores, not their numbers.
func sameSpec(a, b wire.Spec) bool {
	if a.Target != b.Target || len(a.Nodes) != len(b.Nodes) || a.Ports != b.Ports || a.EtcdBinary != b.EtcdBinary || a.Settings != b.Settings || !a.Source.Same(b.Source) {
		return false
	}
	for i := range a.Nodes {
		if a.Nodes[i].Name != b.Nodes[i].Name || a.Nodes[i].Address != b.Nodes[i].Address || a.Nodes[i].Proxy() != b.Nodes[i].Proxy() {
			return false
		}
	}
	return true
}

// applyArgs picks what takes part in apply from a process's arguments (I11);
// "" where the process did not say. etcd's own default is 1.
func applyArgs(args []string) string {
	if len(args) == 0 {
		return ""
	}
	val := "1"
	for i, a := range args {
		for _, p := range []string{"--max-learners", "-max-learners"} {
			if a == p && i+1 < len(args) {
				val = args[i+1]
			} else if len(a) > len(p) && a[:len(p)+1] == p+"=" {
				val = a[len(p)+1:]
			}
		}
	}
	return "max-learners=" + val
}

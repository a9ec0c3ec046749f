package agent

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sort"
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// askFence reads a node's fence, this node's own without a call. An answer in
// another node's name is an error: something else lives at that address.
func (a *Agent) askFence(ctx context.Context, n wire.NodeRef) (wire.Fence, error) {
	if n.Name == a.id.Node.Name {
		return a.fence(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, agentclient.ReadDeadline)
	defer cancel()
	f, err := a.peers.Fence(ctx, n.Address)
	if err == nil && f.Node != n.Name {
		err = fmt.Errorf("the agent at %s is %s's, expected %s", n.Address, f.Node, n.Name)
	}
	return f, err
}

// superseded asks the nodes of the voters and the spec's nodes whether act's
// number is still the highest. It needs a majority of each (the joint rule)
// that has it from this very driver, and nobody with a higher one; it does not
// wait for the rest (DESIGN "Who may drive").
func (a *Agent) superseded(ctx context.Context, act wire.Act, voters, desired []string, nodes map[string]wire.NodeRef) error {
	ctx, cancel := context.WithTimeout(ctx, agentclient.ReadDeadline)
	defer cancel()
	type answer struct {
		node string
		f    wire.Fence
		err  error
	}
	answers := make(chan answer, len(nodes))
	for name, n := range nodes {
		go func() {
			f, err := a.askFence(ctx, n)
			answers <- answer{name, f, err}
		}()
	}
	var same []string
	var others []string
	for range nodes {
		r := <-answers
		switch {
		case r.err != nil:
			others = append(others, r.node+" is silent: "+r.err.Error())
		case r.f.Number > act.Number:
			return a.refusal("Superseded", fmt.Sprintf("number %d of %s at %s", r.f.Number, r.f.HolderName, r.node),
				fmt.Sprintf("number %d to be the highest", act.Number), `DESIGN "Who may drive"`)
		case r.f.Number == act.Number && r.f.Holder == act.Driver:
			same = append(same, r.node)
		default:
			others = append(others, fmt.Sprintf("%s has number %d of %s", r.node, r.f.Number, r.f.HolderName))
		}
		if majority(same, voters) && majority(same, desired) {
			return nil
		}
	}
	sort.Strings(others)
	return a.refusal("NoMajority", strings.Join(others, "; "),
		fmt.Sprintf("number %d of this driver at a majority of the voters' nodes %v and of the desired nodes %v", act.Number, voters, desired), `DESIGN "Who may drive"`)
}

// majority of no nodes is never had.
func majority(have, of []string) bool {
	n := 0
	for _, o := range of {
		if slices.Contains(have, o) {
			n++
		}
	}
	return 2*n > len(of)
}

// nodeOf finds the spec's node a member's peer URL points at; members are IDs,
// the URL only finds the place.
func nodeOf(m wire.Member, nodes []wire.NodeRef) (wire.NodeRef, bool) {
	for _, raw := range m.PeerURLs {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		for _, n := range nodes {
			if hasAddress(n, u.Hostname()) {
				return n, true
			}
		}
	}
	return wire.NodeRef{}, false
}

func hasAddress(n wire.NodeRef, host string) bool {
	return slices.ContainsFunc(append([]string{n.Address}, n.MoreAddresses...), func(a string) bool { return sameHost(a, host) })
}

// sameHost compares two hosts, IPs by value.
func sameHost(a, b string) bool {
	x, y := net.ParseIP(a), net.ParseIP(b)
	if x == nil || y == nil {
		return strings.EqualFold(a, b)
	}
	return x.Equal(y)
}

// normalURL is a peer URL for comparison.
func normalURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	return strings.ToLower(u.Scheme + "://" + net.JoinHostPort(host, u.Port()))
}

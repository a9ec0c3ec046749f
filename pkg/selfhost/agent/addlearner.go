package agent

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// addLearner registers a node's member, or its seed to be, as learner. An unstarted learner with
// exactly these URLs is adopted (CASES M4); any other use of a URL, a second
// member of the node, an address that is not the node's, and a node whose agent
// does not answer there in its name are refused before etcd is asked (M1, M13).
func (a *Agent) addLearner(_ context.Context, in wire.MemberRequest) (wire.MemberReply, error) {
	what := fmt.Sprintf("add %s at %s as learner", in.Node, strings.Join(in.PeerURLs, ","))
	in.MemberID = 0
	return a.membership(in, "RegisterLearner", what, func(ctx context.Context, v *leaderView) error {
		i := slices.IndexFunc(v.nodes, func(n wire.NodeRef) bool { return n.Name == in.Node })
		if i < 0 {
			return a.refusal("NotNamed", "node "+in.Node, "a node the spec names", `DESIGN "Who may drive"`)
		}
		if err := a.checkURLs(in, v.nodes[i]); err != nil {
			return err
		}
		if err := a.checkOwners(in, v.nodes[i], v.members); err != nil {
			return err
		}
		if in.Slot == wire.SlotSeed {
			if err := a.checkOneSeed(in, v); err != nil {
				return err
			}
		}
		added := func() bool { return byURLs(v.members, in.PeerURLs).ID != 0 }
		if added() {
			return nil
		}
		if _, err := a.askFence(ctx, v.nodes[i]); err != nil {
			return a.refusal("AgentSilent", err.Error(), "the agent of "+in.Node+" at its address, before its peer URL is registered", "CASES M1")
		}
		err := v.call(ctx, func(ctx context.Context, c pb.ClusterClient) error {
			_, err := c.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: in.PeerURLs, IsLearner: true})
			return err
		})
		return a.refused(v.settle(ctx, err, added), v)
	})
}

// checkURLs wants https URLs at the node's own address and the peer port.
func (a *Agent) checkURLs(in wire.MemberRequest, n wire.NodeRef) error {
	if len(in.PeerURLs) == 0 {
		return badRequest{errors.New("a learner has a peer URL")}
	}
	for _, raw := range in.PeerURLs {
		_, peer, _ := a.id.Ports.Of(in.Slot)
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" || !hasAddress(n, u.Hostname()) || u.Port() != strconv.Itoa(peer) {
			return a.refusal("WrongPeerURL", raw, "https://"+n.HostPort(peer)+", the address of "+n.Name, "CASES M1")
		}
	}
	return nil
}

// checkOneSeed refuses a second seed: a list has one at most, wherever it is.
func (a *Agent) checkOneSeed(in wire.MemberRequest, v *leaderView) error {
	seedPort := strconv.Itoa(a.id.Ports.SeedPeer)
	for _, m := range v.members {
		for _, raw := range m.PeerURLs {
			if u, err := url.Parse(raw); err == nil && u.Port() == seedPort && !(m.Learner && sameURLs(m.PeerURLs, in.PeerURLs)) {
				return a.refusal("DuplicateSeed", fmt.Sprintf("member %s %q at %s", m.ID, m.Name, strings.Join(m.PeerURLs, ",")), "no seed in the list yet", "I1")
			}
		}
	}
	return nil
}

// checkOwners refuses a URL, a name or a node that has a member already,
// unless it is the unstarted learner this very call would make.
func (a *Agent) checkOwners(in wire.MemberRequest, n wire.NodeRef, ms []wire.Member) error {
	seedPort, name := strconv.Itoa(a.id.Ports.SeedPeer), n.Name
	if in.Slot == wire.SlotSeed {
		epoch, _, _ := a.store.view()
		name = wire.SeedName(n.Name, epoch.Number)
	}
	for _, m := range ms {
		if m.Learner && m.Name == "" && sameURLs(m.PeerURLs, in.PeerURLs) {
			continue
		}
		owner := fmt.Sprintf("member %s %q at %s", m.ID, m.Name, strings.Join(m.PeerURLs, ","))
		for _, raw := range m.PeerURLs {
			for _, mine := range in.PeerURLs {
				if normalURL(raw) == normalURL(mine) {
					return a.refusal("DuplicatePeerURL", owner, mine+" to be nobody's", "CASES M13")
				}
			}
			u, err := url.Parse(raw)
			if err == nil && in.Slot != wire.SlotSeed && hasAddress(n, u.Hostname()) && u.Port() != seedPort {
				return a.refusal("DuplicateNode", owner, "no member of node "+n.Name+" yet", "CASES M13")
			}
		}
		if m.Name == name {
			return a.refusal("DuplicateName", owner, "no member named "+name+" yet", "CASES M13")
		}
	}
	return nil
}

func sameURLs(a, b []string) bool {
	norm := func(in []string) []string {
		var out []string
		for _, s := range in {
			out = append(out, normalURL(s))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return slices.Equal(norm(a), norm(b))
}

// byURLs finds the unstarted learner with exactly these URLs.
func byURLs(ms []wire.Member, urls []string) wire.Member {
	for _, m := range ms {
		if len(urls) > 0 && m.Learner && sameURLs(m.PeerURLs, urls) {
			return m
		}
	}
	return wire.Member{}
}

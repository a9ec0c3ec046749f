package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// leaderView is the local slot whose etcd leads, and the list it confirmed.
type leaderView struct {
	etcd    *etcdClient
	self    wire.ID
	members []wire.Member
	nodes   []wire.NodeRef // of the spec
	desired []string
}

// membership runs a membership call in the order DESIGN ("Who may drive")
// gives: leader here, number still the highest at the joint majorities, the
// list still the one the decision was based on, the call under its own
// deadline, the list again. etcd offers no compare, so one foreign step may
// still land in between; every step is safe then.
func (a *Agent) membership(in wire.MemberRequest, step, what string, call func(ctx context.Context, v *leaderView) error) (wire.MemberReply, error) {
	out := wire.MemberReply{Reply: ok(), MemberID: in.MemberID}
	err := a.act(in.Act, step, what, func(ctx context.Context) error {
		a.memberMu.Lock()
		defer a.memberMu.Unlock()
		v, err := a.leads(ctx)
		if err != nil {
			return err
		}
		if err := a.fenced(ctx, in, v); err != nil {
			return err
		}
		if v.members, err = v.etcd.confirmed(ctx); err != nil {
			return err
		}
		if have := wire.ListHash(v.members); have != in.Seen {
			return a.refusal("ListChanged", "list "+have+": "+listString(v.members), "the list the decision was based on, "+in.Seen, `DESIGN "Who may drive"`)
		}
		if err := call(ctx, v); err != nil {
			return err
		}
		out.MemberID, out.Leader = in.MemberID, v.self
		if out.MemberID == 0 {
			out.MemberID = byURLs(v.members, in.PeerURLs).ID
		}
		out.Members = v.members
		return nil
	})
	return out, err
}

func listString(ms []wire.Member) string {
	var rows []string
	for _, m := range ms {
		role := "voter"
		if m.Learner {
			role = "learner"
		}
		rows = append(rows, fmt.Sprintf("%s %s %s", m.ID, role, strings.Join(m.PeerURLs, ",")))
	}
	return strings.Join(rows, "; ")
}

// leads finds the local slot whose member is the raft leader.
func (a *Agent) leads(ctx context.Context) (*leaderView, error) {
	_, spec, _ := a.store.view()
	if spec == nil {
		return nil, a.refusal("NoSpec", "no desired spec on this node", "one, before any member is added or removed", `DESIGN "Desired spec"`)
	}
	found := "no etcd serves here"
	for _, slot := range bothSlots {
		c := a.local[slot]
		st, err := c.status(ctx)
		if err != nil {
			continue // not this slot; found says so
		}
		self, leader := wire.ID(st.GetHeader().GetMemberId()), wire.ID(st.GetLeader())
		if self != leader {
			found = "leader " + leader.String()
			continue
		}
		v := &leaderView{etcd: c, self: self, nodes: spec.Nodes}
		for _, n := range spec.Nodes {
			v.desired = append(v.desired, n.Name)
		}
		if v.members, err = c.confirmed(ctx); err != nil {
			return nil, err
		}
		return v, nil
	}
	return nil, a.refusal("NotLeader", found, "the raft leader on this node", `DESIGN "Who may drive"`)
}

// confirmed reads the list linearizably.
func (c *etcdClient) confirmed(ctx context.Context) ([]wire.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	ms, err := c.list(ctx, true)
	if err != nil {
		return nil, fmt.Errorf("read the member list from the leader: %w", err)
	}
	return ms, nil
}

func (a *Agent) fenced(ctx context.Context, in wire.MemberRequest, v *leaderView) error {
	nodes := map[string]wire.NodeRef{}
	for _, n := range v.nodes {
		nodes[n.Name] = n
	}
	var voters []string
	for _, m := range v.members {
		if m.Learner {
			continue
		}
		n, ok := nodeOf(m, v.nodes)
		if !ok {
			return a.refusal("ForeignMember", fmt.Sprintf("voter %s %q at %s", m.ID, m.Name, strings.Join(m.PeerURLs, ",")), "voters on nodes of the spec only", "LESSONS: what is not understood is refused, never removed")
		}
		if !slices.Contains(voters, n.Name) {
			voters = append(voters, n.Name)
		}
	}
	return a.superseded(ctx, in.Act, voters, v.desired, nodes)
}

// settle ends a membership call: the list is read again, and done says whether
// it shows what was asked for. Then an error was none (I8).
func (v *leaderView) settle(ctx context.Context, callErr error, done func() bool) error {
	ms, err := v.etcd.confirmed(ctx)
	if err != nil {
		return errors.Join(rpctypes.Error(callErr), err)
	}
	v.members = ms
	if done() {
		return nil
	}
	if callErr == nil {
		return errors.New("etcd answered without an error, and its list does not show the change")
	}
	return callErr
}

// refused names etcd's own noes; other errors leave the outcome open.
func (a *Agent) refused(err error, v *leaderView) error {
	is := func(target error) bool { return errors.Is(rpctypes.Error(err), target) }
	switch {
	case err == nil:
		return nil
	case is(rpctypes.ErrMemberLearnerNotReady):
		return a.refusal("NotInSync", rpctypes.ErrorDesc(err), "a learner in sync with the leader", "I7")
	case is(rpctypes.ErrUnhealthy):
		return a.refusal("UnhealthyCluster", rpctypes.ErrorDesc(err), "every started voter connected for 5 s", "I2")
	case is(rpctypes.ErrMemberNotEnoughStarted):
		return a.refusal("NotEnoughStarted", rpctypes.ErrorDesc(err), "a quorum of started voters after the change", "I2")
	case is(rpctypes.ErrTooManyLearners):
		found := rpctypes.ErrorDesc(err)
		for _, m := range v.members {
			if m.Learner && m.Name == "" {
				found += fmt.Sprintf("; learner %s %s never started", m.ID, strings.Join(m.PeerURLs, ","))
			}
		}
		return a.refusal("TooManyLearners", found, "room for one learner more", "CASES M2")
	case is(rpctypes.ErrMemberNotFound):
		return a.refusal("NoSuchMember", rpctypes.ErrorDesc(err), "a member of the list", "")
	case is(rpctypes.ErrMemberNotLearner):
		return a.refusal("NotLearner", rpctypes.ErrorDesc(err), "a learner", "I7")
	}
	return err
}

func find(ms []wire.Member, id wire.ID) (wire.Member, bool) {
	for _, m := range ms {
		if m.ID == id {
			return m, true
		}
	}
	return wire.Member{}, false
}

// promote makes a learner a voter; one that is a voter already is done.
func (a *Agent) promote(_ context.Context, in wire.MemberRequest) (wire.MemberReply, error) {
	return a.membership(in, "PromoteLearner", "promote member "+in.MemberID.String(), func(ctx context.Context, v *leaderView) error {
		isVoter := func() bool { m, ok := find(v.members, in.MemberID); return ok && !m.Learner }
		if isVoter() {
			return nil
		}
		err := v.call(ctx, func(ctx context.Context, c pb.ClusterClient) error {
			_, err := c.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: uint64(in.MemberID)})
			return err
		})
		return a.refused(v.settle(ctx, err, isVoter), v)
	})
}

// remove removes a member by ID; one that is gone is done.
func (a *Agent) remove(_ context.Context, in wire.MemberRequest) (wire.MemberReply, error) {
	return a.membership(in, "RemoveMember", "remove member "+in.MemberID.String(), func(ctx context.Context, v *leaderView) error {
		gone := func() bool { _, ok := find(v.members, in.MemberID); return !ok }
		if in.MemberID == 0 {
			return badRequest{errors.New("a removal names the member")}
		}
		if gone() {
			return nil
		}
		err := v.call(ctx, func(ctx context.Context, c pb.ClusterClient) error {
			_, err := c.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: uint64(in.MemberID)})
			return err
		})
		return a.refused(v.settle(ctx, err, gone), v)
	})
}

// call makes one membership call with its own deadline.
func (v *leaderView) call(ctx context.Context, f func(context.Context, pb.ClusterClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	conn, err := v.etcd.dial(ctx)
	if err != nil {
		return err
	}
	return f(ctx, pb.NewClusterClient(conn))
}

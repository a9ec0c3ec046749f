package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Timing of a move (LESSONS "Pivot": 0 failed writes in 12 of 12 pivots).
const (
	holdMillis    = 200                    // a proxy lets go by itself after that
	holdDeadline  = 100 * time.Millisecond // a proxy slower than this is not waited for
	drainProposed = 20 * time.Millisecond  // proposals under way are committed in that time
	moveDeadline  = 2 * time.Second
	movePoll      = time.Millisecond
)

// moveLeader moves leadership to a voter while the proxies hold client bytes:
// hold everywhere, 20 ms for what was proposed, move, let go the moment the new
// leader shows. Already moved is done.
func (a *Agent) moveLeader(_ context.Context, in wire.MemberRequest) (wire.MemberReply, error) {
	out := wire.MemberReply{Reply: ok(), MemberID: in.MemberID}
	if a.ledBy(in.MemberID) {
		return out, a.act(in.Act, "MoveLeader", "leadership is with member "+in.MemberID.String()+" already", func(context.Context) error {
			out.Leader = in.MemberID
			return nil
		})
	}
	var leader wire.ID
	out, err := a.membership(in, "MoveLeader", "move leadership to member "+in.MemberID.String(), func(ctx context.Context, v *leaderView) error {
		m, ok := find(v.members, in.MemberID)
		if !ok || m.Learner {
			return a.refusal("NotVoter", "member "+in.MemberID.String(), "a voter of "+listString(v.members), "I7")
		}
		if in.MemberID != v.self {
			if err := a.move(ctx, in, v); err != nil {
				return err
			}
		}
		leader = in.MemberID
		return nil
	})
	out.Leader = leader
	return out, err
}

// ledBy says whether a local member that serves names id as leader.
func (a *Agent) ledBy(id wire.ID) bool {
	for _, slot := range bothSlots {
		ctx, cancel := context.WithTimeout(context.Background(), statusDeadline)
		st, err := a.local[slot].status(ctx)
		cancel()
		if err == nil && id != 0 && wire.ID(st.GetLeader()) == id && wire.ID(st.GetHeader().GetMemberId()) != id {
			return true
		}
	}
	return false
}

func (a *Agent) move(ctx context.Context, in wire.MemberRequest, v *leaderView) error {
	ctx, cancel := context.WithTimeout(ctx, moveDeadline)
	defer cancel()
	conn, err := v.etcd.dial(ctx)
	if err != nil {
		return err
	}
	c := pb.NewMaintenanceClient(conn)
	start := time.Now()
	a.holdAll(ctx, in.HoldNodes, true)
	held := time.Since(start)
	defer a.holdAll(context.WithoutCancel(ctx), in.HoldNodes, false)
	time.Sleep(drainProposed) // not for evidence: etcd tells nobody what is proposed
	// etcd looks for the new leader once per 100 ms before it answers this call;
	// Status shows it within a few.
	call := make(chan error, 1)
	go func() {
		_, err := c.MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: uint64(in.MemberID)})
		call <- rpctypes.Error(err)
	}()
	if err := awaitLeader(ctx, c, in.MemberID, call); err != nil {
		return err
	}
	a.log.Info("leadership moved", "to", in.MemberID, "held", held, "shown", time.Since(start))
	return nil
}

// awaitLeader polls Status until it names id. The call's own error counts only
// after a look that still shows another leader (I8).
func awaitLeader(ctx context.Context, c pb.MaintenanceClient, id wire.ID, call <-chan error) error {
	var callErr error
	for {
		st, err := c.Status(ctx, &pb.StatusRequest{})
		switch {
		case err == nil && wire.ID(st.GetLeader()) == id:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("leadership did not show at %s within %s: %w", id, moveDeadline, errors.Join(callErr, ctx.Err()))
		case callErr != nil && err == nil && st.GetLeader() != 0:
			return fmt.Errorf("move leadership to %s: %w", id, callErr)
		}
		select {
		case callErr = <-call:
		case <-time.After(movePoll):
		}
	}
}

// holdAll makes every proxy hold or let go, in parallel. One that does not is
// logged and not waited for: where it is down, no byte passes it either.
func (a *Agent) holdAll(ctx context.Context, nodes []wire.NodeRef, on bool) {
	ctx, cancel := context.WithTimeout(ctx, holdDeadline)
	defer cancel()
	req := wire.HoldRequest{V: wire.V, On: on, Millis: holdMillis}
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() {
			var err error
			if n.Name == a.id.Node.Name {
				err = a.proxy.Hold(ctx, req)
			} else {
				err = a.peers.Hold(ctx, n.Address, req)
			}
			if err != nil {
				a.log.Warn("proxy did not take a hold", "node", n.Name, "on", on, "error", err)
			}
		})
	}
	wg.Wait()
}

package agent

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// hash reads HashKV of the slot's own member. That etcd could not is an answer
// (compacted and future revision are differences, not retries), in its words.
func (a *Agent) hash(ctx context.Context, in wire.HashRequest) (wire.HashReply, error) {
	c := a.local[in.Slot]
	if c == nil {
		return wire.HashReply{}, badRequest{fmt.Errorf("slot %q", in.Slot)}
	}
	ctx, cancel := context.WithTimeout(ctx, hashDeadline)
	defer cancel()
	out := wire.HashReply{V: wire.V}
	conn, err := c.dial(ctx)
	if err != nil {
		out.Error = err.Error()
		return out, nil
	}
	r, err := pb.NewMaintenanceClient(conn).HashKV(ctx, &pb.HashKVRequest{Revision: in.Revision})
	if err != nil {
		out.Error = rpctypes.ErrorDesc(err)
		return out, nil
	}
	out.OK = true
	out.MemberID, out.ClusterID = wire.ID(r.GetHeader().GetMemberId()), wire.ID(r.GetHeader().GetClusterId())
	out.Hash, out.Revision, out.CompactRevision = r.GetHash(), r.GetHashRevision(), r.GetCompactRevision()
	if out.Revision == 0 {
		out.Revision = in.Revision // before 3.6 the answer does not say
	}
	return out, nil
}

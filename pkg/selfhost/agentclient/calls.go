package agentclient

import (
	"context"
	"strconv"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Every call takes the node's address (IP, or host:port) and returns a
// *wire.Refusal for a named no, a *StatusError for any other answer of the
// agent, and another error where no answer came: then nothing is known.

// Observe reads everything the agent knows.
func (c *Client) Observe(ctx context.Context, addr string) (*wire.Observation, error) {
	var out wire.Observation
	if err := c.call(ctx, addr, wire.PathObserve, ObserveDeadline, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Journal reads the last entries (last <= 0: the agent's default), oldest first.
func (c *Client) Journal(ctx context.Context, addr string, last int) (*wire.JournalReply, error) {
	var out wire.JournalReply
	path := wire.PathJournal
	if last > 0 {
		path += "?last=" + strconv.Itoa(last)
	}
	if err := c.call(ctx, addr, path, ActDeadline, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Fence reads number, holder and epoch.
func (c *Client) Fence(ctx context.Context, addr string) (wire.Fence, error) {
	var out wire.Fence
	err := c.call(ctx, addr, wire.PathFence, ReadDeadline, nil, &out)
	return out, err
}

// GrantTake takes or renews a grant. With a refusal the reply's Fence says who holds it.
func (c *Client) GrantTake(ctx context.Context, addr string, in wire.GrantRequest) (wire.GrantReply, error) {
	in.V = wire.V
	var out wire.GrantReply
	err := c.call(ctx, addr, wire.PathGrantTake, ReadDeadline, in, &out)
	return out, err
}

// GrantDrop frees the grant.
func (c *Client) GrantDrop(ctx context.Context, addr string, in wire.Act) error {
	in.V = wire.V
	return c.call(ctx, addr, wire.PathGrantDrop, ReadDeadline, in, &wire.Reply{})
}

// Spec stores a desired spec.
func (c *Client) Spec(ctx context.Context, addr string, in wire.SpecRequest) error {
	in.V = wire.V
	return c.call(ctx, addr, wire.PathSpec, ActDeadline, in, &wire.Reply{})
}

// Hash reads HashKV of the slot's member. HashReply.Error holds etcd's own words where it could not.
func (c *Client) Hash(ctx context.Context, addr string, in wire.HashRequest) (wire.HashReply, error) {
	in.V = wire.V
	var out wire.HashReply
	err := c.call(ctx, addr, wire.PathHash, SlowDeadline, in, &out)
	return out, err
}

// Targets sets the proxy's targets.
func (c *Client) Targets(ctx context.Context, addr string, in wire.TargetsRequest) error {
	in.V = wire.V
	return c.call(ctx, addr, wire.PathTargets, ActDeadline, in, &wire.Reply{})
}

// Hold makes the node's proxy hold client bytes, or lets them go.
func (c *Client) Hold(ctx context.Context, addr string, in wire.HoldRequest) error {
	in.V = wire.V
	return c.call(ctx, addr, wire.PathHold, ReadDeadline, in, &wire.Reply{})
}

// CloseDrain makes the node's proxy close connections of drained targets.
func (c *Client) CloseDrain(ctx context.Context, addr string, in wire.CloseDrainRequest) error {
	in.V = wire.V
	return c.call(ctx, addr, wire.PathCloseDrain, ActDeadline, in, &wire.Reply{})
}

// Tombstone records a removal.
func (c *Client) Tombstone(ctx context.Context, addr string, in wire.TombstoneRequest) error {
	in.V = wire.V
	return c.call(ctx, addr, wire.PathTombstone, ActDeadline, in, &wire.Reply{})
}

// Start starts the slot's etcd; it returns when the process was started, not when it serves.
func (c *Client) Start(ctx context.Context, addr string, in wire.StartRequest) error {
	in.V = wire.V
	return c.call(ctx, addr, wire.PathSlotStart, ActDeadline, in, &wire.Reply{})
}

// RestartLate restarts the slot's etcd with its own arguments (a late learner, once).
func (c *Client) RestartLate(ctx context.Context, addr string, in wire.SlotRequest) error {
	in.V = wire.V
	return c.call(ctx, addr, wire.PathSlotRestart, SlowDeadline, in, &wire.Reply{})
}

// Stop parks the slot and signals its etcd; it returns before that has ended.
func (c *Client) Stop(ctx context.Context, addr string, in wire.SlotRequest) error {
	in.V = wire.V
	return c.call(ctx, addr, wire.PathSlotStop, ActDeadline, in, &wire.Reply{})
}

// Retire moves a stopped slot's directory to the attic and says where it went.
func (c *Client) Retire(ctx context.Context, addr string, in wire.SlotRequest) (attic string, err error) {
	in.V = wire.V
	var out wire.RetireReply
	err = c.call(ctx, addr, wire.PathSlotRetire, SlowDeadline, in, &out)
	return out.Attic, err
}

// Attic lists the node's retired directories; keep is how many of the newest
// are to stay, for the reasons in AtticEntry.Keep.
func (c *Client) Attic(ctx context.Context, addr string, keep int) (*wire.AtticReply, error) {
	var out wire.AtticReply
	if err := c.call(ctx, addr, wire.PathAttic+"?keep="+strconv.Itoa(keep), ActDeadline, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// AtticPrune removes one retired directory for good (refusal KeptEntry where the
// live members are not seen to hold all of it).
func (c *Client) AtticPrune(ctx context.Context, addr string, in wire.AtticPruneRequest) (wire.PruneReply, error) {
	in.V = wire.V
	var out wire.PruneReply
	err := c.call(ctx, addr, wire.PathAtticPrune, PruneDeadline, in, &out)
	return out, err
}

// JournalFiles lists the journals that were set aside.
func (c *Client) JournalFiles(ctx context.Context, addr string) (*wire.JournalFilesReply, error) {
	var out wire.JournalFilesReply
	if err := c.call(ctx, addr, wire.PathJournalFiles, ActDeadline, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// JournalPrune removes all but the newest journals that were set aside.
func (c *Client) JournalPrune(ctx context.Context, addr string, in wire.JournalPruneRequest) (wire.PruneReply, error) {
	in.V = wire.V
	var out wire.PruneReply
	err := c.call(ctx, addr, wire.PathJournalPrune, SlowDeadline, in, &out)
	return out, err
}

// AddLearner, Promote, Remove and MoveLeader ask the agent of the raft leader
// (another refuses NotLeader) and return the list read after the call.

// AddLearner registers a learner; one already there unstarted is adopted.
func (c *Client) AddLearner(ctx context.Context, addr string, in wire.MemberRequest) (wire.MemberReply, error) {
	return c.member(ctx, addr, wire.PathAddLearner, in)
}

// Promote makes a learner a voter (refusal NotInSync while it is behind).
func (c *Client) Promote(ctx context.Context, addr string, in wire.MemberRequest) (wire.MemberReply, error) {
	return c.member(ctx, addr, wire.PathPromote, in)
}

// Remove removes a member; one already gone is done.
func (c *Client) Remove(ctx context.Context, addr string, in wire.MemberRequest) (wire.MemberReply, error) {
	return c.member(ctx, addr, wire.PathRemove, in)
}

// MoveLeader moves leadership to in.MemberID while the proxies of in.HoldNodes hold client bytes.
func (c *Client) MoveLeader(ctx context.Context, addr string, in wire.MemberRequest) (wire.MemberReply, error) {
	return c.member(ctx, addr, wire.PathMoveLeader, in)
}

func (c *Client) member(ctx context.Context, addr, path string, in wire.MemberRequest) (wire.MemberReply, error) {
	in.V = wire.V
	var out wire.MemberReply
	err := c.call(ctx, addr, path, MemberDeadline, in, &out)
	return out, err
}

// CertDriver has a driver certificate signed (PEM in, PEM out). Refusal NoCAKey:
// that node cannot, another may.
func (c *Client) CertDriver(ctx context.Context, addr string, csr []byte) (cert []byte, err error) {
	var out wire.CertReply
	err = c.call(ctx, addr, wire.PathCertDriver, ActDeadline, wire.CertRequest{V: wire.V, CSR: string(csr)}, &out)
	return []byte(out.Cert), err
}

package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Deadlines towards the etcd of a slot. Each look has its own, and all of them
// fit into the 2 s that a driver gives an agent.
const (
	dialDeadline   = 300 * time.Millisecond // the port is on this machine
	statusDeadline = time.Second
	listDeadline   = 400 * time.Millisecond // linearizable; then serializable
	plainDeadline  = time.Second            // /metrics
	peerDeadline   = readyWait              // /version: bound long before it is served, like the client port
	// readyWait is how long a look waits for TLS. An etcd binds its client port
	// long before it accepts there; the handshake stays pending, so that a later
	// look finds it done in the moment the etcd serves.
	readyWait    = 100 * time.Millisecond
	pendingLimit = 30 * time.Second
	callDeadline = 2 * time.Second // a membership call
	hashDeadline = 10 * time.Second
)

// etcdClient talks to the etcd of one slot, and to no other: one connection,
// made anew after the port was found shut, so that a restart is seen at once
// (gRPC's own backoff would hide it). Plain gRPC stubs: clientv3 retries, and
// dials anew for each Status.
type etcdClient struct {
	client  string // host:port
	peerURL string
	metrics string
	tls     *tls.Config
	http    *http.Client

	mu   sync.Mutex
	conn *grpc.ClientConn
}

func newEtcdClient(id wire.Identity, slot wire.Slot, conf *tls.Config) *etcdClient {
	client, _, _ := id.Ports.Of(slot)
	tr := &http.Transport{TLSClientConfig: conf.Clone(), IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 2, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: dialDeadline}).DialContext}
	return &etcdClient{
		client:  id.Node.HostPort(client),
		peerURL: member.PeerURL(id.Node, id.Ports, slot),
		metrics: member.MetricsURL(id.Node, id.Ports, slot),
		tls:     conf,
		http:    &http.Client{Transport: tr},
	}
}

var errShut = errors.New("client port is shut")

// dial is the connection to a port that just accepted one. It does not wait
// for TLS: that is in the deadline of the call.
func (c *etcdClient) dial(ctx context.Context) (*grpc.ClientConn, error) {
	probe, err := (&net.Dialer{Timeout: dialDeadline}).DialContext(ctx, "tcp", c.client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.drop()
		return nil, errors.Join(errShut, err)
	}
	probe.Close()
	if c.conn == nil {
		c.conn, err = grpc.NewClient("passthrough:///"+c.client,
			grpc.WithTransportCredentials(credentials.NewTLS(c.tls.Clone())), grpc.WithNoProxy(),
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: pendingLimit,
				Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 200 * time.Millisecond}}))
	}
	return c.conn, err
}

func (c *etcdClient) drop() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func (c *etcdClient) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
	c.http.CloseIdleConnections()
}

// status is the maintenance Status call; errShut where nobody listens.
func (c *etcdClient) status(ctx context.Context) (*pb.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, statusDeadline)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	if !ready(ctx, conn) {
		return nil, errShut
	}
	r, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		c.mu.Lock()
		if c.conn == conn {
			c.drop() // the next look begins afresh
		}
		c.mu.Unlock()
	}
	return r, rpctypes.Error(err)
}

// ready says whether conn is connected, waiting readyWait for a handshake.
func ready(ctx context.Context, conn *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		s := conn.GetState()
		if s == connectivity.Ready {
			return true
		}
		if s == connectivity.Idle {
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, s) {
			return false
		}
	}
}

// list reads the member list that this member serves.
func (c *etcdClient) list(ctx context.Context, linearizable bool) ([]wire.Member, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	r, err := pb.NewClusterClient(conn).MemberList(ctx, &pb.MemberListRequest{Linearizable: linearizable})
	if err != nil {
		return nil, rpctypes.Error(err)
	}
	return members(r.Members), nil
}

func members(in []*pb.Member) []wire.Member {
	out := make([]wire.Member, 0, len(in))
	for _, m := range in {
		out = append(out, wire.Member{ID: wire.ID(m.GetID()), Name: m.GetName(), PeerURLs: slices.Clone(m.GetPeerURLs()),
			ClientURLs: slices.Clone(m.GetClientURLs()), Learner: m.GetIsLearner()})
	}
	slices.SortFunc(out, func(a, b wire.Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}

// look is the whole status: from the client port, else from the metrics port;
// nil where neither answers. serving: the client port answered.
func (c *etcdClient) look(ctx context.Context) (st *wire.EtcdStatus, serving bool) {
	r, err := c.status(ctx)
	if err != nil {
		st, err := c.fromMetrics(ctx)
		if err != nil {
			return nil, false // silent is a value, not a failure of the look
		}
		return st, false
	}
	h := r.GetHeader()
	st = &wire.EtcdStatus{From: "status", MemberID: wire.ID(h.GetMemberId()), ClusterID: wire.ID(h.GetClusterId()), Leader: wire.ID(r.GetLeader()),
		Learner: r.GetIsLearner(), Term: r.GetRaftTerm(), Index: r.GetRaftIndex(), Applied: r.GetRaftAppliedIndex(), Revision: h.GetRevision(),
		Version: r.GetVersion(), DBSize: r.GetDbSize(), DBInUse: r.GetDbSizeInUse()}
	for _, e := range r.GetErrors() {
		if strings.Contains(e, "alarm") || strings.Contains(e, "NOSPACE") || strings.Contains(e, "CORRUPT") {
			st.Alarms = append(st.Alarms, strings.TrimSpace(e))
		}
	}
	if !st.Learner {
		c.lookList(ctx, st)
	}
	return st, true
}

// lookList reads the list linearizably from a leader. From anybody else, and
// from a leader that cannot confirm, it is what that member has.
func (c *etcdClient) lookList(ctx context.Context, st *wire.EtcdStatus) {
	if st.Leader == st.MemberID {
		lin, cancel := context.WithTimeout(ctx, listDeadline)
		ms, err := c.list(lin, true)
		cancel()
		if err == nil {
			st.Members, st.Linearizable = ms, true
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, listDeadline)
	defer cancel()
	if ms, err := c.list(ctx, false); err == nil {
		st.Members = ms
	}
}

// peerUp says whether /version answers on the peer port.
func (c *etcdClient) peerUp(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, peerDeadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.peerURL+"/version", nil)
	if err != nil {
		return false
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// metricsUp says whether the metrics port takes connections.
func (c *etcdClient) metricsUp(ctx context.Context) bool {
	conn, err := (&net.Dialer{Timeout: dialDeadline}).DialContext(ctx, "tcp", strings.TrimPrefix(c.metrics, "http://"))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

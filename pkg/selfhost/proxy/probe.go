package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// kind of a verdict.
type kind int

const (
	silent  kind = iota // no answer
	unfit               // answers, but is not to be used now
	foreign             // another cluster or member: never to be used
	good
)

// verdict is the outcome of one probe, with its reason in words.
type verdict struct {
	kind  kind
	words string
}

// stuckProbes is over how many spaced samples an unchanged applied index counts as stuck.
const stuckProbes = 3

// sample is the progress a member reported at a time.
type sample struct {
	at                 time.Time
	applied, committed uint64
}

// history keeps the last samples that are at least a probe's distance apart, so
// that probing faster does not make "stuck" come sooner.
type history struct{ samples []sample }

func (h *history) add(s sample, spacing time.Duration) {
	n := len(h.samples)
	if n > 0 && s.applied != h.samples[n-1].applied {
		h.samples = append(h.samples[:0], s)
		return
	}
	if n > 0 && s.at.Sub(h.samples[n-1].at) < spacing*9/10 {
		return
	}
	h.samples = append(h.samples, s)
	if len(h.samples) > stuckProbes {
		h.samples = h.samples[1:]
	}
}

// stuck: applied unchanged over three probes while committed grew.
func (h *history) stuck() bool {
	n := len(h.samples)
	return n == stuckProbes && h.samples[n-1].committed > h.samples[0].committed
}

// judge turns an answer into a verdict (DESIGN "Proxy targets"). Alarms
// (NOSPACE) do not disqualify: reads and deletes must go on.
func judge(want wire.ProxyTarget, cluster wire.ID, r *pb.StatusResponse, h *history) verdict {
	gotCluster, gotMember := wire.ID(r.GetHeader().GetClusterId()), wire.ID(r.GetHeader().GetMemberId())
	switch {
	case gotCluster != cluster:
		return verdict{foreign, fmt.Sprintf("foreign cluster: found %s, expected %s", gotCluster, cluster)}
	case want.MemberID != 0 && gotMember != want.MemberID:
		return verdict{foreign, fmt.Sprintf("foreign member: found %s, expected %s", gotMember, want.MemberID)}
	case r.GetIsLearner():
		return verdict{unfit, "learner: not a voting member yet"}
	case r.GetLeader() == 0:
		return verdict{unfit, "has no leader"}
	case h.stuck():
		return verdict{unfit, fmt.Sprintf("apply is stuck: at index %d over %d probes while %d is committed",
			r.GetRaftAppliedIndex(), stuckProbes, r.GetRaftIndex())}
	}
	return verdict{good, "admitted"}
}

// startProber probes t until the target leaves the table or ctx ends. It may be
// called with the table locked.
func (p *proxy) startProber(ctx context.Context, t *target) {
	ctx, t.cancel = context.WithCancel(ctx)
	pr := &prober{cfg: &p.cfg, address: t.Address, cluster: t.cluster}
	want := t.ProxyTarget // Mode and Local, which change, are not looked at
	p.wg.Go(func() {
		defer pr.drop()
		for ctx.Err() == nil {
			begun := time.Now()
			v := pr.probe(ctx, want)
			if ctx.Err() != nil {
				return
			}
			p.table.report(t, v)
			p.pause(ctx, t, begun)
		}
	})
}

// prober keeps one gRPC connection while its target answers. After a failure
// the next probe makes a new one, so that every verdict is fresh evidence and
// no backoff of gRPC delays the news that a target is back.
type prober struct {
	cfg     *Config
	address string
	cluster wire.ID
	cc      *grpc.ClientConn
	hist    history
}

func (pr *prober) drop() {
	if pr.cc != nil {
		pr.cc.Close()
		pr.cc = nil
	}
}

func (pr *prober) probe(ctx context.Context, want wire.ProxyTarget) verdict {
	if pr.cc == nil {
		cc, err := pr.dial()
		if err != nil {
			return verdict{silent, "cannot be probed: " + err.Error()}
		}
		pr.cc = cc
	}
	ctx, cancel := context.WithTimeout(ctx, pr.cfg.ProbeEvery)
	defer cancel()
	r, err := pb.NewMaintenanceClient(pr.cc).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		pr.drop()
		return verdict{silent, "does not answer: " + words(err)}
	}
	pr.hist.add(sample{pr.cfg.Now(), r.GetRaftAppliedIndex(), r.GetRaftIndex()}, pr.cfg.ProbeEvery)
	return judge(want, pr.cluster, r, &pr.hist)
}

func (pr *prober) dial() (*grpc.ClientConn, error) {
	conf := pr.cfg.TLS
	if conf == nil {
		var err error
		if conf, err = ClientTLS(pr.cfg.Identity.PKIDir); err != nil {
			return nil, err
		}
	}
	return dialEtcd(pr.address, conf)
}

// dialEtcd prepares a gRPC connection to one etcd, without proxies, resolvers,
// idling or shared state.
func dialEtcd(address string, conf *tls.Config) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(credentials.NewTLS(conf.Clone())),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0))
}

// words shortens gRPC's nested dial errors to their cause.
func words(err error) string {
	s := err.Error()
	if st, ok := status.FromError(err); ok {
		s = st.Message()
	}
	if i := strings.LastIndex(s, "desc = "); i >= 0 {
		s = s[i+len("desc = "):]
	}
	return strings.Trim(s, `"`)
}

// pause waits for t's next probe, whose time changes with the admissions. A
// kick ends the pause, but not sooner than FastEvery after the last probe began.
func (p *proxy) pause(ctx context.Context, t *target, begun time.Time) {
	for ctx.Err() == nil {
		every, changed := p.table.pace(t, &p.cfg)
		timer := time.NewTimer(every - time.Since(begun))
		select {
		case <-timer.C:
			return
		case <-t.kick:
			timer.Stop()
			wait(ctx, min(every, p.cfg.FastEvery)-time.Since(begun))
			return
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

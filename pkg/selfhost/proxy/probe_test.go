package proxy

import (
	"log/slog"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Stuck is: applied unchanged over three probes while committed grew, however
// fast it is probed.
func TestStuckApply(t *testing.T) {
	type s struct {
		ms                 int
		applied, committed uint64
	}
	for _, c := range []struct {
		name    string
		samples []s
		stuck   bool
	}{
		{"idle", []s{{0, 5, 5}, {1000, 5, 5}, {2000, 5, 5}, {3000, 5, 5}}, false},
		{"busy", []s{{0, 5, 6}, {1000, 6, 9}, {2000, 8, 12}, {3000, 9, 15}}, false},
		{"two probes", []s{{0, 5, 6}, {1000, 5, 7}}, false},
		{"three probes", []s{{0, 5, 6}, {1000, 5, 7}, {2000, 5, 8}}, true},
		{"behind, but nothing new", []s{{0, 5, 9}, {1000, 5, 9}, {2000, 5, 9}}, false},
		{"three fast probes", []s{{0, 5, 6}, {100, 5, 7}, {200, 5, 8}, {300, 5, 9}}, false},
		{"moved on", []s{{0, 5, 6}, {1000, 5, 7}, {2000, 5, 8}, {2100, 6, 9}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h history
			for _, x := range c.samples {
				h.add(sample{time.UnixMilli(int64(x.ms)), x.applied, x.committed}, time.Second)
			}
			v := judge(wire.ProxyTarget{}, 1, &pb.StatusResponse{Header: &pb.ResponseHeader{ClusterId: 1}, Leader: 2}, &h)
			if got := v.kind != good; got != c.stuck {
				t.Errorf("stuck is %t (%s), expected %t", got, v.words, c.stuck)
			}
		})
	}
}

// Order of choice: unconfirmed local ones last, then first once the agent
// confirmed this boot or 10 s passed; a missed probe puts any at the end.
func TestOrderOfChoice(t *testing.T) {
	now := time.Unix(100, 0)
	cfg := Config{Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}
	cfg.setDefaults()
	tb := newTable(cfg, func(t *target) { t.cancel = func() {} })
	ts := wire.Targets{V: 1, Serial: 1, ClusterID: 1, Targets: []wire.ProxyTarget{
		{Node: "local", Address: "a:1", Mode: wire.Serve, Local: true},
		{Node: "other", Address: "b:1", Mode: wire.Serve},
		{Node: "drain", Address: "c:1", Mode: wire.Drain},
	}}
	tb.set(ts)
	first := func() string {
		c, _ := tb.candidates()
		if len(c) == 0 {
			return ""
		}
		return c[0].Node
	}
	expect := func(when, want string) {
		t.Helper()
		if got := first(); got != want {
			t.Errorf("%s: %q is chosen, expected %q", when, got, want)
		}
	}
	expect("nothing probed", "")
	tb.report(tb.targets[2], verdict{good, "admitted"})
	expect("only a drained one admitted", "drain")
	tb.report(tb.targets[0], verdict{good, "admitted"})
	expect("the local one alone", "local")
	tb.report(tb.targets[1], verdict{good, "admitted"})
	expect("not confirmed", "other")
	now = now.Add(DefaultPreferAfter)
	expect("10 s after the start", "local")
	now = now.Add(-DefaultPreferAfter)
	ts.Serial, ts.ConfirmedBoot = 2, "another boot"
	tb.set(ts)
	expect("confirmed under another boot", "other")
	tb.bootID, ts.Serial, ts.ConfirmedBoot = "b", 3, "b"
	tb.set(ts)
	expect("confirmed", "local")
	tb.report(tb.targets[0], verdict{silent, "does not answer"})
	expect("the local one missed a probe", "other")
	tb.report(tb.targets[1], verdict{unfit, "has no leader"})
	tb.report(tb.targets[1], verdict{unfit, "has no leader"})
	expect("missed once is better than twice", "local")
}

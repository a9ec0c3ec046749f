//go:build sweep

package cases

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// Every etcd is away for 50 s under a real kube-apiserver whose only endpoint
// is its node's proxy. The proxy holds the apiserver's connections instead of
// refusing them, so that gRPC's backoff, which grew to many seconds where they
// were refused, has nothing to grow on: ready again within 5 s of etcd.
func TestAPIServerAfterFiftySecondsWithoutEtcd(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 6*time.Minute)
	w := load(ctx, t, l)
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatal(r)
	}
	w.Stop()
	k, err := l.NewKube(l.Nodes[0], rig.KubeAPIServer(t))
	rig.Must(t, err)
	rig.Must(t, k.Start())
	t.Cleanup(k.Kill)
	up, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	rig.Must(t, k.AwaitReady(up))
	time.Sleep(5 * time.Second) // its informers and leases settle

	for _, n := range l.Nodes { // agents first: they would start what ends
		rig.Must(t, n.Kill("agent"))
	}
	for _, n := range l.Nodes {
		rig.Must(t, n.Kill("member"))
	}
	time.Sleep(50 * time.Second)
	var endpoints []string
	for _, n := range l.Nodes {
		rig.Must(t, n.StartAgent())
		endpoints = append(endpoints, n.Ref.HostPort(2379))
	}
	back := awaitEtcd(ctx, t, l, endpoints)
	again, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	rig.Must(t, k.AwaitReady(again))
	took := time.Since(back)
	t.Logf("/readyz through the proxy %.1f s after etcd was back", took.Seconds())
	if took > 5*time.Second {
		t.Errorf("%s after etcd was back, want 5 s at most", took)
	}
	finish(ctx, t, l, w)
}

// awaitEtcd returns when a write at one of the members was first acknowledged;
// each try has a client of its own, since a kept one would back off.
func awaitEtcd(ctx context.Context, t *testing.T, l *rig.Lab, endpoints []string) time.Time {
	t.Helper()
	for {
		for _, e := range endpoints {
			if writesAt(ctx, l.Nodes[0], e) {
				return time.Now()
			}
		}
		if ctx.Err() != nil {
			t.Fatal("no member took a write")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func writesAt(ctx context.Context, n *lab.Node, endpoint string) bool {
	c, err := n.Client(endpoint)
	if err != nil {
		return false
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err = c.Put(ctx, "/back", "1")
	return err == nil
}

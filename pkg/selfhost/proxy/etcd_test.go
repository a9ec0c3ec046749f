package proxy

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// etcd starts a real member with TLS on .11+n; cluster is its initial cluster,
// empty for a new one of its own. stop may be called again.
func (r *rig) etcd(n int, dir, cluster string) (e *embed.Etcd, stop func()) {
	r.Helper()
	name, host := string(rune('a'+n)), r.fakeHost(n)
	u := func(port string) []url.URL { return []url.URL{{Scheme: "https", Host: host + port}} }
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.LogLevel = name, dir, "panic"
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = u(":2379"), u(":2379")
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = u(":2380"), u(":2380")
	cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = r.path("server.crt"), r.path("server.key")
	cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = r.path("ca.crt"), true
	cfg.PeerTLSInfo = cfg.ClientTLSInfo
	cfg.UnsafeNoFsync, cfg.MaxLearners = true, wire.MaxLearners
	cfg.TickMs, cfg.ElectionMs = 50, 500
	cfg.InitialCluster = name + "=https://" + host + ":2380"
	if cluster != "" {
		cfg.InitialCluster, cfg.ClusterState = cluster, embed.ClusterStateFlagExisting
	}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		r.Fatal(err)
	}
	stop = sync.OnceFunc(func() { e.Server.HardStop(); e.Close() }) // without handing leadership on
	r.Cleanup(stop)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(2 * patience):
		r.Fatal("etcd did not start")
	}
	return e, stop
}

func (r *rig) etcdTarget(n int, e *embed.Etcd, local bool) wire.ProxyTarget {
	return wire.ProxyTarget{Node: e.Config().Name, Slot: wire.SlotMember, MemberID: wire.ID(e.Server.MemberID()),
		Address: r.fakeHost(n) + ":2379", Mode: wire.Serve, Local: local}
}

func (r *rig) etcdClient(endpoint string) *clientv3.Client {
	r.Helper()
	conf, err := ClientTLS(r.id.PKIDir)
	if err != nil {
		r.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + endpoint}, TLS: conf, DialTimeout: 20 * time.Second})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	return c
}

// With real etcd: a client that connected while it was down is served the
// moment it is up; a learner is not admitted, and is once promoted; a real etcd
// of another cluster is foreign.
func TestRealEtcd(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := newRig(t)
	dir := filepath.Join(t.TempDir(), "a")
	a, stop := r.etcd(0, dir, "")
	cluster, target := wire.ID(a.Server.Cluster().ID()), r.etcdTarget(0, a, true)
	stop()

	put := func(ts ...wire.ProxyTarget) {
		r.serial++
		r.write(wire.Targets{V: wire.V, Serial: r.serial, Epoch: 1, ClusterID: cluster, Targets: ts, ConfirmedBoot: BootID()})
	}
	put(target)
	stopProxy := r.run(nil)
	cli := r.etcdClient(r.proxyAddr())
	served := make(chan error, 1)
	go func() {
		_, err := cli.Put(ctx, "k", "v")
		served <- err
	}()
	r.await("the connection is held", func() bool { return r.status().Held == 1 })
	a, _ = r.etcd(0, dir, "")
	begun := time.Now()
	if err := <-served; err != nil || time.Since(begun) > 2*time.Second {
		t.Fatalf("put: %v, %v after etcd was ready", err, time.Since(begun))
	}
	t.Logf("served %v after etcd was ready", time.Since(begun))

	direct := r.etcdClient(target.Address)
	peer := "https://" + r.fakeHost(1) + ":2380"
	added, err := direct.MemberAddAsLearner(ctx, []string{peer})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := r.etcd(1, filepath.Join(t.TempDir(), "b"), a.Config().InitialCluster+",b="+peer)
	learner := r.etcdTarget(1, b, false)
	put(target, learner)
	r.await("verdict learner", func() bool { return strings.HasPrefix(r.verdict(learner.Address).Verdict, "learner") })
	if r.verdict(learner.Address).Admitted {
		t.Error("a learner is admitted")
	}
	for { // refused until etcd itself finds it in sync
		if _, err = direct.MemberPromote(ctx, added.Member.ID); err == nil || ctx.Err() != nil {
			break
		}
		wait(ctx, 20*time.Millisecond)
	}
	if err != nil {
		t.Fatal("promote: ", err)
	}
	r.await("promoted and admitted", func() bool { return r.verdict(learner.Address).Admitted })

	r.serial++
	r.write(wire.Targets{V: wire.V, Serial: r.serial, Epoch: 2, ClusterID: cluster + 1, Targets: []wire.ProxyTarget{target}})
	r.await("foreign", func() bool { return strings.HasPrefix(r.verdict(target.Address).Verdict, "foreign cluster") })
	if v := r.verdict(target.Address); v.Admitted || v.Connections != 0 {
		t.Errorf("a foreign cluster: %+v", v)
	}
	// Clients first: etcd waits for open ones when it stops.
	cli.Close()
	direct.Close()
	stopProxy()
}

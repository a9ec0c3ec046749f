package proxy

import (
	"context"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// BenchmarkProxyVsDirect puts through the proxy and directly to a TLS server
// that does nothing else, alternately, and reports the ratio of the times: the
// most the proxy can cost a client (a real put also waits for a disk).
func BenchmarkProxyVsDirect(b *testing.B) {
	for _, size := range []int{100, 100 << 10} {
		b.Run(map[int]string{100: "100B", 100 << 10: "100KiB"}[size], func(b *testing.B) {
			r := newRig(b)
			f := r.fake(0, nil)
			r.targets(f.target(wire.Serve, true))
			r.run(nil)
			conf, err := ClientTLS(r.id.PKIDir)
			if err != nil {
				b.Fatal(err)
			}
			put := &pb.PutRequest{Key: []byte("k"), Value: make([]byte, size)}
			var took [2]time.Duration
			var clients [2]pb.KVClient
			for i, addr := range []string{f.addr, r.proxyAddr()} {
				cc, err := dialEtcd(addr, conf)
				if err != nil {
					b.Fatal(err)
				}
				defer cc.Close()
				clients[i] = pb.NewKVClient(cc)
				if _, err := clients[i].Put(context.Background(), put, grpc.WaitForReady(true)); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				for i, c := range clients {
					begun := time.Now()
					if _, err := c.Put(context.Background(), put); err != nil {
						b.Fatal(err)
					}
					took[i] += time.Since(begun)
				}
			}
			b.ReportMetric(float64(took[0].Microseconds())/float64(b.N), "direct-µs/put")
			b.ReportMetric(float64(took[1].Microseconds())/float64(b.N), "proxy-µs/put")
			b.ReportMetric(float64(took[1])/float64(took[0]), "proxy/direct")
		})
	}
}

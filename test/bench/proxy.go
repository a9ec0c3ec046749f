package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

const (
	loadFor = 4 * time.Second
	rounds  = 3
)

// benchProxy: puts and ranges through the proxy and directly, in turn, on one
// etcd; memory per connection; and how soon a client whose member was killed is
// served by another.
func benchProxy(b *bench) error {
	l, done, err := b.pivoted(1)
	if err != nil {
		return err
	}
	err = benchThroughput(b, l)
	if err == nil {
		err = benchMemory(b, l)
	}
	done()
	if err != nil {
		return err
	}
	for range rounds {
		if err := benchFailover(b); err != nil {
			return err
		}
	}
	return nil
}

// pivoted is a lab of n nodes after the pivot.
func (b *bench) pivoted(n int) (*lab.Lab, func(), error) {
	dir, err := os.MkdirTemp("", "bench-proxy-")
	if err != nil {
		return nil, nil, err
	}
	l, err := lab.New(lab.Options{Dir: dir, Binary: b.bin, Nodes: n})
	if err != nil {
		return nil, nil, err
	}
	done := func() {
		if err := l.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "clean up:", err)
		}
		os.RemoveAll(dir)
	}
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Minute)
	defer cancel()
	if err := upAndPivot(ctx, l); err != nil {
		done()
		return nil, nil, err
	}
	return l, done, nil
}

func upAndPivot(ctx context.Context, l *lab.Lab) error {
	if err := l.Init(ctx); err != nil {
		return err
	}
	for _, n := range l.Nodes[1:] {
		if err := l.Join(n); err != nil {
			return err
		}
	}
	if err := l.AwaitSeed(ctx); err != nil {
		return err
	}
	if err := l.AwaitAgents(ctx, l.Nodes...); err != nil {
		return err
	}
	d, release, err := l.Nodes[0].Driver("bench", driver.Config{Nodes: l.Refs()})
	if err != nil {
		return err
	}
	defer release()
	_, err = d.Run(ctx, wire.Spec{Target: wire.TargetMembers, Nodes: l.Refs()}, nil)
	return err
}

func benchThroughput(b *bench, l *lab.Lab) error {
	n := l.Nodes[0]
	direct, proxied := n.Ref.HostPort(2379), n.Ref.Proxy()+":2379"
	for _, conns := range []int{1, 32, 256} {
		for _, op := range []string{"put", "range"} {
			for range rounds {
				for _, way := range []struct{ who, addr string }{{"direct", direct}, {"through the proxy", proxied}} {
					f, err := load(b.ctx, n, way.addr, op, conns)
					if err != nil {
						return err
					}
					if err := b.add(row{Case: fmt.Sprintf("%s, %d connections", op, conns), Who: way.who, Figures: f}); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func clients(n *lab.Node, addr string, conns int) ([]*clientv3.Client, func(), error) {
	var cs []*clientv3.Client
	closeAll := func() {
		for _, c := range cs {
			c.Close()
		}
	}
	for range conns {
		c, err := n.Client(addr)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		cs = append(cs, c)
	}
	return cs, closeAll, nil
}

// load runs one operation at a time on each of conns connections.
func load(ctx context.Context, n *lab.Node, addr, op string, conns int) (map[string]float64, error) {
	cs, closeAll, err := clients(n, addr, conns)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	do := func(c *clientv3.Client, g, i int) error {
		key := "/bench/" + strconv.Itoa(g) + "/" + strconv.Itoa(i%100)
		if op == "put" {
			_, err := c.Put(ctx, key, strings.Repeat("v", 256))
			return err
		}
		_, err := c.Get(ctx, key)
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	for g, c := range cs {
		if err := do(c, g, 0); err != nil { // connected before the clock starts
			return nil, err
		}
	}
	start := time.Now()
	for g, c := range cs {
		wg.Go(func() {
			var mine []time.Duration
			for i := 1; time.Since(start) < loadFor; i++ {
				t := time.Now()
				if err := do(c, g, i); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	took := time.Since(start).Seconds()
	if failed != nil {
		return nil, failed
	}
	slices.Sort(all)
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
	return map[string]float64{"per_second": float64(len(all)) / took, "p50_ms": at(0.5), "p99_ms": at(0.99)}, nil
}

// benchMemory: resident memory of the proxy with idle connections against none.
func benchMemory(b *bench, l *lab.Lab) error {
	n := l.Nodes[0]
	pid, err := datadir.HolderPID(n.Identity().State(wire.FileProxyLock))
	if err != nil || pid == 0 {
		return fmt.Errorf("the proxy's process: %d, %w", pid, err)
	}
	const conns = 1000
	before, err := rss(pid)
	if err != nil {
		return err
	}
	cs, closeAll, err := clients(n, n.Ref.Proxy()+":2379", conns)
	if err != nil {
		return err
	}
	defer closeAll()
	for _, c := range cs {
		if _, err := c.Get(b.ctx, "/bench"); err != nil {
			return err
		}
	}
	after, err := rss(pid)
	if err != nil {
		return err
	}
	return b.add(row{Case: fmt.Sprintf("memory, %d connections", conns), Who: "proxy", Figures: map[string]float64{
		"rss_before_kb": before, "rss_with_kb": after, "kb_per_connection": (after - before) / conns}})
}

func rss(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
		}
	}
	return 0, fmt.Errorf("no VmRSS of %d", pid)
}

// benchFailover: from the SIGKILL of the member a client is spliced to (a
// follower), to the next request that succeeds on the same client.
func benchFailover(b *bench) error {
	l, done, err := b.pivoted(3)
	if err != nil {
		return err
	}
	defer done()
	n := l.Nodes[1] // a follower: an election would be etcd's figure, not the proxy's
	c, err := n.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Put(b.ctx, "/bench/failover", "0"); err != nil {
		return err
	}
	if err := n.Kill("agent"); err != nil { // so that nothing starts it again
		return err
	}
	if err := n.Kill("member"); err != nil {
		return err
	}
	start, failed := time.Now(), 0
	for {
		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
		_, err := c.Get(ctx, "/bench/failover", clientv3.WithSerializable())
		cancel()
		if err == nil {
			break
		}
		if failed++; time.Since(start) > 30*time.Second {
			return fmt.Errorf("no request succeeded for 30 s: %w", err)
		}
	}
	read := time.Since(start)
	for {
		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
		_, err := c.Put(ctx, "/bench/failover", "1")
		cancel()
		if err == nil {
			break
		}
		if failed++; time.Since(start) > 30*time.Second {
			return fmt.Errorf("no write succeeded for 30 s: %w", err)
		}
	}
	return b.add(row{Case: "the local member (a follower) killed", Who: "through the proxy", Figures: map[string]float64{
		"next_read_ms": float64(read.Microseconds()) / 1000, "next_write_ms": float64(time.Since(start).Microseconds()) / 1000, "requests_failed": float64(failed)}})
}

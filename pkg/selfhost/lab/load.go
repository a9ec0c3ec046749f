package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Fill writes mb MiB of 8 KiB values under prefix, from 32 writers.
func Fill(ctx context.Context, c *clientv3.Client, prefix string, mb int) error {
	const size, writers = 8 << 10, 32
	n, v := mb<<20/size, strings.Repeat("x", size)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for g := range writers {
		wg.Go(func() {
			for i := g; i < n; i += writers {
				if _, err := c.Put(ctx, fmt.Sprintf("%s/%07d", prefix, i), v); err != nil {
					cancel(fmt.Errorf("fill %s: %w", prefix, err))
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// Writers write to etcd without pause and remember what was acknowledged.
type Writers struct {
	clients []*clientv3.Client
	prefix  string
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	ok     int
	failed int
	errs   map[string]int
	acked  map[string]int // key -> highest acknowledged value
	last   time.Time
	gap    time.Duration
	gapAt  time.Time
}

// slots bounds the keys of one writer; values grow.
const slots = 100

// StartWriters starts n writers, each with a client of its own to node's proxy.
func StartWriters(ctx context.Context, node *Node, n int, prefix string) (*Writers, error) {
	return StartWritersAt(ctx, node, n, prefix, nil)
}

// StartWritersAt is StartWriters with endpoints (host:port) instead of the proxy.
func StartWritersAt(ctx context.Context, node *Node, n int, prefix string, endpoints []string) (*Writers, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &Writers{prefix: prefix, stop: cancel, errs: map[string]int{}, acked: map[string]int{}, last: time.Now()}
	for range n {
		c, err := node.Client(append([]string(nil), endpoints...)...)
		if err != nil {
			w.Stop()
			return nil, err
		}
		w.clients = append(w.clients, c)
	}
	for g, c := range w.clients {
		w.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w.once(ctx, c, fmt.Sprintf("%s/%d/%d", prefix, g, i%slots), i)
			}
		})
	}
	return w, nil
}

func (w *Writers) once(ctx context.Context, c *clientv3.Client, key string, i int) {
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	_, err := c.Put(once, key, strconv.Itoa(i))
	cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.failed++
		w.errs[err.Error()]++
		return
	}
	now := time.Now()
	if g := now.Sub(w.last); g > w.gap {
		w.gap, w.gapAt = g, now
	}
	w.last = now
	w.ok++
	w.acked[key] = i
}

// Stop ends the writers after the write each has under way.
func (w *Writers) Stop() {
	w.stop()
	w.wg.Wait()
	for _, c := range w.clients {
		c.Close()
	}
}

// Counts so far: acknowledged, failed, and the errors' texts with their counts.
func (w *Writers) Counts() (ok, failed int, errs map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	for k, v := range w.errs {
		out[k] = v
	}
	return w.ok, w.failed, out
}

// Gap returns the longest time between two acknowledged writes, of all writers
// together, since the last call.
func (w *Writers) Gap() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := max(w.gap, time.Since(w.last)) // one that still lasts counts
	w.gap, w.last = 0, time.Now()
	return g
}

// Lost compares what was acknowledged with what c reads: keys that are absent
// or hold an older value than the last acknowledged.
func (w *Writers) Lost(ctx context.Context, c *clientv3.Client) (lost []string, err error) {
	w.mu.Lock()
	acked := maps.Clone(w.acked) // before the read: what is acknowledged after it may be newer
	w.mu.Unlock()
	r, err := c.Get(ctx, w.prefix+"/", clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read back %s: %w", w.prefix, err)
	}
	have := map[string]int{}
	for _, kv := range r.Kvs {
		n, err := strconv.Atoi(string(kv.Value))
		if err != nil {
			return nil, fmt.Errorf("%s holds %q, which no writer wrote", kv.Key, kv.Value)
		}
		have[string(kv.Key)] = n
	}
	for k, v := range acked {
		if n, ok := have[k]; !ok || n < v {
			lost = append(lost, fmt.Sprintf("%s: acknowledged %d, found %d", k, v, n))
		}
	}
	return lost, nil
}

// Inventory is every key of etcd with its version and a value's revision.
type Inventory map[string]int64

// Take reads the inventory of all keys under prefix at one revision.
func Take(ctx context.Context, c *clientv3.Client, prefix string) (Inventory, error) {
	inv := Inventory{}
	key, end, rev := prefix, clientv3.GetPrefixRangeEnd(prefix), int64(0)
	for {
		r, err := c.Get(ctx, key, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(10000), clientv3.WithRev(rev))
		if err != nil {
			return nil, fmt.Errorf("inventory of %s: %w", prefix, err)
		}
		rev = r.Header.Revision
		for _, kv := range r.Kvs {
			inv[string(kv.Key)] = kv.ModRevision
		}
		if !r.More {
			return inv, nil
		}
		key = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}

// Missing lists keys of inv that later lacks, or holds at an earlier revision.
func (inv Inventory) Missing(later Inventory) []string {
	var out []string
	for k, rev := range inv {
		if got, ok := later[k]; !ok || got < rev {
			out = append(out, k)
		}
	}
	return out
}

// HashKV asks each endpoint (host:port) for its HashKV at one revision and says
// whether all are equal; members compacted differently are asked again.
func (n *Node) HashKV(ctx context.Context, endpoints []string) (equal bool, words string, err error) {
	c, err := n.Client(append([]string(nil), endpoints...)...)
	if err != nil {
		return false, "", err
	}
	defer c.Close()
	for try := 0; ; try++ {
		rev := int64(0)
		for _, e := range endpoints {
			st, err := c.Status(ctx, "https://"+e)
			if err != nil {
				return false, "", fmt.Errorf("status of %s: %w", e, err)
			}
			if rev == 0 || st.Header.Revision < rev {
				rev = st.Header.Revision
			}
		}
		equal, comparable, words, err := hashAt(ctx, c, endpoints, rev)
		if comparable || try >= 5 {
			if err == nil && !comparable {
				err = errors.New("members stay compacted at different revisions: " + words)
			}
			return equal && comparable, words, err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func hashAt(ctx context.Context, c *clientv3.Client, endpoints []string, rev int64) (equal, comparable bool, words string, err error) {
	equal, comparable = true, true
	var hash uint32
	var compact int64
	for i, e := range endpoints {
		r, err := c.HashKV(ctx, "https://"+e, rev)
		if err != nil {
			return false, false, words, fmt.Errorf("hash of %s at %d: %w", e, rev, err)
		}
		if i == 0 {
			hash, compact = r.Hash, r.CompactRevision
		}
		equal = equal && r.Hash == hash
		comparable = comparable && r.CompactRevision == compact
		words += fmt.Sprintf("%s %08x ", e, r.Hash)
	}
	return equal, comparable, fmt.Sprintf("%sat revision %d", words, rev), nil
}

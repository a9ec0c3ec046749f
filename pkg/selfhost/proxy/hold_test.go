package proxy

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// A hold stops what clients send on old and new connections, leaves the other
// direction alone, and ends by itself 200 ms after it began, renewed or not.
func TestHoldStopsClientBytesAndOpensByItself(t *testing.T) {
	r := newRig(t)
	got := make(chan byte, 64)
	servers := make(chan net.Conn, 4)
	f := r.fake(0, func(c net.Conn) {
		servers <- c
		var b [1]byte
		for {
			if _, err := c.Read(b[:]); err != nil {
				return
			}
			got <- b[0]
		}
	})
	r.targets(f.target(wire.Serve, true))
	r.run(nil)
	c := r.dial()
	c.Write([]byte("oa"))
	server := <-servers
	if b := <-got; b != 'a' {
		t.Fatalf("got %q before the hold", b)
	}

	ctx := context.Background()
	begun := time.Now()
	if err := r.client.Hold(ctx, wire.HoldRequest{On: true, Millis: 10_000}); err != nil {
		t.Fatal(err)
	}
	if !r.status().Holding {
		t.Error("status does not say that it holds")
	}
	c.Write([]byte("b"))
	late := r.dial() // accepted during the hold
	late.Write([]byte("oc"))
	server.Write([]byte("down"))
	down := make([]byte, 4)
	if _, err := io.ReadFull(c, down); err != nil || string(down) != "down" {
		t.Fatalf("server to client: %q, %v", down, err)
	}
	if d := time.Since(begun); d > 150*time.Millisecond {
		t.Skipf("machine too slow to tell: %v passed", d)
	}
	select {
	case b := <-got:
		t.Fatalf("%q was forwarded %v into the hold", b, time.Since(begun))
	case <-time.After(120*time.Millisecond - time.Since(begun)):
	}
	if err := r.client.Hold(ctx, wire.HoldRequest{On: true, Millis: 200}); err != nil {
		t.Fatal(err) // renewed: must not make it longer
	}
	seen := map[byte]bool{<-got: true, <-got: true}
	if d := time.Since(begun); !seen['b'] || !seen['c'] || d < 190*time.Millisecond || d > 300*time.Millisecond {
		t.Errorf("after %v came %v, expected b and c after 200 ms", d, seen)
	}
	if r.status().Holding {
		t.Error("still holding")
	}

	// Opened by hand, it opens at once.
	r.client.Hold(ctx, wire.HoldRequest{On: true, Millis: 200})
	begun = time.Now()
	c.Write([]byte("d"))
	if err := r.client.Hold(ctx, wire.HoldRequest{}); err != nil {
		t.Fatal(err)
	}
	if b := <-got; b != 'd' || time.Since(begun) > 150*time.Millisecond {
		t.Errorf("got %q after %v", b, time.Since(begun))
	}
}

// Every byte arrives once and in order through many holds, in both directions,
// with a fast and a slow reader behind the proxy.
func TestEveryByteSurvivesHolds(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := newRig(t)
	var slow atomic.Bool
	f := r.fake(0, func(c net.Conn) {
		defer c.(*net.TCPConn).CloseWrite()
		buf := make([]byte, 8<<10)
		lag := slow.Swap(true)
		for {
			n, err := c.Read(buf)
			if _, werr := c.Write(buf[:n]); err != nil || werr != nil {
				return
			}
			if lag {
				time.Sleep(20 * time.Microsecond)
			}
		}
	})
	r.targets(f.target(wire.Serve, true))
	r.run(func(c *Config) { c.Logger = nil })

	stop := make(chan struct{})
	var holds atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		rnd := rand.New(rand.NewPCG(seed, 0))
		for {
			select {
			case <-stop:
				return
			default:
			}
			r.client.Hold(context.Background(), wire.HoldRequest{On: true, Millis: 1 + rnd.Int64N(8)})
			time.Sleep(time.Duration(rnd.IntN(4000)) * time.Microsecond)
			r.client.Hold(context.Background(), wire.HoldRequest{})
			holds.Add(1)
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
		}
	})
	var streams sync.WaitGroup
	for i := range uint64(3) {
		c := r.dial()
		c.Write([]byte("o")) // tells the fake that this is no TLS
		streams.Go(func() { pump(t, c, seed+i, 2*time.Second) })
	}
	streams.Wait()
	close(stop)
	wg.Wait()
	if n := holds.Load(); n < 10 {
		t.Errorf("only %d holds happened", n)
	}
	t.Logf("%d holds", holds.Load())
}

// pump sends a seeded stream for d, half-closes, and compares what is echoed.
func pump(t *testing.T, c *net.TCPConn, seed uint64, d time.Duration) {
	var sent atomic.Int64
	go func() {
		src, size := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}), rand.New(rand.NewPCG(seed, 1))
		buf := make([]byte, 64<<10)
		for end := time.Now().Add(d); time.Now().Before(end); {
			b := buf[:1+size.IntN(len(buf))]
			src.Read(b)
			n, err := c.Write(b)
			sent.Add(int64(n))
			if err != nil {
				t.Errorf("send after %d bytes: %v", sent.Load(), err)
				break
			}
		}
		c.CloseWrite()
	}()
	want := &sizedStream{src: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}), size: rand.New(rand.NewPCG(seed, 1))}
	buf := make([]byte, 64<<10)
	var got int64
	for {
		n, err := c.Read(buf)
		for i, b := range buf[:n] {
			if w := want.next(); b != w {
				t.Errorf("byte %d of the stream is %#x, sent was %#x", got+int64(i), b, w)
				c.Close()
				return
			}
		}
		got += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Errorf("after %d of %d bytes: %v", got, sent.Load(), err)
			return
		}
	}
	if got != sent.Load() || got < 1<<20 {
		t.Errorf("%d bytes came back of %d", got, sent.Load())
	}
	t.Logf("%d MB", got>>20)
}

// sizedStream repeats what the sender drew, in the same chunks (ChaCha8.Read
// is not the same stream when read in others).
type sizedStream struct {
	src  *rand.ChaCha8
	size *rand.Rand
	rest []byte
	buf  [64 << 10]byte
}

func (s *sizedStream) next() byte {
	if len(s.rest) == 0 {
		s.rest = s.buf[:1+s.size.IntN(len(s.buf))]
		s.src.Read(s.rest)
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b
}

// A flow blocked in a write does not make hold wait for long, and a deadline
// never survives the hold.
func TestHoldReportsABlockedServer(t *testing.T) {
	a, b := tcpPair(t)
	x, y := tcpPair(t)
	g := newGate(50 * time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- g.copy(x, b) }()
	if !waitFor(func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.running == 1 }) {
		t.Fatal("flow does not run")
	}
	if !g.hold(0) {
		t.Error("an idle flow was not quiet")
	}
	if !waitFor(func() bool { return !g.holding() }) {
		t.Fatal("did not open by itself")
	}
	a.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	n, err := io.Copy(a, zeros{}) // y does not read: fills every buffer
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	begun := time.Now()
	if g.hold(0) {
		t.Error("a flow in the midst of a write was called quiet")
	}
	if d := time.Since(begun); d > 5*settle {
		t.Errorf("hold took %v", d)
	}
	a.Close()
	got, err := io.Copy(io.Discard, io.LimitReader(y, n))
	if err != nil || got != n {
		t.Errorf("%d of %d bytes arrived: %v", got, n, err)
	}
	if err := <-done; err != nil {
		t.Error("flow: ", err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func waitFor(ok func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

func tcpPair(t *testing.T) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

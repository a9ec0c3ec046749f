package proxy

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// gate stops the bytes that clients send, on every connection at once, for at
// most max at a time (DESIGN "Proxy targets": around MoveLeader). The other
// direction is not touched.
//
// Holding sets a read deadline in the past on the client's side of each
// connection. Nothing is lost by that: net.TCPConn.ReadFrom splices through a
// pipe which is empty whenever it looks at the source (internal/poll.Splice:
// drain, then pump all of it, then drain again), and only looking at the source
// can meet that deadline; the destination has none. The fallback without
// splice(2) is a Read followed by a whole Write and has the same property.
type gate struct {
	max time.Duration

	mu      sync.Mutex
	flows   map[*net.TCPConn]struct{}
	running int           // flows that may be forwarding right now
	opened  chan struct{} // non-nil while holding; closed when it opens
	quiet   chan struct{} // non-nil while holding and not yet quiet
	since   time.Time
	timer   *time.Timer
}

var past = time.Unix(1, 0)

// settle is how long hold waits for flows in the midst of a write to finish it.
const settle = 10 * time.Millisecond

func newGate(max time.Duration) *gate {
	return &gate{max: max, flows: map[*net.TCPConn]struct{}{}}
}

// copy forwards the client's bytes from src to dst until src ends (nil) or
// either fails. It must be the only reader of src.
func (g *gate) copy(dst, src *net.TCPConn) error {
	g.mu.Lock()
	g.flows[src] = struct{}{}
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.flows, src)
		g.mu.Unlock()
	}()
	for {
		if err := g.enter(src); err != nil {
			return err
		}
		_, err := dst.ReadFrom(src)
		g.leave()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// enter waits until the gate is open and takes the deadline away. Deadlines are
// set and taken away under g.mu, so a hold is never overlooked.
func (g *gate) enter(src *net.TCPConn) error {
	g.mu.Lock()
	for g.opened != nil {
		opened := g.opened
		g.mu.Unlock()
		<-opened
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	if err := src.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	g.running++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.running == 0 && g.quiet != nil {
		close(g.quiet)
		g.quiet = nil
	}
}

// hold closes the gate for d, at most max after it closed first: a renewed hold
// cannot make one longer than that. d <= 0 means max. It returns once nothing is
// forwarded any more (true), or after 10 ms where a server does not take
// what was already read from its client (false; the gate is closed all the same).
func (g *gate) hold(d time.Duration) bool {
	if d <= 0 || d > g.max {
		d = g.max
	}
	g.mu.Lock()
	now := time.Now()
	if g.opened == nil {
		g.opened, g.since = make(chan struct{}), now
		for c := range g.flows {
			c.SetReadDeadline(past) // fails only on a closed one
		}
	} else {
		g.timer.Stop()
	}
	opened := g.opened
	g.timer = time.AfterFunc(min(d, g.since.Add(g.max).Sub(now)), func() { g.openIf(opened) })
	if g.running == 0 {
		g.mu.Unlock()
		return true
	}
	if g.quiet == nil {
		g.quiet = make(chan struct{})
	}
	quiet := g.quiet
	g.mu.Unlock()
	t := time.NewTimer(settle)
	defer t.Stop()
	select {
	case <-quiet:
		return true
	case <-opened:
		return false
	case <-t.C:
		return false
	}
}

// open opens the gate; nothing happens where it is open.
func (g *gate) open() { g.openIf(nil) }

// openIf opens the gate if it is still the closing named by opened (nil: any).
func (g *gate) openIf(opened chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil || (opened != nil && g.opened != opened) {
		return
	}
	g.timer.Stop()
	close(g.opened)
	g.opened, g.quiet = nil, nil
}

func (g *gate) holding() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened != nil
}

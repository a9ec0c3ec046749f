package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// conn is one client connection spliced to a target.
type conn struct {
	client, server *net.TCPConn
	once           sync.Once
}

// close cuts both sides; both directions of the relay end by that.
func (c *conn) close() {
	c.once.Do(func() {
		c.client.Close()
		c.server.Close()
	})
}

var (
	errNoTarget = errors.New("no target was admitted in time")
	errTooMany  = errors.New("too many connections wait for a target already")
)

// handle serves one client connection until it ends.
func (p *proxy) handle(ctx context.Context, client *net.TCPConn) {
	tune(client)
	for {
		server, t, err := p.connect(ctx)
		if err != nil {
			client.Close()
			if ctx.Err() == nil {
				p.log.Warn("connection given up", "client", client.RemoteAddr().String(), "error", err)
			}
			return
		}
		c := &conn{client: client, server: server}
		if !p.table.add(t, c) { // lost its admission while we connected
			server.Close()
			continue
		}
		p.relay(c)
		p.table.remove(t, c)
		return
	}
}

// relay forwards both ways until both are done, passing on half-closes.
func (p *proxy) relay(c *conn) {
	defer c.close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := c.client.ReadFrom(c.server); err != nil || c.client.CloseWrite() != nil {
			c.close()
		}
	}()
	if err := p.gate.copy(c.server, c.client); err != nil || c.server.CloseWrite() != nil {
		c.close()
	}
	<-done
}

// connect returns a connection to the best target that takes one. With none it
// waits, up to HoldMax: a refusal would send the client into growing backoff.
func (p *proxy) connect(ctx context.Context) (*net.TCPConn, *target, error) {
	deadline := time.Now().Add(p.cfg.HoldMax)
	holding := false
	for {
		targets, changed := p.table.candidates()
		for _, t := range targets {
			if s := p.dial(ctx, t); s != nil {
				return s, t, nil
			}
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if !holding {
			if !p.table.wait() {
				return nil, nil, errTooMany
			}
			holding = true
			defer p.table.waited()
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, nil, errNoTarget
		}
		if len(targets) > 0 { // admitted, yet none took it: not long until the verdict
			left = min(left, p.cfg.FastEvery)
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// dial connects to t; nil: it failed, and t is probed at once.
func (p *proxy) dial(ctx context.Context, t *target) *net.TCPConn {
	d := net.Dialer{Timeout: p.cfg.DialTimeout, KeepAliveConfig: keepAlive}
	c, err := d.DialContext(ctx, "tcp", t.Address)
	if err != nil {
		p.table.failed(t)
		p.log.Debug("target took no connection", "address", t.Address, "error", err)
		return nil
	}
	return c.(*net.TCPConn)
}

// keepAlive finds a dead peer in about 30 s, as etcd's and the apiserver's own do.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func tune(c *net.TCPConn) {
	// Both fail only on a connection that is gone, which the first read tells.
	_ = c.SetNoDelay(true)
	_ = c.SetKeepAliveConfig(keepAlive)
}

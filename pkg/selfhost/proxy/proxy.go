// Package proxy is the L4 TLS pass-through between a node's apiserver and a
// healthy voting etcd member (DESIGN "Proxy targets"). It never terminates TLS
// for its clients: bytes are spliced. It decides for itself, by its own probe
// with a client certificate, which of the targets the agent wrote may be used.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Defaults of Config.
const (
	// DefaultProbeEvery is the distance between two probes of a target, and each
	// probe's own deadline (DESIGN: "each second").
	DefaultProbeEvery = time.Second
	// DefaultFastEvery is that distance while no target is admitted at all.
	DefaultFastEvery = 100 * time.Millisecond
	// DefaultEagerEvery is that distance for a target that answers and is not
	// admitted yet (a learner, no leader) while others are.
	DefaultEagerEvery = 250 * time.Millisecond
	// DefaultDialTimeout bounds one attempt to connect to a target.
	DefaultDialTimeout = time.Second
	// DefaultHoldMax is how long a connection waits for a target: below gRPC's
	// 20 s connect deadline.
	DefaultHoldMax = 15 * time.Second
	// DefaultMaxHeld is how many connections may wait at once; the next is closed.
	DefaultMaxHeld = 1024
	// DefaultHoldBytesMax is how long client bytes are held at most, by itself.
	DefaultHoldBytesMax = 200 * time.Millisecond
	// DefaultPollEvery is how often the targets file is read without any notice of a change.
	DefaultPollEvery = 2 * time.Second
	// DefaultPreferAfter is when a local target is preferred although the agent
	// has not confirmed the epoch, counted from the start of the proxy.
	DefaultPreferAfter = 10 * time.Second
)

// Config is what Run needs. Only Identity is required; zero values are the defaults.
type Config struct {
	Identity wire.Identity
	Logger   *slog.Logger
	// TLS is used to probe targets; nil: read anew for each new probe connection
	// from Identity.PKIDir (see ClientTLS), so that a renewed certificate is used.
	TLS *tls.Config
	// Listener takes the place of the node's proxy address, or of the listener systemd passed.
	Listener net.Listener
	// Now is the clock by which samples are spaced and PreferAfter is counted.
	Now func() time.Time

	ProbeEvery   time.Duration
	FastEvery    time.Duration
	EagerEvery   time.Duration
	DialTimeout  time.Duration
	HoldMax      time.Duration
	MaxHeld      int
	HoldBytesMax time.Duration
	PollEvery    time.Duration
	PreferAfter  time.Duration
}

func (c *Config) setDefaults() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&c.ProbeEvery, DefaultProbeEvery},
		{&c.FastEvery, DefaultFastEvery},
		{&c.EagerEvery, DefaultEagerEvery},
		{&c.DialTimeout, DefaultDialTimeout},
		{&c.HoldMax, DefaultHoldMax},
		{&c.HoldBytesMax, DefaultHoldBytesMax},
		{&c.PollEvery, DefaultPollEvery},
		{&c.PreferAfter, DefaultPreferAfter},
	} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if c.MaxHeld <= 0 {
		c.MaxHeld = DefaultMaxHeld
	}
}

// proxy is one running proxy.
type proxy struct {
	cfg   Config
	log   *slog.Logger
	table *table
	gate  *gate
	files *targetsFile

	listen string
	wg     sync.WaitGroup // connections and probers
}

// Run serves until ctx ends, then closes the listener, the control socket and
// every connection and returns nil. An error means that it could not start
// (another proxy holds the lock, the address is taken) or that its listener
// failed; by then nothing of it runs any more.
func Run(ctx context.Context, cfg Config) error {
	cfg.setDefaults()
	unlock, err := lock(cfg.Identity.State(wire.FileProxyLock))
	if err != nil {
		return err
	}
	defer unlock()
	ln, err := listen(ctx, cfg)
	if err != nil {
		return err
	}
	defer ln.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &proxy{cfg: cfg, log: cfg.Logger, listen: ln.Addr().String(), gate: newGate(cfg.HoldBytesMax)}
	p.table = newTable(cfg, func(t *target) { p.startProber(ctx, t) })
	p.files = newTargetsFile(cfg.Identity, p.log, p.table.set)
	p.files.start()
	control, err := p.serveControl()
	if err != nil {
		cancel()
		p.table.closeAll()
		p.wg.Wait()
		return err
	}
	p.wg.Go(func() { p.files.watch(ctx, cfg.PollEvery) })
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	p.log.Info("proxy listens", "address", p.listen, "targets", cfg.Identity.State(wire.FileTargets))

	err = p.accept(ctx, ln)
	cancel()
	control.Close()
	os.Remove(cfg.Identity.State(wire.FileProxySock)) // a left one only refuses
	p.table.closeAll()
	p.wg.Wait()
	if err == nil {
		p.log.Info("proxy stopped")
	}
	return err
}

// accept hands each connection to a goroutine of its own, until ctx ends or the
// listener fails for good.
func (p *proxy) accept(ctx context.Context, ln net.Listener) error {
	backoff := time.Duration(0)
	for {
		c, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("listener %s was closed under the proxy: %w", p.listen, err)
		case err != nil: // out of descriptors, or the client was gone already
			backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
			p.log.Warn("connection could not be accepted", "error", err, "again_in", backoff)
			wait(ctx, backoff)
			continue
		}
		backoff = 0
		p.wg.Go(func() { p.handle(ctx, c.(*net.TCPConn)) })
	}
}

// wait sleeps for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// BootID is the kernel's ID of this boot, empty where it cannot be read.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Package port listens, and where an address is taken or not this host's, says
// so in words a person can act on: who holds it, by process number and command
// line, as far as /proc tells.
package port

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// Taken is the error of an address on which another process listens.
type Taken struct {
	Addr string // host:port
	// Holders are "pid 4711 (etcd --name …)", more than one where a socket was
	// inherited; empty where /proc does not say.
	Holders []string
}

func (t *Taken) Error() string {
	who := "a process that cannot be seen from here (another PID namespace, or another user's)"
	if len(t.Holders) > 0 {
		who = strings.Join(t.Holders, " and ")
	}
	return fmt.Sprintf("%s is held by %s; end it, or choose other ports or addresses", t.Addr, who)
}

// Unwrap makes a Taken recognisable as the kernel's own error.
func (t *Taken) Unwrap() error { return syscall.EADDRINUSE }

// Listen listens on a TCP address host:port. The errors for a port that is
// taken (*Taken) and for an address of no interface name what was found.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &Taken{Addr: addr, Holders: Holders(addr)}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is on no interface of this host; is its network up, and is it this node's address? %w", addr, err)
	}
	return l, err
}

// Try listens on every address for a moment: an error says which one a process
// that is about to start will not get. It must not be asked about addresses
// that a process of ours may be about to take.
func Try(ctx context.Context, addrs ...string) error {
	for _, a := range addrs {
		l, err := Listen(ctx, a)
		if err != nil {
			return err
		}
		l.Close()
	}
	return nil
}

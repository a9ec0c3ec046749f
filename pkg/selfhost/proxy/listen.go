package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/port"
)

// lock takes the proxy's flock, held until unlock or the end of the process,
// and writes the PID into it. Where another process holds it, the error names
// that process's PID.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the proxy's lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		holder := "unknown"
		if b, err := io.ReadAll(io.LimitReader(f, 32)); err == nil && len(b) > 0 {
			holder = strings.TrimSpace(string(b))
		}
		return nil, fmt.Errorf("%s is held by another proxy, pid %s; one proxy per node: stop that one or leave it be", path, holder)
	}
	// The PID is for people; the lock itself is what counts.
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("write the PID to %s: %w", path, err)
		}
	}
	return func() { f.Close() }, nil
}

// listen is the configured listener, else the TCP one systemd passed, else the
// node's proxy address.
func listen(ctx context.Context, cfg Config) (net.Listener, error) {
	if cfg.Listener != nil {
		return cfg.Listener, nil
	}
	passed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("take the listener systemd passed: %w", err)
	}
	var ours net.Listener
	for _, l := range passed {
		if _, ok := l.(*net.TCPListener); ok && ours == nil {
			ours = l
		} else if l != nil {
			l.Close()
		}
	}
	if ours != nil {
		return ours, nil
	}
	l, err := port.Listen(ctx, net.JoinHostPort(cfg.Identity.Node.Proxy(), strconv.Itoa(cfg.Identity.Ports.Client)))
	if err != nil {
		return nil, fmt.Errorf("listen on the node's proxy address: %w", err)
	}
	return l, nil
}

// sockPath makes path usable as a unix socket address however long it is (the
// kernel takes 107 bytes): a long one goes through a descriptor of its
// directory. done releases that after bind or connect.
func sockPath(path string) (usable string, done func(), err error) {
	if len(path) < 100 {
		return path, func() {}, nil
	}
	dir, base := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/')+1:]
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, base), func() { unix.Close(fd) }, nil
}

package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Client talks to a proxy's control socket. Sock is its path,
// Identity.State(wire.FileProxySock). Every call makes a connection of its own.
type Client struct{ Sock string }

// Status asks for targets, verdicts and connections. An error means that the
// proxy did not answer: it may be down.
func (c Client) Status(ctx context.Context) (*wire.ProxyStatus, error) {
	var s wire.ProxyStatus
	if err := c.call(ctx, http.MethodGet, pathStatus, nil, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// Hold stops client bytes for at most Millis (capped at 200), or lets them flow
// again. After a nil error of a hold nothing is forwarded, except to a server
// that was not taking what had been read for it before.
func (c Client) Hold(ctx context.Context, r wire.HoldRequest) error {
	r.V = wire.V
	return c.call(ctx, http.MethodPost, pathHold, r, &wire.Reply{})
}

// CloseDrain closes the connections spliced to drained targets, of one member, or
// with 0 of all; doing it again is harmless.
func (c Client) CloseDrain(ctx context.Context, member wire.ID) error {
	return c.call(ctx, http.MethodPost, pathCloseDrain, closeDrainBody{MemberID: member}, &wire.Reply{})
}

func (c Client) call(ctx context.Context, method, path string, body, out any) error {
	var rd io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		rd = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://proxy"+path, rd)
	if err != nil {
		return err
	}
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		usable, done, err := sockPath(c.Sock)
		if err != nil {
			return nil, err
		}
		defer done()
		var d net.Dialer
		return d.DialContext(ctx, "unix", usable)
	}}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return fmt.Errorf("proxy at %s: %w", c.Sock, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("proxy at %s: %s: %w", c.Sock, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("proxy at %s: %s: %s: %s", c.Sock, path, resp.Status, strings.TrimSpace(string(b)))
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("proxy at %s: answer of %s is not readable: %w", c.Sock, path, err)
	}
	return nil
}

// Package agentclient speaks to agents: HTTPS with mutual TLS and JSON bodies
// (wire), one deadline per call, connections reused. Drivers use it, and agents
// among themselves for fence and hold; it imports nothing of the agent.
package agentclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Deadlines of calls; a shorter one in the caller's context wins. One slow
// agent costs its own deadline and nobody else's (LESSONS, "Membership").
const (
	// ReadDeadline bounds reads and grants: a round counts for the agents that
	// answered within 2 s (DESIGN "Who may drive").
	ReadDeadline = 2 * time.Second
	// ObserveDeadline leaves room for one etcd that does not answer (1 s) and
	// one directory that must be read in a child.
	ObserveDeadline = 5 * time.Second
	// ActDeadline bounds what only writes files and signals processes.
	ActDeadline = 5 * time.Second
	// MemberDeadline is fence check (2 s), list and call (2 s each) and a margin.
	MemberDeadline = 8 * time.Second
	// SlowDeadline bounds restart-late and retire, which await a process's end
	// (10 s grace, then SIGKILL), and hash, which reads the whole database.
	SlowDeadline = 20 * time.Second
	// PruneDeadline bounds a prune: a directory is read once more, then removed.
	PruneDeadline = 55 * time.Second
)

const maxReply = 16 << 20 // a journal page is the largest answer

// Client calls the agents of one cluster. It is safe for concurrent use.
type Client struct {
	http *http.Client
	port int
}

// NewClient calls agents on port with tlsConfig (client certificate and the CA
// to check theirs against). HTTP/1.1 with keep-alive: a connection that hangs
// blocks one call only.
func NewClient(tlsConfig *tls.Config, port int) *Client {
	dialer := &net.Dialer{Timeout: ReadDeadline, KeepAlive: 5 * time.Second}
	return &Client{port: port, http: &http.Client{
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			TLSClientConfig:     tlsConfig,
			TLSHandshakeTimeout: ReadDeadline,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     30 * time.Second,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StatusError is an answer that is neither success nor refusal: 400 a body that
// cannot be read, 403 a certificate that may not call this, 404 an RPC this
// agent does not know, 500 a failure in the agent's own words. After 500 on a
// mutating RPC nothing is known: look again (I8).
type StatusError struct {
	Addr    string
	Path    string
	Code    int
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("agent %s %s: HTTP %d: %s", e.Addr, e.Path, e.Code, e.Message)
}

// AsRefusal finds the named refusal in err, nil if it is something else.
func AsRefusal(err error) *wire.Refusal {
	var r *wire.Refusal
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// head is what every answer carries.
type head struct {
	V       int           `json:"v"`
	Refusal *wire.Refusal `json:"refusal"`
	Error   string        `json:"error"`
}

// call sends in (nil: GET) and decodes the answer into out. A refusal is
// decoded into out as well and returned as *wire.Refusal.
func (c *Client) call(ctx context.Context, addr, path string, deadline time.Duration, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	req, err := c.request(ctx, addr, path, in)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("agent %s: %w", addr, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return fmt.Errorf("agent %s %s: read answer: %w", addr, path, err)
	}
	if len(body) > maxReply {
		return fmt.Errorf("agent %s %s: answer larger than %d bytes", addr, path, maxReply)
	}
	return decode(addr, path, resp.StatusCode, body, out)
}

func (c *Client) request(ctx context.Context, addr, path string, in any) (*http.Request, error) {
	url := "https://" + c.hostPort(addr) + path
	if in == nil {
		return http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	}
	b, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

func decode(addr, path string, code int, body []byte, out any) error {
	var h head
	if err := json.Unmarshal(body, &h); err != nil {
		return &StatusError{Addr: addr, Path: path, Code: code, Message: "answer is not JSON: " + firstLine(body)}
	}
	switch {
	case h.V > wire.V:
		return &wire.Refusal{Name: "NewerVersion", Node: addr,
			Want:  "answers up to version " + strconv.Itoa(wire.V),
			Found: "version " + strconv.Itoa(h.V) + " in the answer of " + path}
	case code == http.StatusConflict && h.Refusal != nil:
		// The body may carry more than the refusal (GrantReply.Fence).
		if err := json.Unmarshal(body, out); err != nil {
			return fmt.Errorf("agent %s %s: %w", addr, path, err)
		}
		return h.Refusal
	case code != http.StatusOK:
		return &StatusError{Addr: addr, Path: path, Code: code, Message: h.Error}
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("agent %s %s: %w", addr, path, err)
	}
	return nil
}

func firstLine(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\n")
	if len(s) > 200 {
		s = s[:200]
	}
	return s
}

// hostPort joins addr (IP or name, or host:port already) and the agent port.
func (c *Client) hostPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(addr, strconv.Itoa(c.port))
}

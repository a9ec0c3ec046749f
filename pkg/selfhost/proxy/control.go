package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/version"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Paths on the proxy's unix socket.
const (
	pathStatus     = "/status"
	pathHold       = "/hold"
	pathCloseDrain = "/close-drain"
)

// maxBody bounds what a caller may send.
const maxBody = 4 << 10

// serveControl listens on STATE/proxy.sock (0600). The caller holds the proxy's
// lock, so a socket that is there is a dead proxy's.
func (p *proxy) serveControl() (*http.Server, error) {
	path := p.cfg.Identity.State(wire.FileProxySock)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the dead proxy's socket: %w", err)
	}
	usable, done, err := sockPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	ln, err := net.Listen("unix", usable)
	if err != nil {
		return nil, fmt.Errorf("listen on the control socket %s: %w", path, err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // its name may be a descriptor's by then
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathStatus, p.serveStatus)
	mux.HandleFunc("POST "+pathHold, p.serveHold)
	mux.HandleFunc("POST "+pathCloseDrain, p.serveCloseDrain)
	s := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10}
	p.wg.Go(func() {
		if err := s.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("control socket failed", "error", err)
		}
	})
	return s, nil
}

func (p *proxy) status() wire.ProxyStatus {
	s := wire.ProxyStatus{V: wire.V, Listen: p.listen, PID: os.Getpid(), Version: version.Version,
		Holding: p.gate.holding(), Error: p.files.trouble()}
	p.table.status(&s)
	return s
}

func (p *proxy) serveStatus(w http.ResponseWriter, _ *http.Request) { reply(w, p.status()) }

func (p *proxy) serveHold(w http.ResponseWriter, r *http.Request) {
	var q wire.HoldRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&q); err != nil {
		http.Error(w, "hold: body is not a HoldRequest: "+err.Error(), http.StatusBadRequest)
		return
	}
	if q.V != wire.V {
		http.Error(w, fmt.Sprintf("hold: version %d, this proxy speaks %d", q.V, wire.V), http.StatusBadRequest)
		return
	}
	if !q.On {
		p.gate.open()
		p.log.Info("client bytes flow again")
	} else {
		quiet := p.gate.hold(time.Duration(q.Millis) * time.Millisecond)
		p.log.Info("client bytes held", "millis", q.Millis, "quiet", quiet)
	}
	reply(w, wire.Reply{V: wire.V, OK: true})
}

// closeDrainBody is what close-drain is asked with; without a member, all.
type closeDrainBody struct {
	MemberID wire.ID `json:"memberID"`
}

func (p *proxy) serveCloseDrain(w http.ResponseWriter, r *http.Request) {
	var q closeDrainBody
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&q); err != nil {
		http.Error(w, "close-drain: body is not readable: "+err.Error(), http.StatusBadRequest)
		return
	}
	p.table.closeDrain(q.MemberID)
	reply(w, wire.Reply{V: wire.V, OK: true})
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails only when the caller has left
}

package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/netutil"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/port"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/version"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Bounds of the RPC server: what a caller may cost.
const (
	maxBody       = 1 << 20
	maxHeader     = 16 << 10
	maxConns      = 256
	headerTimeout = 5 * time.Second  // TLS handshake and header
	readTimeout   = 10 * time.Second // the whole request
	writeTimeout  = 60 * time.Second // the whole answer, restart-late and retire included
	idleTimeout   = 2 * time.Minute
	shutdownGrace = 2 * time.Second
)

func (a *Agent) listen(ctx context.Context) (net.Listener, error) {
	conf, err := pki.ServerConfig(a.id.PKIDir)
	if err != nil {
		return nil, err
	}
	conf.NextProtos = []string{"http/1.1"}
	l, err := port.Listen(ctx, a.id.Node.HostPort(a.id.Ports.Agent))
	if err != nil {
		return nil, fmt.Errorf("listen for agents and drivers: %w", err)
	}
	return tls.NewListener(netutil.LimitListener(l, maxConns), conf), nil
}

// serve answers until ctx ends, then lets calls under way finish for a moment.
func (a *Agent) serve(ctx context.Context, l net.Listener, ready func()) error {
	s := newServer(a.handler(), a.log)
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	tending, stop := context.WithCancel(ctx)
	a.work.Go(func() { a.tend(tending) })
	a.work.Go(func() { a.tidy(tending) })
	defer stop()
	a.log.Info("agent serves", "address", l.Addr().String(), "version", version.Version)
	a.notifyReady()
	if ready != nil {
		ready()
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serve agents and drivers: %w", err)
	case <-ctx.Done():
	}
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := s.Shutdown(bye); err != nil {
		a.log.Warn("calls were cut off at the end", "error", err)
		return s.Close()
	}
	return nil
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
}

// method of each path is in the access table of pki; who is not in it is nobody.
func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		wire.PathObserve:     a.getObserve,
		wire.PathJournal:     a.getJournal,
		wire.PathFence:       a.getFence,
		wire.PathGrantTake:   post(a.grantTake),
		wire.PathGrantDrop:   post(a.grantDrop),
		wire.PathSpec:        post(a.setSpec),
		wire.PathHash:        post(a.hash),
		wire.PathTargets:     post(a.setTargets),
		wire.PathHold:        post(a.hold),
		wire.PathCloseDrain:  post(a.closeDrain),
		wire.PathTombstone:   post(a.tombstone),
		wire.PathSlotStart:   post(a.slotStart),
		wire.PathSlotRestart: post(a.slotRestart),
		wire.PathSlotStop:    post(a.slotStop),
		wire.PathSlotRetire:  post(a.slotRetire),
		wire.PathAddLearner:  post(a.addLearner),
		wire.PathPromote:     post(a.promote),
		wire.PathRemove:      post(a.remove),
		wire.PathMoveLeader:  post(a.moveLeader),
		wire.PathCertDriver:  post(a.certDriver),

		wire.PathAttic:        a.getAttic,
		wire.PathAtticPrune:   post(a.atticPrune),
		wire.PathJournalFiles: a.getJournalFiles,
		wire.PathJournalPrune: post(a.journalPrune),
	} {
		mux.HandleFunc(path, h)
	}
	return authorized(mux)
}

// authorized lets a caller through whose role the access table names for the
// path, with the method it names. A certificate good for etcd is not enough.
func authorized(next http.Handler) http.Handler {
	methods := map[string]string{}
	for _, r := range pki.Rules() {
		methods[r.Path] = r.Method
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			fail(w, http.StatusForbidden, errors.New("TLS only"))
			return
		}
		role, name, err := pki.Caller(*r.TLS)
		switch {
		case err != nil:
			fail(w, http.StatusForbidden, err)
		case methods[r.URL.Path] == "":
			fail(w, http.StatusNotFound, fmt.Errorf("this agent does not know %s", r.URL.Path))
		case !pki.Allowed(r.URL.Path, role):
			fail(w, http.StatusForbidden, fmt.Errorf("%s %s may not call %s", role, name, r.URL.Path))
		case methods[r.URL.Path] != r.Method:
			fail(w, http.StatusMethodNotAllowed, fmt.Errorf("%s takes %s", r.URL.Path, methods[r.URL.Path]))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// post decodes a bounded body into T, calls f and writes what it returns. A
// refusal in the error wins over the reply, unless that one carries it already.
func post[T, R any](f func(context.Context, T) (R, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in T
		b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var tooBig *http.MaxBytesError
		switch {
		case errors.As(err, &tooBig):
			fail(w, http.StatusRequestEntityTooLarge, fmt.Errorf("a body has at most %d bytes", maxBody))
			return
		case err != nil:
			fail(w, http.StatusBadRequest, err)
			return
		}
		if err := decode(b, &in); err != nil {
			respond(w, nil, err)
			return
		}
		out, err := f(r.Context(), in)
		respond(w, out, err)
	}
}

type badRequest struct{ error }

func decode(b []byte, in any) error {
	var head struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return badRequest{fmt.Errorf("body is not readable as JSON: %w", err)}
	}
	if head.V > wire.V {
		return &wire.Refusal{Name: "NewerVersion", Found: "a body of version " + strconv.Itoa(head.V), Want: "version " + strconv.Itoa(wire.V) + " or older; upgrade this agent first"}
	}
	if head.V < 1 {
		return badRequest{errors.New(`body without its version ("v")`)}
	}
	if err := json.Unmarshal(b, in); err != nil {
		return badRequest{err}
	}
	return nil
}

func respond(w http.ResponseWriter, out any, err error) {
	var r *wire.Refusal
	var bad badRequest
	switch {
	case err == nil:
		write(w, http.StatusOK, out)
	case errors.As(err, &r):
		if g, ok := out.(wire.GrantReply); ok {
			g.V, g.Refusal = wire.V, r
			write(w, http.StatusConflict, g)
			return
		}
		write(w, http.StatusConflict, wire.Reply{V: wire.V, Refusal: r})
	case errors.As(err, &bad):
		fail(w, http.StatusBadRequest, err)
	default:
		fail(w, http.StatusInternalServerError, err)
	}
}

func fail(w http.ResponseWriter, code int, err error) {
	write(w, code, struct {
		V     int    `json:"v"`
		Error string `json:"error"`
	}{wire.V, err.Error()})
}

func write(w http.ResponseWriter, code int, out any) {
	b, err := json.Marshal(out)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"v":1,"error":"answer cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n')) // a caller that went away is its own loss
}

func ok() wire.Reply { return wire.Reply{V: wire.V, OK: true} }

func (a *Agent) getJournal(w http.ResponseWriter, r *http.Request) {
	n := 200
	if s := r.URL.Query().Get("last"); s != "" {
		v, err := strconv.Atoi(s)
		if err != nil || v < 1 {
			fail(w, http.StatusBadRequest, fmt.Errorf("last=%q is no number above 0", s))
			return
		}
		n = v
	}
	write(w, http.StatusOK, wire.JournalReply{V: wire.V, Node: a.id.Node.Name, Entries: a.journal.Last(n)})
}

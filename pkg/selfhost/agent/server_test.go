package agent

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// bare is one node without epoch whose agent runs.
func bare(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, 1)
	r.must(WriteBundleState(r.ids[0]))
	r.start(0)
	return r
}

func (r *rig) url(path string) string {
	return "https://" + r.ids[0].Node.HostPort(testPorts.Agent) + path
}

// as is an HTTP client with one certificate of the node; empty: none.
func (r *rig) as(n pki.Name) *http.Client {
	r.t.Helper()
	conf, err := pki.ClientConfig(r.ids[0].PKIDir, pki.RoleDriver)
	r.must(err)
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if n == "" {
			return &tls.Certificate{}, nil
		}
		c, err := tls.LoadX509KeyPair(pki.CertFile(r.ids[0].PKIDir, n), pki.KeyFile(r.ids[0].PKIDir, n))
		return &c, err
	}
	tr := &http.Transport{TLSClientConfig: conf}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

// A certificate good for etcd is not good for an agent, though the CA is the same.
func TestCallers(t *testing.T) {
	r := bare(t)
	act := `{"v":1,"driver":"d","number":1,"round":1}`
	for _, tc := range []struct {
		cert         pki.Name
		method, path string
		body         string
		want         int // 0: no connection at all
	}{
		{"", "GET", wire.PathFence, "", 0},
		{pki.APIServerEtcdClient, "GET", wire.PathFence, "", 403},
		{pki.APIServerEtcdClient, "POST", wire.PathGrantTake, act, 403},
		{pki.HealthcheckClient, "GET", wire.PathObserve, "", 403},
		{pki.Peer, "GET", wire.PathFence, "", 403},
		{pki.Server, "POST", wire.PathHold, `{"v":1}`, 403},
		{pki.Agent, "GET", wire.PathFence, "", 200},
		{pki.Agent, "GET", wire.PathJournal, "", 200},
		{pki.Agent, "POST", wire.PathGrantTake, act, 403},
		{pki.Agent, "POST", wire.PathSlotStop, act, 403},
		{pki.Driver, "GET", wire.PathFence, "", 200},
		{pki.Driver, "POST", wire.PathSlotStop, act, 409},
		{pki.Driver, "GET", wire.PathSlotStop, "", 405},
		{pki.Driver, "POST", wire.PathFence, act, 405},
		{pki.Driver, "GET", "/v1/everything", "", 404},
		{pki.Driver, "GET", wire.PathJournal + "?last=x", "", 400},
		{pki.Driver, "POST", wire.PathSlotStop, "{", 400},
		{pki.Driver, "POST", wire.PathSlotStop, `{"driver":"d"}`, 400},
		{pki.Driver, "POST", wire.PathSlotStop, `{"v":99}`, 409},
		{pki.Driver, "POST", wire.PathSlotStop, `{"v":1,"why":"` + strings.Repeat("x", maxBody) + `"}`, 413},
	} {
		t.Run(string(tc.cert)+" "+tc.method+" "+tc.path+" "+strconv.Itoa(tc.want), func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tc.method, r.url(tc.path), bytes.NewBufferString(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := r.as(tc.cert).Do(req)
			if err != nil {
				if tc.want != 0 {
					t.Fatal(err)
				}
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.want || !bytes.Contains(b, []byte(`"v":1`)) {
				t.Errorf("HTTP %d %s, want %d", resp.StatusCode, b, tc.want)
			}
			if strings.Contains(tc.body, "99") && !bytes.Contains(b, []byte("NewerVersion")) {
				t.Errorf("%s", b)
			}
		})
	}
}

// A client that says nothing, and one that stops in mid-body, are cut off.
func TestSlowClients(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	s := newServer(h, testLog(t))
	if s.ReadHeaderTimeout != headerTimeout || s.ReadTimeout != readTimeout || s.WriteTimeout == 0 || s.IdleTimeout == 0 {
		t.Fatalf("a server without bounds: %+v", s)
	}
	s.ReadHeaderTimeout, s.ReadTimeout = 100*time.Millisecond, 300*time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l) //nolint:errcheck // ends with Close
	t.Cleanup(func() { s.Close() })
	for _, sent := range []string{"", "POST / HTTP/1.1\r\nHost: x\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %q the connection stays", sent)
		}
	}
}

func TestSecondAgent(t *testing.T) {
	r := bare(t)
	err := Run(t.Context(), Config{StateDir: r.ids[0].StateDir})
	if err == nil || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())) || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("got %v", err)
	}
	if err := Run(t.Context(), Config{StateDir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "identity.json is missing") {
		t.Errorf("got %v", err)
	}
}

// What an agent without epoch takes from its first driver, and what it refuses ever after.
func TestFirstDriver(t *testing.T) {
	r := bare(t)
	ctx, addr := t.Context(), r.ids[0].Node.Address
	node := r.ids[0].Node
	elsewhere := node
	elsewhere.Address = "127.0.0.99"
	spec := func(n wire.NodeRef, epoch uint64) wire.Spec {
		return wire.Spec{V: 1, Epoch: epoch, Fence: 1, Count: 1, Nodes: []wire.NodeRef{n}, Ports: testPorts}
	}
	take := func(driver string, number, round uint64, e wire.Epoch, s wire.Spec) (wire.GrantReply, error) {
		return r.client.GrantTake(ctx, addr, wire.GrantRequest{Driver: driver, DriverName: "driver " + driver, Number: number, Round: round, Epoch: e, Spec: s})
	}
	e := wire.Epoch{Number: 2, SeedID: 0x5, ClusterID: 0xc}
	for _, tc := range []struct {
		e wire.Epoch
		s wire.Spec
	}{{wire.Epoch{}, spec(node, 0)}, {e, spec(elsewhere, 2)}, {e, spec(node, 1)}, {e, wire.Spec{V: 1, Epoch: 2}}} {
		r.refused(errOf(take("a", 1, 1, tc.e, tc.s)), "NotNamed")
	}
	if o := r.observe(0); o.Epoch.Number != 0 || o.Fence.Number != 0 {
		t.Fatalf("a refused grant left %+v", o)
	}
	r.must(errOf(take("a", 1, 1, e, spec(node, 2))))
	r.refused(errOf(take("a", 2, 1, wire.Epoch{Number: 1}, spec(node, 1))), "OlderEpoch")
	r.refused(errOf(take("a", 2, 1, wire.Epoch{Number: 3}, spec(node, 3))), "NewerEpoch")
	r.refused(errOf(take("a", 2, 1, wire.Epoch{Number: 2, SeedID: 6, ClusterID: 0xd}, spec(node, 2))), "EpochConflict")
	out, err := take("b", 2, 1, e, spec(node, 2))
	r.refused(err, "GrantHeld")
	if out.Fence.HolderName != "driver a" || out.Fence.LeftMillis == 0 {
		t.Errorf("the refusal does not say whom to wait for: %+v", out.Fence)
	}

	act := wire.Act{Driver: "a", Number: 1, Round: 1, Epoch: 2}
	write := func(s wire.Spec) error { return r.client.Spec(ctx, addr, wire.SpecRequest{Act: act, Spec: s}) }
	s := spec(node, 2)
	s.Count = 5
	r.must(write(s))
	r.must(write(s))
	s.EtcdBinary = "/other"
	r.refused(write(s), "SpecConflict")
	s.Count = 4
	r.refused(write(s), "OlderSpec")
	act.Epoch = 1
	r.refused(write(s), "OlderEpoch")
	act.Epoch = 2

	// A restarted agent still waits for the holder, and takes no round of before.
	r.end(0)
	r.start(0)
	r.refused(errOf(take("b", 2, 1, e, spec(node, 2))), "GrantHeld")
	r.refused(write(spec(node, 2)), "StaleRound")
	r.must(errOf(take("a", 1, 2, e, spec(node, 2))))
	r.must(r.client.GrantDrop(ctx, addr, act))
	r.must(errOf(take("b", 2, 1, e, spec(node, 2))))
	if o := r.observe(0); o.Epoch != e || o.Spec.Count != 5 || o.Fence.Number != 2 {
		t.Errorf("%+v", o)
	}
}

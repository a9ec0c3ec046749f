package agentclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What a person reads of a silence, for each way an agent can be silent.
func TestWhy(t *testing.T) {
	answer := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"v":1}`)) }
	ask := func(conf *tls.Config, addr string, deadline time.Duration) string {
		c := NewClient(conf, 1)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		_, err := c.Fence(ctx, addr)
		return Why(err)
	}
	s := httptest.NewTLSServer(http.HandlerFunc(answer))
	defer s.Close()
	s.Config.ErrorLog = nil
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	addr := s.Listener.Addr().String()

	picky := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	picky.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	picky.StartTLS()
	defer picky.Close()

	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := gone.Addr().String()
	gone.Close()

	late := &tls.Config{RootCAs: roots, Time: func() time.Time { return time.Now().AddDate(1000, 0, 0) }}
	for name, tc := range map[string]struct {
		got, want string
	}{
		"well":                  {ask(&tls.Config{RootCAs: roots}, addr, 5*time.Second), "no answer"}, // no error
		"nobody listens":        {ask(&tls.Config{RootCAs: roots}, closed, 5*time.Second), "nobody listens on " + closed},
		"nobody answers":        {ask(&tls.Config{RootCAs: roots}, mute.Addr().String(), 200*time.Millisecond), "no answer from " + mute.Addr().String() + " in time"},
		"another CA":            {ask(&tls.Config{RootCAs: x509.NewCertPool()}, addr, 5*time.Second), "another CA"},
		"another name":          {ask(&tls.Config{RootCAs: roots, ServerName: "other.example"}, addr, 5*time.Second), "is for other addresses"},
		"expired":               {ask(late, addr, 5*time.Second), "is not valid now"},
		"it wants another cert": {ask(&tls.Config{RootCAs: roots}, picky.Listener.Addr().String(), 5*time.Second), "refuses the certificate shown to it"},
	} {
		if !strings.Contains(tc.got, tc.want) || strings.Contains(tc.got, "https://") {
			t.Errorf("%s: %q, want %q", name, tc.got, tc.want)
		}
	}
}

package agentclient

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func serve(t *testing.T, h http.HandlerFunc) (*Client, string) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	c := NewClient(&tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}, 1)
	t.Cleanup(c.Close)
	return c, strings.TrimPrefix(s.URL, "https://")
}

func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		code    int
		body    string
		refusal string
		status  int
	}{
		{"ok", 200, `{"v":1,"ok":true}`, "", 0},
		{"refusal", 409, `{"v":1,"ok":false,"refusal":{"name":"GrantHeld","found":"pivot on cp-2"},"fence":{"v":1,"number":7}}`, "GrantHeld", 0},
		{"newer", 200, `{"v":2,"ok":true}`, "NewerVersion", 0},
		{"forbidden", 403, `{"v":1,"error":"no"}`, "", 403},
		{"not JSON", 502, "<html>", "", 502},
		{"conflict without refusal", 409, `{"v":1}`, "", 409},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				var in wire.GrantRequest
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.V != wire.V || in.Number != 9 {
					t.Errorf("request %+v, %v", in, err)
				}
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(tc.body))
			})
			out, err := c.GrantTake(t.Context(), addr, wire.GrantRequest{Number: 9})
			var se *StatusError
			switch {
			case tc.refusal != "":
				if r := AsRefusal(err); r == nil || r.Name != tc.refusal {
					t.Fatalf("got %v", err)
				}
				if tc.refusal == "GrantHeld" && out.Fence.Number != 7 {
					t.Errorf("the reply beside a refusal is lost: %+v", out)
				}
			case tc.status != 0:
				if !errors.As(err, &se) || se.Code != tc.status {
					t.Fatalf("got %v", err)
				}
			case err != nil || !out.OK:
				t.Fatalf("got %+v, %v", out, err)
			}
		})
	}
}

func TestDeadlineAndReuse(t *testing.T) {
	stop := make(chan struct{})
	remotes := map[string]bool{}
	c, addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathFence && r.Header.Get("Content-Type") == "" {
			remotes[r.RemoteAddr] = true
			_, _ = w.Write([]byte(`{"v":1,"node":"cp-1"}`))
			return
		}
		<-stop
	})
	defer close(stop)
	for range 3 {
		if f, err := c.Fence(t.Context(), addr); err != nil || f.Node != "cp-1" {
			t.Fatalf("%+v %v", f, err)
		}
	}
	if len(remotes) != 1 {
		t.Errorf("three calls used %d connections", len(remotes))
	}
	start := time.Now()
	if err := c.GrantDrop(t.Context(), addr, wire.Act{}); err == nil {
		t.Fatal("a silent agent gave an answer")
	}
	if d := time.Since(start); d < ReadDeadline-100*time.Millisecond || d > ReadDeadline+2*time.Second {
		t.Errorf("gave up after %s", d)
	}
}

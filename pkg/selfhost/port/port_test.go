package port

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// Whoever listens is named, whatever address it listens on and we would.
func TestHolderIsNamed(t *testing.T) {
	for _, c := range []struct{ listen, want string }{
		{"127.0.0.1", "127.0.0.1"}, {"0.0.0.0", "127.0.0.1"}, {"127.0.0.1", "0.0.0.0"}, {"::1", "::1"}, {"::", "127.0.0.1"},
	} {
		t.Run(c.listen+" before "+c.want, func(t *testing.T) {
			l, err := net.Listen("tcp", net.JoinHostPort(c.listen, "0"))
			if err != nil {
				t.Skipf("this host cannot listen there: %v", err)
			}
			defer l.Close()
			_, p, _ := net.SplitHostPort(l.Addr().String())
			_, err = Listen(t.Context(), net.JoinHostPort(c.want, p))
			var taken *Taken
			if !errors.As(err, &taken) || !errors.Is(err, syscall.EADDRINUSE) {
				t.Fatalf("got %v", err)
			}
			if want := fmt.Sprintf("pid %d (", os.Getpid()); !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not name %s", err, want)
			}
			l.Close()
			if err := Try(t.Context(), net.JoinHostPort(c.want, p)); err != nil {
				t.Errorf("once it is free: %v", err)
			}
			if Listened(net.JoinHostPort(c.want, p)) {
				t.Error("nobody listens any more")
			}
		})
	}
}

func TestAddressOfNobody(t *testing.T) {
	if _, err := Listen(context.Background(), "192.0.2.1:2379"); !errors.Is(err, syscall.EADDRNOTAVAIL) || !strings.Contains(err.Error(), "no interface of this host") {
		t.Errorf("got %v", err)
	}
}

func TestParseRow(t *testing.T) {
	for line, want := range map[string]string{
		"   0: 0100007F:094B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 x":                                                 "127.0.0.1:2379 12345",
		"   1: 0000000000000000FFFF00000100007F:094B 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12346 1 x": "127.0.0.1:2379 12346",
		"   2: 00000000000000000000000001000000:094C 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12347 1 x": "[::1]:2380 12347",
		"   3: 0100007F:094B 0100007F:8000 01 00000000:00000000 00:00000000 00000000     0        0 12348 1 x":                                                 "",
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode":                                                     "",
	} {
		at, inode, ok := parseRow(line)
		got := ""
		if ok {
			got = at.String() + " " + inode
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

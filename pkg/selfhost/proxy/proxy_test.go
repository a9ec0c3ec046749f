package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// closed says that the proxy ended c.
func closed(c net.Conn) bool {
	c.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(io.Discard, c)
	ne, ok := err.(net.Error)
	return !ok || !ne.Timeout()
}

// alive says that c still carries bytes both ways.
func alive(c net.Conn) bool {
	c.SetReadDeadline(time.Now().Add(patience))
	var b [1]byte
	_, werr := c.Write([]byte("?"))
	_, rerr := io.ReadFull(c, b[:])
	return werr == nil && rerr == nil && b[0] == '?'
}

func TestOneProxyPerNode(t *testing.T) {
	r := newRig(t)
	r.run(nil)
	err := Run(context.Background(), Config{Identity: r.id})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("second proxy: %v; expected the holder's pid", err)
	}
	st, err := os.Stat(r.client.Sock)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("control socket: %v, %v", st, err)
	}
}

// The local target is taken first, others in turn where it goes away; drained
// ones take nothing new while a serving one is admitted and close when told.
func TestServeDrainAndCloseDrain(t *testing.T) {
	r := newRig(t)
	seed, member, other := r.fake(0, nil), r.fake(1, nil), r.fake(2, nil)
	r.targets(seed.target(wire.Serve, true), other.target(wire.Serve, false))
	r.run(nil)
	r.await("both admitted", func() bool { return r.verdict(seed.addr).Admitted && r.verdict(other.addr).Admitted })
	old, name := r.who()
	if name != seed.name {
		t.Errorf("served by %s, the local one is %s", name, seed.name)
	}

	// A drained target is better than none at all.
	member.set(func(s *pb.StatusResponse) { s.IsLearner = true })
	r.targets(seed.target(wire.Drain, true), member.target(wire.Serve, true))
	r.await("learner refused", func() bool { return strings.Contains(r.verdict(member.addr).Verdict, "learner") })
	if _, name = r.who(); name != seed.name {
		t.Errorf("with no serving target admitted: served by %s", name)
	}
	member.set(func(s *pb.StatusResponse) { s.IsLearner = false })
	r.await("promoted member admitted", func() bool { return r.verdict(member.addr).Admitted })
	for range 4 {
		if _, name = r.who(); name != member.name {
			t.Errorf("a drained target took a new connection: served by %s", name)
		}
	}
	if !alive(old) {
		t.Error("draining closed a connection untold")
	}
	if n := r.verdict(seed.addr).Connections; n < 1 {
		t.Errorf("status counts %d connections on the drained target", n)
	}
	if err := r.client.CloseDrain(context.Background(), 0xdead); err != nil {
		t.Fatal(err)
	}
	if !alive(old) {
		t.Error("told to close another member's connections, it closed this one's")
	}
	if err := r.client.CloseDrain(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	if !closed(old) {
		t.Error("told to, it did not close what drains")
	}
	r.await("none counted", func() bool { return r.verdict(seed.addr).Connections == 0 })
}

func TestOthersServeInTurn(t *testing.T) {
	r := newRig(t)
	a, b := r.fake(1, nil), r.fake(2, nil)
	r.targets(a.target(wire.Serve, false), b.target(wire.Serve, false))
	r.run(nil)
	r.await("both admitted", func() bool { return r.verdict(a.addr).Admitted && r.verdict(b.addr).Admitted })
	count := map[string]int{}
	for range 8 {
		_, name := r.who()
		count[name]++
	}
	if count[a.name] != 4 || count[b.name] != 4 {
		t.Errorf("connections: %v", count)
	}
	// A dead one costs its clients nothing: the next is tried.
	a.stop()
	for range 4 {
		if _, name := r.who(); name != b.name {
			t.Errorf("served by %s, which is dead", name)
		}
	}
}

// Two misses close the connections of a target where another is admitted, and
// do not where none is.
func TestMissesCloseOnlyWhereAnotherServes(t *testing.T) {
	r := newRig(t)
	a, b := r.fake(0, nil), r.fake(1, nil)
	b.set(func(s *pb.StatusResponse) { s.Leader = 0 })
	r.targets(a.target(wire.Serve, true), b.target(wire.Serve, false))
	r.run(func(c *Config) { c.ProbeEvery = 200 * time.Millisecond })
	r.await("a admitted", func() bool { return r.verdict(a.addr).Admitted })
	c, _ := r.who()
	a.set(func(s *pb.StatusResponse) { s.Leader = 0 })
	r.await("a lost its leader", func() bool { v := r.verdict(a.addr); return !v.Admitted && v.Verdict == "has no leader" })
	if !alive(c) {
		t.Error("closed with no other target admitted")
	}
	b.set(func(s *pb.StatusResponse) { s.Leader = 1; s.Errors = []string{"memberID:1 alarm:NOSPACE"} })
	r.await("b admitted, whatever its alarms", func() bool { return r.verdict(b.addr).Admitted })
	if !closed(c) {
		t.Error("not closed although another is admitted")
	}
}

func TestForeignIDClosesAlways(t *testing.T) {
	for name, change := range map[string]func(*pb.StatusResponse){
		"foreign cluster: found bad, expected c1": func(s *pb.StatusResponse) { s.Header = &pb.ResponseHeader{ClusterId: 0xbad, MemberId: 100} },
		"foreign member: found bad, expected 64": func(s *pb.StatusResponse) {
			s.Header = &pb.ResponseHeader{ClusterId: uint64(testCluster), MemberId: 0xbad}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			f := r.fake(0, nil)
			target := f.target(wire.Serve, true)
			target.MemberID = 100
			r.targets(target)
			r.run(nil)
			c, _ := r.who()
			f.set(change)
			if !closed(c) {
				t.Error("a connection to a foreign etcd stays")
			}
			if v := r.verdict(f.addr); v.Admitted || v.Verdict != name {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

// A connection is held while there is no target, and spliced when one appears;
// one too many is closed, and each when its time is over.
func TestConnectionsAreHeld(t *testing.T) {
	r := newRig(t)
	r.run(func(c *Config) { c.MaxHeld = 2; c.HoldMax = 2 * time.Second })
	early := r.dial()
	early.Write([]byte("\n"))
	second := r.dial()
	r.await("two held", func() bool { return r.status().Held == 2 })
	if !closed(r.dial()) {
		t.Error("a third one is held, two are allowed")
	}
	second.Close()
	f := r.fake(0, nil)
	begun := time.Now()
	r.targets(f.target(wire.Serve, true))
	b := make([]byte, len(f.name))
	if _, err := io.ReadFull(early, b); err != nil || string(b) != f.name {
		t.Fatalf("held connection got %q, %v", b, err)
	}
	t.Logf("served %v after its target was written", time.Since(begun))

	f.stop()
	r.await("not admitted", func() bool { r.dial().Close(); return !r.verdict(f.addr).Admitted })
	r.await("room again", func() bool { return r.status().Held == 0 })
	begun = time.Now()
	if !closed(r.dial()) || time.Since(begun) < 1900*time.Millisecond {
		t.Errorf("closed after %v, expected the 2 s it may be held", time.Since(begun))
	}
}

// Closing one direction leaves the other open (the echo of a half-closed client arrives).
func TestHalfClose(t *testing.T) {
	r := newRig(t)
	f := r.fake(0, func(c net.Conn) {
		defer c.Close()
		b, _ := io.ReadAll(c) // until the client half-closes
		fmt.Fprintf(c, "%d bytes", len(b))
	})
	r.targets(f.target(wire.Serve, true))
	r.run(nil)
	c := r.dial()
	c.Write([]byte("o123"))
	c.CloseWrite()
	if b, err := io.ReadAll(c); err != nil || string(b) != "3 bytes" {
		t.Errorf("%q, %v", b, err)
	}
	r.await("forgotten", func() bool { return r.verdict(f.addr).Connections == 0 })
}

// Run ends when told, with connections open and one held.
func TestStops(t *testing.T) {
	r := newRig(t)
	f := r.fake(0, nil)
	r.targets(f.target(wire.Serve, true))
	stop := r.run(nil)
	c, _ := r.who()
	stop()
	if !closed(c) {
		t.Error("connection left open")
	}
	if _, err := net.Dial("tcp", r.proxyAddr()); err == nil {
		t.Error("still listening")
	}
	r.run(nil) // lock, address and socket are free again
}

func TestLongStatePathAndOwnListener(t *testing.T) {
	r := newRig(t)
	r.id.StateDir = r.id.StateDir + "/" + strings.Repeat("long-", 30)
	r.client = Client{Sock: r.id.State(wire.FileProxySock)}
	if err := os.MkdirAll(r.id.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", r.prefix+"22:0")
	if err != nil {
		t.Fatal(err)
	}
	r.run(func(c *Config) { c.Listener = ln })
	if s := r.status(); s.Listen != ln.Addr().String() {
		t.Errorf("listens on %s, given %s", s.Listen, ln.Addr())
	}
}

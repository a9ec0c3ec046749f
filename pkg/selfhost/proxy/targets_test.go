package proxy

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// What cannot be used leaves the last good targets in force and is told; a
// restart starts from those.
func TestBadTargetsFiles(t *testing.T) {
	r := newRig(t)
	a, b := r.fake(0, nil), r.fake(1, nil)
	r.serial = 6
	r.targets(a.target(wire.Serve, true)) // serial 7
	stop := r.run(nil)
	r.await("admitted", func() bool { return r.verdict(a.addr).Admitted })
	if e := r.status().Error; e != "" {
		t.Errorf("error %q with a good file", e)
	}
	good := wire.Targets{V: wire.V, Serial: 8, Epoch: 1, ClusterID: testCluster, Targets: []wire.ProxyTarget{b.target(wire.Serve, true)}}
	with := func(change func(*wire.Targets)) func() {
		ts := good
		change(&ts)
		return func() { r.write(ts) }
	}
	file := r.id.State(wire.FileTargets)
	for _, c := range []struct {
		name, says string
		write      func()
	}{
		{"torn", "not readable as JSON", func() { os.WriteFile(file, []byte(`{"v":1,"serial":8,"tar`), 0o600) }},
		{"empty", "not readable as JSON (0 bytes)", func() { os.WriteFile(file, nil, 0o600) }},
		{"newer version", "format version 2", with(func(t *wire.Targets) { t.V = 2 })},
		{"older serial", "serial goes back: found 6, in force is 7", with(func(t *wire.Targets) { t.Serial = 6 })},
		{"same serial, other content", "two contents under serial 7", with(func(t *wire.Targets) { t.Serial = 7 })},
		{"older epoch", "epoch goes back", with(func(t *wire.Targets) { t.Epoch = 0 })},
		{"no cluster", "no cluster ID", with(func(t *wire.Targets) { t.ClusterID = 0 })},
		{"no port", "not host:port", with(func(t *wire.Targets) { t.Targets = []wire.ProxyTarget{{Address: "x", Mode: wire.Serve}} })},
		{"strange mode", "mode \"gone\"", with(func(t *wire.Targets) { t.Targets = []wire.ProxyTarget{{Address: "x:1", Mode: "gone"}} })},
		{"gone", "does not exist", func() { os.Remove(file) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.write()
			r.await(c.says, func() bool { return strings.Contains(r.status().Error, c.says) })
			if s := r.status(); s.Serial != 7 || len(s.Targets) != 1 || !s.Targets[0].Admitted || s.Targets[0].Address != a.addr {
				t.Errorf("in force: %+v", s)
			}
		})
	}
	stop()
	os.WriteFile(file, []byte("{"), 0o600)
	r.run(nil)
	r.await("last good file in force at start", func() bool { return r.verdict(a.addr).Admitted })
	with(func(t *wire.Targets) { t.Serial = 6 })()
	r.await("a serial below the last good one", func() bool { return strings.Contains(r.status().Error, "serial goes back") })
	begun := time.Now()
	with(func(*wire.Targets) {})()
	r.await("good again", func() bool { s := r.status(); return s.Serial == 8 && s.Error == "" })
	if d := time.Since(begun); d > time.Second {
		t.Errorf("the change was seen after %v: by the poll, not by the watch", d)
	}
}

// Another cluster under the same addresses ends the old connections at once;
// an entry no longer listed keeps them until another is admitted.
func TestTargetsNoLongerListed(t *testing.T) {
	r := newRig(t)
	a, b := r.fake(0, nil), r.fake(1, nil)
	r.targets(a.target(wire.Serve, true))
	r.run(nil)
	c, _ := r.who()
	b.stop()
	r.targets(b.target(wire.Serve, true))
	r.await("b in force, silent", func() bool { return strings.Contains(r.verdict(b.addr).Verdict, "does not answer") })
	if !alive(c) {
		t.Fatal("closed before another target was admitted")
	}
	b.listen(r, b.echo)
	r.await("b admitted", func() bool { return r.verdict(b.addr).Admitted })
	if !closed(c) {
		t.Error("the connection to what is no longer listed stays")
	}
	c, _ = r.who()
	r.serial++
	r.write(wire.Targets{V: wire.V, Serial: r.serial, Epoch: 2, ClusterID: testCluster + 1, Targets: []wire.ProxyTarget{b.target(wire.Serve, true)}})
	if !closed(c) {
		t.Error("the connection to the old epoch's cluster stays")
	}
}

package agent

import (
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// desk is the grant of one agent with a clock by hand; take does what the
// agent's RPC does, without a disk.
type desk struct {
	t   *testing.T
	g   grant
	now time.Time
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, now: time.Unix(1000, 0)}
	d.g = restored(fenceFile{V: 1}, DefaultGrantTTL, d.now)
	return d
}

func (d *desk) take(driver string, number, round uint64, want string) {
	d.t.Helper()
	in := wire.GrantRequest{V: 1, Driver: driver, DriverName: driver, Number: number, Round: round}
	renewal, r := d.g.check(in, d.now)
	if got := name(r); got != want {
		d.t.Fatalf("take %s %d.%d: got %q (%v), want %q", driver, number, round, got, r, want)
	}
	if r == nil {
		f := d.g.fence
		if !renewal {
			f = fenceFile{V: 1, Number: number, Holder: driver, HolderName: driver}
		}
		d.g.set(f, in, DefaultGrantTTL, d.now)
	}
}

func (d *desk) act(driver string, number, round uint64, want string) {
	d.t.Helper()
	_, r := d.g.act(wire.Act{V: 1, Driver: driver, Number: number, Round: round}, d.now)
	if got := name(r); got != want {
		d.t.Fatalf("act %s %d.%d: got %q (%v), want %q", driver, number, round, got, r, want)
	}
}

func (d *desk) pass(t time.Duration) { d.now = d.now.Add(t) }
func (d *desk) restart()             { d.g = restored(d.g.fence, DefaultGrantTTL, d.now) }
func (d *desk) drop()                { d.g.setDropped(d.g.dropped()) }

func name(r *wire.Refusal) string {
	if r == nil {
		return ""
	}
	return r.Name
}

func TestGrantStories(t *testing.T) {
	for _, tc := range []struct {
		name  string
		story func(d *desk)
	}{
		{"another waits until the grant is over, and needs a higher number", func(d *desk) {
			d.take("a", 5, 1, "")
			d.take("b", 6, 1, "GrantHeld")
			d.pass(DefaultGrantTTL - 1)
			d.take("b", 6, 1, "GrantHeld")
			d.pass(1)
			d.take("b", 5, 1, "EqualNumber")
			d.take("b", 4, 1, "LowerNumber")
			d.take("b", 6, 1, "")
			d.act("a", 5, 1, "NoGrant")
			d.act("b", 6, 1, "")
		}},
		{"a renewal lengthens, and only a higher round is one", func(d *desk) {
			d.take("a", 1, 1, "")
			d.pass(9 * time.Second)
			d.take("a", 1, 2, "")
			d.take("a", 1, 2, "LowerRound")
			d.take("a", 1, 1, "LowerRound")
			d.pass(9 * time.Second)
			d.take("b", 2, 1, "GrantHeld")
			d.take("a", 1, 3, "")
		}},
		{"an act names a round answered less than 7 s ago", func(d *desk) {
			d.take("a", 1, 1, "")
			d.act("a", 1, 2, "StaleRound")
			d.pass(3 * time.Second)
			d.take("a", 1, 2, "")
			d.act("a", 1, 1, "")
			d.pass(4 * time.Second)
			d.act("a", 1, 1, "StaleRound")
			d.act("a", 1, 2, "")
			d.pass(3 * time.Second)
			d.act("a", 1, 2, "StaleRound")
			d.pass(4 * time.Second)
			d.act("a", 1, 2, "NoGrant")
		}},
		{"a renewal that came late, after the end, is one still", func(d *desk) {
			d.take("a", 1, 1, "")
			d.pass(time.Minute)
			d.act("a", 1, 1, "NoGrant")
			d.take("a", 1, 2, "")
			d.act("a", 1, 2, "")
		}},
		{"a take that arrives late, after another's, is refused", func(d *desk) {
			d.take("b", 6, 1, "")
			d.take("a", 5, 1, "LowerNumber")
			d.take("a", 6, 1, "EqualNumber")
			d.act("a", 6, 1, "NoGrant")
			d.act("b", 6, 1, "")
		}},
		{"a late take at this agent alone gives no act under another's number", func(d *desk) {
			d.take("a", 5, 1, "")
			d.act("b", 5, 1, "NoGrant")
			d.act("a", 6, 1, "NoGrant")
			d.act("", 5, 1, "NoGrant")
		}},
		{"the same holder takes over at once with a higher number", func(d *desk) {
			d.take("a", 1, 1, "")
			d.take("a", 1, 2, "")
			d.take("a", 2, 1, "")
			d.act("a", 1, 2, "NoGrant") // its predecessor's one RPC under way
			d.act("a", 2, 2, "StaleRound")
			d.act("a", 2, 1, "")
		}},
		{"after a restart the grant is fresh and no round counts", func(d *desk) {
			d.take("a", 3, 7, "")
			d.pass(9 * time.Second)
			d.restart()
			d.pass(9 * time.Second)
			d.act("a", 3, 7, "StaleRound")
			d.take("b", 4, 1, "GrantHeld")
			d.take("a", 3, 8, "")
			d.act("a", 3, 8, "")
			d.restart()
			d.pass(DefaultGrantTTL)
			d.take("b", 3, 1, "EqualNumber")
			d.take("b", 4, 1, "")
		}},
		{"dropped is free at once, also after a restart, and its number is used up", func(d *desk) {
			d.take("a", 1, 1, "")
			d.drop()
			d.act("a", 1, 1, "NoGrant")
			d.take("a", 1, 2, "GrantDropped")
			d.restart()
			d.take("b", 1, 1, "EqualNumber")
			d.take("b", 2, 1, "")
		}},
		{"nothing is granted to nobody", func(d *desk) {
			d.take("", 1, 1, "BadGrant")
			d.take("a", 0, 1, "BadGrant")
			d.take("a", 1, 0, "BadGrant")
			d.act("", 0, 0, "NoGrant")
			d.act("a", 0, 0, "NoGrant")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.story(newDesk(t)) })
	}
}

// An act's work ends before the grant that its round gave could be another's.
func TestActEndsWithTheGrant(t *testing.T) {
	d := newDesk(t)
	d.take("a", 1, 1, "")
	given := d.now
	d.pass(3 * time.Second)
	d.take("a", 1, 2, "")
	if until, r := d.g.act(wire.Act{Driver: "a", Number: 1, Round: 1}, d.now); r != nil || !until.Equal(given.Add(DefaultGrantTTL)) {
		t.Errorf("until %s, %v", until, r)
	}
}

func TestClampTTL(t *testing.T) {
	for in, want := range map[int64]time.Duration{0: DefaultGrantTTL, -1: DefaultGrantTTL, 1: minGrantTTL, 3000: 3 * time.Second, 1 << 62: maxGrantTTL} {
		if got := clampTTL(in, DefaultGrantTTL); got != want {
			t.Errorf("clampTTL(%d) = %s, want %s", in, got, want)
		}
	}
}

// What an agent reports names the holder of its number also when the time is
// over, so that equal numbers of two holders differ.
func TestFenceReport(t *testing.T) {
	d := newDesk(t)
	d.take("a", 1, 1, "")
	if f := d.g.report("cp-1", wire.Epoch{}, d.now); f.LeftMillis != 10000 || f.Holder != "a" {
		t.Errorf("%+v", f)
	}
	d.pass(DefaultGrantTTL)
	if f := d.g.report("cp-1", wire.Epoch{}, d.now); f.LeftMillis != 0 || f.Holder != "a" || f.Number != 1 {
		t.Errorf("%+v", f)
	}
}

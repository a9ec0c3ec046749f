package agent

import (
	"fmt"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// DefaultGrantTTL is how long a grant lasts after each renewal (DESIGN "Who may drive").
const DefaultGrantTTL = 10 * time.Second

// Bounds of a TTL that a driver may ask for.
const (
	minGrantTTL = time.Second
	maxGrantTTL = time.Minute
)

// keptRounds is how many rounds' answer times are kept: acts of the round
// before may still be under way when the next is answered.
const keptRounds = 4

// RoundUse is for how long after its answer a round may be used for acts: 7 s
// of a grant of 10 s. A round counts for agents that answered within 2 s, so
// an act ends its use at 9 s at the latest, before any grant of its majority.
func RoundUse(ttl time.Duration) time.Duration { return ttl * 7 / 10 }

// grant is who may drive here. It has no lock and does no I/O: check decides,
// the caller makes the outcome durable, then sets it (the answer comes last).
type grant struct {
	fence   fenceFile
	ttl     time.Duration
	expires time.Time // of the agent's monotonic clock
	rounds  map[uint64]time.Time
	top     uint64 // highest round answered under fence.Number
}

// fenceFile is STATE/fence.json. It must be durable BEFORE the grant is answered.
type fenceFile struct {
	V          int    `json:"v"`
	Number     uint64 `json:"number"`
	Holder     string `json:"holder,omitempty"`
	HolderName string `json:"holderName,omitempty"`
	TTLMillis  int64  `json:"ttlMillis,omitempty"`
	// Free: the holder dropped the grant; nobody need wait for it.
	Free bool `json:"free,omitempty"`
	// Adopt is the epoch and spec taken in the same write as the first grant
	// (DESIGN "Epoch"); epoch.json and spec.json are written from it after.
	Adopt *adoption `json:"adopt,omitempty"`
}

type adoption struct {
	Epoch wire.Epoch `json:"epoch"`
	Spec  wire.Spec  `json:"spec"`
}

// restored is the grant after a restart: a stored one counts as fresh, and no
// round of before may be used.
func restored(f fenceFile, def time.Duration, now time.Time) grant {
	g := grant{fence: f, ttl: clampTTL(f.TTLMillis, def), rounds: map[uint64]time.Time{}}
	if f.Holder != "" && !f.Free {
		g.expires = now.Add(g.ttl)
	}
	return g
}

func clampTTL(millis int64, def time.Duration) time.Duration {
	if millis <= 0 {
		return def
	}
	// Compared as milliseconds first: a huge number would overflow a Duration.
	return time.Duration(min(max(millis, minGrantTTL.Milliseconds()), maxGrantTTL.Milliseconds())) * time.Millisecond
}

func (g *grant) live(now time.Time) bool {
	return g.fence.Holder != "" && !g.fence.Free && now.Before(g.expires)
}

// check says whether in may be granted, and whether as a renewal (nothing to
// store). It changes nothing.
func (g *grant) check(in wire.GrantRequest, now time.Time) (renewal bool, r *wire.Refusal) {
	f := g.fence
	refuse := func(name, want, found string) (bool, *wire.Refusal) {
		return false, &wire.Refusal{Name: name, Want: want, Found: found, Cites: `DESIGN "Who may drive"`}
	}
	switch {
	case in.Driver == "" || in.Number == 0 || in.Round == 0:
		return refuse("BadGrant", "driver, number and round", fmt.Sprintf("driver %q, number %d, round %d", in.Driver, in.Number, in.Round))
	case in.Number < f.Number:
		return refuse("LowerNumber", fmt.Sprintf("a number above %d", f.Number), fmt.Sprintf("number %d", in.Number))
	case in.Number == f.Number && in.Driver != f.Holder:
		return refuse("EqualNumber", fmt.Sprintf("a number above %d, which belongs to %s", f.Number, f.HolderName), fmt.Sprintf("number %d", in.Number))
	case in.Number == f.Number && f.Free:
		return refuse("GrantDropped", fmt.Sprintf("a number above %d, which was dropped", f.Number), fmt.Sprintf("number %d", in.Number))
	case in.Number == f.Number && in.Round <= g.top:
		return refuse("LowerRound", fmt.Sprintf("a round above %d", g.top), fmt.Sprintf("round %d", in.Round))
	case in.Number == f.Number:
		return true, nil
	case g.live(now) && f.Holder != in.Driver:
		return refuse("GrantHeld", "no live grant of another driver",
			fmt.Sprintf("%s holds number %d for another %s", f.HolderName, f.Number, g.expires.Sub(now).Round(time.Millisecond)))
	}
	return false, nil
}

// set takes what check allowed; a takeover must be durable by now.
func (g *grant) set(f fenceFile, in wire.GrantRequest, def time.Duration, now time.Time) {
	if f.Number != g.fence.Number {
		g.rounds, g.top = map[uint64]time.Time{}, 0
	}
	g.fence = f
	g.ttl = clampTTL(in.TTLMillis, def)
	g.expires = now.Add(g.ttl)
	g.top = in.Round
	g.rounds[in.Round] = now
	for r := range g.rounds {
		if r+keptRounds <= g.top {
			delete(g.rounds, r)
		}
	}
}

// act says whether a mutating RPC may go ahead, and until when the work it
// starts must be over (the end of the grant that its round gave).
func (g *grant) act(a wire.Act, now time.Time) (until time.Time, r *wire.Refusal) {
	f := g.fence
	if a.Driver == "" || a.Driver != f.Holder || a.Number != f.Number || !g.live(now) {
		found := "no live grant"
		if g.live(now) {
			found = fmt.Sprintf("number %d of %s", f.Number, f.HolderName)
		} else if f.Number > a.Number {
			found = fmt.Sprintf("no live grant, and number %d was granted since", f.Number)
		}
		return until, &wire.Refusal{Name: "NoGrant", Want: fmt.Sprintf("a live grant of number %d to this driver", a.Number), Found: found, Cites: `DESIGN "Who may drive"`}
	}
	at, ok := g.rounds[a.Round]
	if !ok || now.Sub(at) >= RoundUse(g.ttl) {
		found := "no answer to that round"
		if ok {
			found = fmt.Sprintf("answered %s ago", now.Sub(at).Round(time.Millisecond))
		}
		return until, &wire.Refusal{Name: "StaleRound", Want: fmt.Sprintf("round %d answered here less than %s ago", a.Round, RoundUse(g.ttl)), Found: found, Cites: `DESIGN "Who may drive"`}
	}
	return at.Add(g.ttl), nil
}

// dropped is the fence file after the holder dropped its grant.
func (g *grant) dropped() fenceFile {
	f := g.fence
	f.Free = true
	return f
}

func (g *grant) setDropped(f fenceFile) {
	g.fence, g.expires, g.rounds = f, time.Time{}, map[uint64]time.Time{}
}

// report is the wire form.
func (g *grant) report(node string, epoch wire.Epoch, now time.Time) wire.Fence {
	// The holder is named also when its time is over: equal numbers of two
	// holders must be told apart by whoever asks (the fence check).
	f := wire.Fence{V: wire.V, Node: node, Epoch: epoch, Number: g.fence.Number, Holder: g.fence.Holder, HolderName: g.fence.HolderName}
	if g.live(now) {
		f.LeftMillis = max(1, g.expires.Sub(now).Milliseconds())
	}
	return f
}

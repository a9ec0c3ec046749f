package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
)

// tellEvery is how long nothing may be said during a wait or a long step.
const tellEvery = 2 * time.Second

// pivotPrinter tells a run: a line per step, and what the learners hold, as
// bars on a terminal and as lines elsewhere. It prints from a goroutine of its
// own: a slow terminal must not come between two steps.
type pivotPrinter struct {
	out   io.Writer
	bars  *bars // nil: no terminal
	now   func() time.Time
	notes chan note
	done  chan struct{}

	// Of the goroutine alone:
	start, said time.Time // said: when the last line was printed
	step        string    // under way; empty: none
	since       time.Time
	eta         map[string]sample
}

// note is an event as far as it is printed.
type note struct {
	driver.Event
	at       time.Time
	learners []catchUp
	looked   bool // learners are known
}

// sample is where a learner was when it was first seen.
type sample struct {
	at   time.Time
	have uint64
}

func newPivotPrinter(out io.Writer, now func() time.Time) *pivotPrinter {
	p := &pivotPrinter{out: out, now: now, notes: make(chan note, 1024), done: make(chan struct{}), eta: map[string]sample{}, start: now()}
	p.said = p.start
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bars = &bars{raw: out}
		p.out = p.bars // lines go above the bars
	}
	return p
}

// event takes one event of the driver.
func (p *pivotPrinter) event(e driver.Event) { p.notes <- p.note(e) }

// note keeps of an event what is needed, so that the look is the driver's alone.
func (p *pivotPrinter) note(e driver.Event) note {
	n := note{Event: e, at: p.now(), looked: e.View != nil}
	if e.View != nil {
		n.learners = catchUps(e.View)
	}
	n.View = nil
	return n
}

// run prints until close.
func (p *pivotPrinter) run() {
	defer close(p.done)
	t := time.NewTicker(tellEvery / 4)
	defer t.Stop()
	for {
		select {
		case n, ok := <-p.notes:
			if !ok {
				if p.bars != nil {
					p.bars.end()
				}
				return
			}
			p.print(n)
		case <-t.C:
			p.heard(p.now())
		}
	}
}

// close waits until everything is printed; what follows goes to the terminal itself.
func (p *pivotPrinter) close() {
	close(p.notes)
	<-p.done
}

func (p *pivotPrinter) print(n note) {
	switch n.Kind {
	case driver.EventStep:
		p.step, p.since = n.Step.String(), n.at
	case driver.EventDone:
		p.step = ""
		if n.Step.Kind != pivot.Done {
			p.line(n.at, "%s: %s (%.2f s)", n.Step, n.Step.Why, n.Took.Seconds())
		}
	case driver.EventFailed:
		p.step = ""
		p.line(n.at, "%s did not work, looking again: %v", n.Step, n.Err)
	case driver.EventWait:
		for _, r := range n.Refusals {
			p.line(n.at, "%s", r)
		}
	}
	if n.looked {
		p.progress(n)
	}
}

// line prints one line with the time since the start.
func (p *pivotPrinter) line(at time.Time, format string, args ...any) {
	p.said = at
	fmt.Fprintf(p.out, "%7.2f s  %s\n", at.Sub(p.start).Seconds(), oneLine(fmt.Sprintf(format, args...)))
}

// heard says what takes so long when nothing was said for a while.
func (p *pivotPrinter) heard(at time.Time) {
	if p.step != "" && at.Sub(p.said) >= tellEvery {
		p.line(at, "%s: under way for %.0f s", p.step, at.Sub(p.since).Seconds())
	}
}

// catchUp is how far one learner is.
type catchUp struct {
	node       string
	have, want uint64 // log entries applied, of the leader's
}

// catchUps lists the learners of a look, in the order of the member list.
func catchUps(v *driver.View) []catchUp {
	_, leader := v.SlotOfMember(v.Leader)
	if leader == nil || leader.Etcd == nil {
		return nil
	}
	var out []catchUp
	for _, m := range v.State.Learners() {
		c := catchUp{node: m.Node, want: leader.Etcd.Index}
		if n := v.Node(m.Node); n != nil && n.Obs != nil {
			if sl := n.Obs.SlotOf(slotOf(m)); sl != nil && sl.Etcd != nil {
				c.have = min(sl.Etcd.Applied, c.want)
			}
		}
		out = append(out, c)
	}
	return out
}

// progress shows what the learners hold: bars, or lines every two seconds of a wait.
func (p *pivotPrinter) progress(n note) {
	if p.bars != nil {
		p.bars.show(n.learners)
		return
	}
	due := n.Kind == driver.EventSync && n.at.Sub(p.said) >= tellEvery
	for _, c := range n.learners {
		if _, ok := p.eta[c.node]; !ok {
			p.eta[c.node] = sample{n.at, c.have}
		}
		if due {
			p.line(n.at, "learner on %s holds %d of %d entries (%d %%)%s", c.node, c.have, c.want, percent(c.have, c.want), p.left(c, n.at))
		}
	}
	if due && len(n.learners) == 0 {
		p.line(n.at, "still waiting")
	}
}

func percent(have, want uint64) uint64 {
	if want == 0 {
		return 0
	}
	return have * 100 / want
}

// left guesses the time to the leader's index from the rate so far.
func (p *pivotPrinter) left(c catchUp, at time.Time) string {
	first := p.eta[c.node]
	took := at.Sub(first.at)
	switch {
	case c.have >= c.want:
		return ""
	case c.have == 0:
		return ", receiving the database"
	case c.have <= first.have || took <= 0:
		return ""
	}
	per := float64(took) / float64(c.have-first.have)
	return fmt.Sprintf(", about %s left", time.Duration(per*float64(c.want-c.have)).Round(time.Second))
}

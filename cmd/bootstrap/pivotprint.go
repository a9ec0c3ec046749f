package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
)

// tellEvery is how long nothing may be said during a wait or a long step.
const tellEvery = 2 * time.Second

// pivotPrinter tells a run: a line per step, and what the learners hold, as
// bars on a terminal and as lines elsewhere.
type pivotPrinter struct {
	mu    sync.Mutex
	out   io.Writer
	now   func() time.Time
	start time.Time
	said  time.Time // when the last line was printed

	step  string // under way; empty: none
	since time.Time
	eta   map[string]sample

	bars  *mpb.Progress // nil: no terminal
	bar   map[string]*mpb.Bar
	ended bool
}

// sample is where a learner was when it was first seen.
type sample struct {
	at   time.Time
	have uint64
}

func newPivotPrinter(out io.Writer) *pivotPrinter {
	p := &pivotPrinter{out: out, now: time.Now, eta: map[string]sample{}, bar: map[string]*mpb.Bar{}}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(40))
		p.out = p.bars // lines go above the bars
	}
	p.start = p.now()
	p.said = p.start
	return p
}

func (p *pivotPrinter) event(e driver.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case driver.EventStep:
		p.step, p.since = e.Step.String(), p.now()
	case driver.EventDone:
		p.step = ""
		if e.Step.Kind != pivot.Done {
			p.line("%s: %s (%.2f s)", e.Step, e.Step.Why, e.Took.Seconds())
		}
	case driver.EventFailed:
		p.step = ""
		p.line("%s did not work, looking again: %v", e.Step, e.Err)
	case driver.EventWait:
		for _, r := range e.Refusals {
			p.line("%s", r)
		}
	}
	if e.View != nil {
		p.progress(catchUps(e.View), e.Kind == driver.EventSync)
	}
}

// line prints one line with the time since the start.
func (p *pivotPrinter) line(format string, args ...any) {
	p.said = p.now()
	fmt.Fprintf(p.out, "%7.2f s  %s\n", p.said.Sub(p.start).Seconds(), oneLine(fmt.Sprintf(format, args...)))
}

// tick says every two seconds what takes so long, until stop is called.
func (p *pivotPrinter) tick(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	t := time.NewTicker(tellEvery / 4)
	go func() {
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				p.mu.Lock()
				if p.step != "" && p.now().Sub(p.said) >= tellEvery {
					p.line("%s: under way for %.0f s", p.step, p.now().Sub(p.since).Seconds())
				}
				p.mu.Unlock()
			}
		}
	}()
	return cancel
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
func (p *pivotPrinter) progress(now []catchUp, waiting bool) {
	if p.bars != nil {
		p.drawBars(now)
		return
	}
	due := waiting && p.now().Sub(p.said) >= tellEvery
	for _, c := range now {
		if _, ok := p.eta[c.node]; !ok {
			p.eta[c.node] = sample{p.now(), c.have}
		}
		if due {
			p.line("learner on %s holds %d of %d entries (%d %%)%s", c.node, c.have, c.want, percent(c.have, c.want), p.left(c))
		}
	}
	if due && len(now) == 0 {
		p.line("still waiting")
	}
}

func percent(have, want uint64) uint64 {
	if want == 0 {
		return 0
	}
	return have * 100 / want
}

// left guesses the time to the leader's index from the rate so far.
func (p *pivotPrinter) left(c catchUp) string {
	first := p.eta[c.node]
	took := p.now().Sub(first.at)
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

func (p *pivotPrinter) drawBars(now []catchUp) {
	if p.ended {
		return
	}
	seen := map[string]bool{}
	for _, c := range now {
		seen[c.node] = true
		b := p.bar[c.node]
		if b == nil {
			b = p.bars.AddBar(int64(c.want),
				mpb.PrependDecorators(decor.Name(c.node+" "), decor.CountersNoUnit("%d of %d entries", decor.WCSyncSpace)),
				mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Name("  ETA "), decor.AverageETA(decor.ET_STYLE_GO)),
				mpb.BarRemoveOnComplete())
			p.bar[c.node] = b
		}
		// One more than held: a bar that is full is over, and a learner is not until it is promoted.
		b.SetTotal(int64(max(c.want, c.have+1)), false)
		b.SetCurrent(int64(c.have))
	}
	for node, b := range p.bar {
		if !seen[node] {
			b.Abort(true)
			delete(p.bar, node)
		}
	}
}

// close takes the bars away; lines may follow on the terminal itself.
func (p *pivotPrinter) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.bars == nil {
		return
	}
	for _, b := range p.bar {
		b.Abort(true)
	}
	p.bars.Wait()
}

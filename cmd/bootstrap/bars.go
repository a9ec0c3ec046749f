package main

import (
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// bars draws one progress bar per learner at the end of a terminal; what is
// written to it appears above them. It draws only when told to: mpb's own
// ticker would lose lines that are written just before its end.
type bars struct {
	raw io.Writer
	// draw asks live for a redraw; both exist only while there are learners.
	live *mpb.Progress
	draw chan any
	bar  map[string]*mpb.Bar
}

// Write prints above the bars.
func (b *bars) Write(line []byte) (int, error) {
	if b.live == nil {
		return b.raw.Write(line)
	}
	if n, err := b.live.Write(line); err != nil {
		b.end()
		return b.raw.Write(line[n:])
	}
	b.redraw()
	return len(line), nil
}

// show draws what the learners hold now; with none, the bars go away.
func (b *bars) show(now []catchUp) {
	if len(now) == 0 {
		b.end()
		return
	}
	if b.live == nil {
		b.draw, b.bar = make(chan any), map[string]*mpb.Bar{}
		b.live = mpb.New(mpb.WithOutput(b.raw), mpb.WithWidth(40), mpb.WithManualRefresh(b.draw))
	}
	seen := map[string]bool{}
	for _, c := range now {
		seen[c.node] = true
		bar := b.bar[c.node]
		if bar == nil {
			bar = b.live.AddBar(0, // a bar that never completes by itself: a learner is one until it is promoted
				mpb.PrependDecorators(decor.Name(c.node+" ", decor.WCSyncSpaceR), decor.CountersNoUnit("%d of %d entries ", decor.WCSyncSpace)),
				mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Name("  ETA "), decor.AverageETA(decor.ET_STYLE_GO)))
			b.bar[c.node] = bar
		}
		bar.SetTotal(int64(c.want), false)
		bar.SetCurrent(int64(c.have))
	}
	for node, bar := range b.bar {
		if !seen[node] {
			bar.Abort(true)
			delete(b.bar, node)
		}
	}
	b.redraw()
}

// redraw waits until the drawing before this one is on the screen. A container
// that gave up (no size of the terminal to be had) takes no more requests.
func (b *bars) redraw() {
	select {
	case b.draw <- time.Now():
	case <-time.After(time.Second):
		b.end()
	}
}

// end takes the bars away; lines go to the terminal itself from now on.
func (b *bars) end() {
	if b.live == nil {
		return
	}
	for _, bar := range b.bar {
		bar.Abort(true)
	}
	// Two requests: when the second is taken, the first has been drawn, and the
	// container ends only after the second was.
	for range 2 {
		select {
		case b.draw <- time.Now():
		case <-time.After(time.Second):
		}
	}
	b.live.Shutdown()
	b.live = nil
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
)

// watch is `status --watch`: it ends with ctx only, since agents may come back.
func (a *app) watch(ctx context.Context, d *driver.Driver, out string) error {
	w := newWatcher(a.stdout)
	for {
		r, err := look(ctx, d)
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C is how a watch ends
		case out == "json" && err == nil:
			if err := writeJSON(a.stdout, r); err != nil {
				return err
			}
		case out == "json":
			fmt.Fprintln(a.stderr, err) // stdout is for programs
		case err != nil:
			w.show(time.Now(), wrapLines(err.Error()))
		default:
			w.show(r.Time, r.text())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

// wrapLines breaks each line of s at the page's width.
func wrapLines(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		in := len(line) - len(strings.TrimLeft(line, " "))
		b.WriteString(wrap(line, in) + "\n")
	}
	return b.String()
}

// watcher shows one text after the other. On a terminal each takes the place of
// the one before: only lines that changed are written, so nothing flickers and
// what a person marked stays marked. Elsewhere a text is printed when it
// differs from the one before, under the time of the look.
type watcher struct {
	out io.Writer
	// size of the terminal in columns and lines; nil where there is none.
	size func() (w, h int)
	// shown are the lines on the screen, below the header.
	shown         []string
	width, height int
	last          string
	since         time.Time
}

func newWatcher(out io.Writer) *watcher {
	w := &watcher{out: out}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		w.size = func() (int, int) {
			cols, lines, err := term.GetSize(int(f.Fd()))
			if err != nil || cols < 20 || lines < 3 {
				return width, 24
			}
			return cols, lines
		}
	}
	return w
}

func (w *watcher) show(at time.Time, text string) {
	changed := text != w.last
	if changed {
		w.last, w.since = text, at
	}
	if w.size == nil {
		if changed {
			fmt.Fprintf(w.out, "--- %s\n%s\n", at.UTC().Format(time.DateTime+" UTC"), text)
		}
		return
	}
	w.redraw(w.header(at), strings.Split(strings.TrimRight(text, "\n"), "\n"))
}

// header says when was looked, and for how long nothing changed.
func (w *watcher) header(at time.Time) string {
	s := fmt.Sprintf("%s  every %s, Ctrl-C ends", at.UTC().Format(time.DateTime+" UTC"), watchEvery)
	if still := at.Sub(w.since).Round(time.Second); still > 0 {
		s += fmt.Sprintf(", unchanged for %s", still)
	}
	return s
}

// redraw writes what differs from the screen, in one write.
func (w *watcher) redraw(header string, lines []string) {
	cols, rows := w.size()
	if over := len(lines) - (rows - 2); over > 0 {
		lines = append(lines[:rows-3:rows-3], fmt.Sprintf("… %d lines more; a higher window shows them", over+1))
	}
	var b strings.Builder
	if cols != w.width || rows != w.height {
		b.WriteString("\x1b[2J") // first, or of another size: whatever was there goes
		w.shown, w.width, w.height = nil, cols, rows
	}
	line := func(n int, s string) {
		fmt.Fprintf(&b, "\x1b[%d;1H%s", n, cut(s, cols))
		if runes(s) < cols { // in the last column it would take the last letter
			b.WriteString("\x1b[K")
		}
	}
	line(1, header)
	for i, s := range lines {
		if i >= len(w.shown) || w.shown[i] != s {
			line(i+2, s)
		}
	}
	for i := len(lines); i < len(w.shown); i++ {
		line(i+2, "")
	}
	w.shown = lines
	// The cursor rests below, where Ctrl-C leaves the prompt.
	fmt.Fprintf(&b, "\x1b[%d;1H", min(len(lines)+2, rows))
	_, _ = io.WriteString(w.out, b.String()) // a terminal that went away ends the process
}

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// screen is a terminal that knows what a watcher may write: text, "go to line N",
// "clear to the end of the line" and "clear all". Anything else fails the test.
type screen struct {
	t          *testing.T
	cols       int
	rows       [][]rune
	row, col   int
	lastLength int // of the write before, in bytes
}

func newScreen(t *testing.T, cols, rows int) *screen {
	return &screen{t: t, cols: cols, rows: make([][]rune, rows)}
}

func (s *screen) Write(b []byte) (int, error) {
	s.lastLength = len(b)
	for rest := string(b); rest != ""; {
		var n int
		switch {
		case strings.HasPrefix(rest, "\x1b[2J"):
			clear(s.rows)
			rest = rest[4:]
		case strings.HasPrefix(rest, "\x1b[K"):
			if s.col == s.cols {
				s.t.Fatalf("clears the last letter of %q", string(s.rows[s.row]))
			}
			s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
			rest = rest[3:]
		case strings.HasPrefix(rest, "\x1b["):
			if _, err := fmt.Sscanf(rest, "\x1b[%d;1H", &n); err != nil || n < 1 || n > len(s.rows) {
				s.t.Fatalf("%q, on a screen of %d lines", rest[:8], len(s.rows))
			}
			s.row, s.col = n-1, 0
			rest = rest[strings.IndexByte(rest, 'H')+1:]
		default:
			text, after, _ := strings.Cut(rest, "\x1b")
			if after != "" {
				after = "\x1b" + after
			}
			for _, r := range text {
				if r < ' ' || s.col >= s.cols {
					s.t.Fatalf("%q beyond column %d", text, s.cols)
				}
				if s.col < len(s.rows[s.row]) {
					s.rows[s.row][s.col] = r
				} else {
					s.rows[s.row] = append(s.rows[s.row], r)
				}
				s.col++
			}
			rest = after
		}
	}
	return len(b), nil
}

func (s *screen) String() string {
	var lines []string
	for _, r := range s.rows {
		lines = append(lines, string(r))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

func TestWatchOnATerminal(t *testing.T) {
	s := newScreen(t, 80, 10)
	w := &watcher{out: s, size: func() (int, int) { return s.cols, len(s.rows) }}
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	want := func(header string, lines ...string) {
		t.Helper()
		if got := s.String(); got != strings.TrimRight(header+"\n"+strings.Join(lines, "\n"), "\n") {
			t.Errorf("the screen shows\n%s\nwant %s\n%s", got, header, strings.Join(lines, "\n"))
		}
	}
	w.show(at, "quorum held 3/3\n\nindex 15\n")
	want("2030-01-02 03:04:05 UTC  every 2s, Ctrl-C ends", "quorum held 3/3", "", "index 15")
	first := s.lastLength
	w.show(at.Add(4*time.Second), "quorum held 3/3\n\nindex 15\n")
	want("2030-01-02 03:04:09 UTC  every 2s, Ctrl-C ends, unchanged for 4s", "quorum held 3/3", "", "index 15")
	if s.lastLength >= first {
		t.Errorf("what did not change was written again: %d bytes, %d the first time", s.lastLength, first)
	}
	w.show(at.Add(6*time.Second), "no quorum\n\nindex 15, and longer than before\nlast")
	want("2030-01-02 03:04:11 UTC  every 2s, Ctrl-C ends", "no quorum", "", "index 15, and longer than before", "last")
	w.show(at.Add(8*time.Second), "short")
	want("2030-01-02 03:04:13 UTC  every 2s, Ctrl-C ends", "short")
	if s.row != 2 {
		t.Errorf("the cursor rests in line %d", s.row+1)
	}
	// More than the window has, wider than it is, and a window of another size.
	long := strings.Repeat("x\n", 20)
	w.show(at, long)
	want("2030-01-02 03:04:05 UTC  every 2s, Ctrl-C ends", "x", "x", "x", "x", "x", "x", "x", "… 13 lines more; a higher window shows them")
	s.cols, s.rows = 30, make([][]rune, 6)
	w.show(at, strings.Repeat("é", 40))
	want("2030-01-02 03:04:05 UTC  ever…", strings.Repeat("é", 29)+"…")
	w.show(at, strings.Repeat("x", 30))
	want("2030-01-02 03:04:05 UTC  ever…", strings.Repeat("x", 30))
}

// Where there is no terminal, only what changed is printed, under its time.
func TestWatchIntoAFile(t *testing.T) {
	var out bytes.Buffer
	w := newWatcher(&out)
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, text := range []string{"a\n", "a\n", "b\n"} {
		w.show(at.Add(time.Duration(i)*time.Second), text)
	}
	if want := "--- 2030-01-02 03:04:05 UTC\na\n\n--- 2030-01-02 03:04:07 UTC\nb\n\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

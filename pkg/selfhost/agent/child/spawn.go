package child

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
)

// start runs argv in a session of its own, standard input /dev/null, output to
// the log file (never a pipe: its reader would die with the agent).
func start(spec Spec, argv []string) (*exec.Cmd, error) {
	if len(argv) == 0 {
		return nil, fmt.Errorf("%s has no command", spec.Name)
	}
	if err := durable.MkdirAll(filepath.Dir(spec.Log), 0o700); err != nil {
		return nil, err
	}
	if st, err := os.Stat(spec.Log); err == nil && st.Size() > MaxLog {
		if err := os.Rename(spec.Log, spec.Log+".1"); err != nil {
			return nil, err
		}
	}
	out, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", spec.Name, err)
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = Environ(os.Environ())
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return cmd, nil
}

// Environ leaves out every ETCD_* and ETCD_SELFHOST_* variable: each setting
// is an argument, so that the command line of a process is the truth.
func Environ(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "ETCD_") {
			out = append(out, e)
		}
	}
	return out
}

// boundLog sets aside the log of a running process by copying it: the process
// appends, so after the truncation it goes on at the start.
func boundLog(path string) {
	st, err := os.Stat(path)
	if err != nil || st.Size() <= MaxLog {
		return
	}
	if err := copyFile(path, path+".1"); err == nil {
		_ = os.Truncate(path, 0) // tried again at the next look
	}
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// logTail is what the process said last, at most 400 bytes: its last line, or
// where it panicked, what it panicked of and the line before, since a Go
// program's last lines are then its stack.
func logTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, min(st.Size(), 16<<10))
	if _, err := f.ReadAt(b, st.Size()-int64(len(b))); err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	s := lastWords(string(b))
	if len(s) > 400 {
		s = s[:400] + "…"
	}
	return s
}

func lastWords(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "\t") && !strings.HasPrefix(last, "goroutine ") && !strings.HasPrefix(last, "exit status") {
		return strings.TrimSpace(last)
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if !strings.HasPrefix(lines[i], "panic: ") && !strings.HasPrefix(lines[i], "fatal error: ") {
			continue
		}
		if i > 0 && strings.Contains(lines[i-1], "level") { // the logger's own words, with the error
			return lines[i-1] + "; " + lines[i]
		}
		return lines[i]
	}
	return strings.TrimSpace(last)
}

// startTime reads when a process began; now where it cannot be read.
func startTime(pid int, now time.Time) time.Time {
	ticks := StartTicks(pid)
	boot, err := bootTime()
	if ticks == 0 || err != nil {
		return now
	}
	return boot.Add(time.Duration(ticks) * 10 * time.Millisecond)
}

// StartTicks is when a process began, in 1/100 s since boot (field 22 of
// /proc/PID/stat): with the number it identifies a process. 0: no such process.
func StartTicks(pid int) int64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, ok := cutLast(string(stat), ")") // the name in field 2 may hold anything
	words := strings.Fields(rest)
	if !ok || len(words) < 20 {
		return 0
	}
	ticks, err := strconv.ParseInt(words[19], 10, 64)
	if err != nil {
		return 0
	}
	return ticks
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func bootTime() (time.Time, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "btime "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return time.Unix(n, 0).UTC(), err
		}
	}
	return time.Time{}, fmt.Errorf("no btime: %w", fs.ErrNotExist)
}

// Args is a process's argument list, program first; nil where it cannot be read.
func Args(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

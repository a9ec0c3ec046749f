package datadir

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// holderOf describes who keeps the lock from us.
func holderOf(f *os.File, path string) *Held {
	h := &Held{Path: path}
	pid, err := kernelHolder(f, "WRITE")
	if err != nil || pid <= 0 {
		// A reader's shared lock keeps writers out too, and is not in the file's text.
		if pid, err = kernelHolder(f, "READ"); err != nil || pid <= 0 {
			pid = writtenPID(f)
		}
	}
	h.PID = pid
	h.Cmdline = Cmdline(pid)
	return h
}

// kernelHolder finds the process that took a flock of the given mode (WRITE is
// exclusive) on f in /proc/locks; 0 if none is listed. After an exec it is
// still the same process.
func kernelHolder(f *os.File, mode string) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	b, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0, nil // no such /proc: the caller has other means
	}
	want := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	return parseLocks(string(b), want, mode), nil
}

// parseLocks reads lines such as
// "1: FLOCK  ADVISORY  WRITE 4711 fd:01:131094 0 EOF"; waiting ones have "->".
func parseLocks(text, want, mode string) int {
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) < 6 || w[1] != "FLOCK" || w[3] != mode || w[5] != want {
			continue
		}
		if pid, err := strconv.Atoi(w[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}

// writtenPID is the pid in the lock file's text, 0 if there is none.
func writtenPID(f *os.File) int {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// Cmdline is a process's command line, words joined by blanks and cut at 300
// bytes; empty where it cannot be read.
func Cmdline(pid int) string {
	if pid <= 0 {
		return ""
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	s := string(bytes.ReplaceAll(bytes.TrimRight(b, "\x00"), []byte{0}, []byte{' '}))
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}

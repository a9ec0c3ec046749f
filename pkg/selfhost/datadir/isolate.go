package datadir

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// ChildVerb is the hidden verb of the bootstrap binary that runs ChildMain.
const ChildVerb = "datadir-read"

// ReadDeadline bounds ReadIsolated where its context has no deadline of its
// own: reading five full log files and a few database pages from a slow disk.
const ReadDeadline = 60 * time.Second

// childAnswer is what the child prints.
type childAnswer struct {
	V     int    `json:"v"`
	Info  Info   `json:"info"`
	Error string `json:"error,omitempty"`
}

// ReadIsolated is Read in a child process: EXE datadir-read DIR. A library that
// exits, or a memory fault on a failing disk, then costs the child and comes
// back as an error with its cause. exe empty is the caller's own executable;
// the caller holds the directory's lock.
func ReadIsolated(ctx context.Context, exe, dir string) (Info, error) {
	return readIsolated(ctx, exe, dir, 0)
}

// trivial answers without a child where no library has to read anything.
func trivial(dir string) (Info, bool) {
	info := Info{V: wire.V, Dir: dir}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return info.is(wire.ClassAbsent, ""), true
	}
	if es, err := os.ReadDir(dir); err == nil && len(es) == 0 {
		return info.is(wire.ClassEmpty, ""), true
	}
	return Info{}, false
}

// readIsolated gives the child a niceness: 0 where a start waits for it, more
// where a look does, which must not take the processor from a serving etcd.
func readIsolated(ctx context.Context, exe, dir string, nice int) (Info, error) {
	if info, ok := trivial(dir); ok {
		return info, nil
	}
	if exe == "" {
		self, err := os.Executable()
		if err != nil {
			return Info{}, fmt.Errorf("find the executable that reads %s: %w", dir, err)
		}
		exe = self
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ReadDeadline)
		defer cancel()
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, exe, ChildVerb, dir)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.WaitDelay = time.Second
	runErr := cmd.Start()
	if runErr == nil {
		if nice > 0 {
			_ = unix.Setpriority(unix.PRIO_PROCESS, cmd.Process.Pid, nice) // without it the answer is the same
		}
		runErr = cmd.Wait()
	}
	if err := ctx.Err(); err != nil {
		return Info{}, fmt.Errorf("read %s: no answer in time; the disk may hang: %w", dir, errors.Join(err, runErr))
	}
	var a childAnswer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil || a.V != wire.V {
		return Info{}, fmt.Errorf("read %s: the reading process failed (%v): %s", dir, runErr, firstLine(errs.String()))
	}
	if a.Error != "" {
		return Info{}, errors.New(a.Error)
	}
	return a.Info, nil
}

// ChildMain is the child's side: args is one directory, the answer goes to
// stdout as JSON. It returns the exit code.
func ChildMain(args []string, stdout io.Writer) int {
	if len(args) != 1 {
		return 2
	}
	info, err := Read(args[0])
	a := childAnswer{V: wire.V, Info: info}
	if err != nil {
		a.Error = err.Error()
	}
	if err := json.NewEncoder(stdout).Encode(a); err != nil {
		return 1
	}
	return 0
}

// firstLine is the gist of what a dying process wrote: of a panic or a usage error it is the message.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if len(s) > 300 {
		s = s[:300]
	}
	return s
}

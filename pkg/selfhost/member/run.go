package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// LockWait is how long a start waits for the lock before it names the holder.
const LockWait = 5 * time.Second

// Options of `bootstrap etcd --state-dir S --slot SLOT [--etcd-binary PATH] -- ARGS…`.
type Options struct {
	StateDir string
	Slot     wire.Slot
	// EtcdBinary is a stock etcd to exec; empty: the embedded one.
	EtcdBinary string
	// Args are etcd's own, as Args renders them.
	Args []string
	Log  *slog.Logger
	// Executable reads the directory in a child (datadir.ReadIsolated); empty: this program.
	Executable string
	// LockWait overrides the 5 s; for tests.
	LockWait time.Duration
}

// Run is one life of the slot's etcd: lock, gate, serve. It returns nil after
// a stop asked for by ctx, SIGTERM or SIGINT; a *wire.Refusal (exit code 3)
// where lock or gate say no, with nothing on disk changed; with EtcdBinary it
// does not return on success, since the process becomes that etcd. The lock is
// held to the end of the process in every case after the gate.
func Run(ctx context.Context, o Options) error {
	id, err := readIdentity(o.StateDir)
	if err != nil {
		return err
	}
	if o.Slot != wire.SlotMember && o.Slot != wire.SlotSeed {
		return fmt.Errorf("slot %q: there are %s and %s", o.Slot, wire.SlotMember, wire.SlotSeed)
	}
	if err := checkArgs(id, o.Slot, o.Args); err != nil {
		return err
	}
	if err := dataParent(id, o); err != nil {
		return err
	}
	lock, err := takeLock(ctx, id, o)
	if err != nil {
		return err
	}
	if err := askGate(ctx, id, o); err != nil {
		lock.Close()
		return err
	}
	if err := ready(ctx, id, o.Args); err != nil {
		lock.Close()
		return err
	}
	syscall.Umask(0o077) // etcd's snapshot files would be everybody's to read (CASES L11)
	if o.EtcdBinary != "" {
		err := execEtcd(lock, o.EtcdBinary, o.Args)
		lock.Close()
		return err
	}
	// Every setting is an argument; nothing in this process reads these, and no child shall.
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); isOurs(name) {
			os.Unsetenv(name)
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// The lock is not closed here: an etcd given up while starting may still be
	// writing, and only the end of the process is the end of that.
	return runEmbedded(ctx, o.Args, o.Log.Handler())
}

func readIdentity(stateDir string) (wire.Identity, error) {
	var id wire.Identity
	path := wire.Identity{StateDir: stateDir}.State(wire.FileIdentity)
	if err := durable.ReadJSON(path, wire.V, &id); err != nil {
		return id, fmt.Errorf("read this node's identity: %w", err)
	}
	id.StateDir = stateDir
	return id, nil
}

// dataParent makes the directory that holds lock and data on a node's very
// first start. Missing later, its filesystem is not mounted (CASES L4).
func dataParent(id wire.Identity, o Options) error {
	if _, err := os.Stat(id.DataDir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	beside, kept, err := ReadGates(id, o.Slot)
	if err != nil {
		return err
	}
	absent := datadir.Info{Dir: id.SlotDir(o.Slot), Class: wire.ClassAbsent}
	if r := Gate(Question{Node: id.Node.Name, Slot: o.Slot, Beside: beside, Kept: kept, Info: absent, Args: o.Args}); r != nil {
		return r
	}
	return durable.MkdirAll(id.DataDir, 0o700)
}

func takeLock(ctx context.Context, id wire.Identity, o Options) (*datadir.Lock, error) {
	wait := o.LockWait
	if wait == 0 {
		wait = LockWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	lock, err := datadir.LockWait(ctx, id.SlotLock(o.Slot))
	var held *datadir.Held
	if errors.As(err, &held) {
		return nil, &wire.Refusal{Name: RefusedLocked, Node: id.Node.Name, Found: held.Error(),
			Want: fmt.Sprintf("the lock free within %s; never two processes on one directory", wait), Cites: "CASES L6"}
	}
	return lock, err
}

// askGate reads the node's disk under the lock and decides.
func askGate(ctx context.Context, id wire.Identity, o Options) error {
	info, err := datadir.ReadIsolated(ctx, o.Executable, id.SlotDir(o.Slot))
	if err != nil {
		return err
	}
	beside, kept, err := ReadGates(id, o.Slot)
	if err != nil {
		return err
	}
	q := Question{Node: id.Node.Name, Slot: o.Slot, Beside: beside, Kept: kept, Info: info, Args: o.Args}
	if r := Gate(q); r != nil {
		return r
	}
	o.Log.Info("start gate is open", "slot", o.Slot, "class", info.Class, "reason", info.Reason, "memberID", info.MemberID, "clusterID", info.ClusterID,
		"lastTerm", info.LastTerm, "lastIndex", info.LastIndex, "consistentIndex", info.ConsistentIndex, "revision", info.Revision)
	return nil
}

// execEtcd becomes a stock etcd that holds the lock: an open descriptor keeps
// its flock through exec once close-on-exec is cleared. It returns only on failure.
func execEtcd(lock *datadir.Lock, binary string, args []string) error {
	path, err := exec.LookPath(binary)
	if err != nil {
		return fmt.Errorf("find the etcd binary: %w", err)
	}
	fd := lock.File().Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
		return fmt.Errorf("let etcd inherit the lock: %w", err)
	}
	err = syscall.Exec(path, append([]string{path}, args...), CleanEnv(os.Environ()))
	return fmt.Errorf("exec %s: %w", path, err)
}

// CleanEnv is env without ETCD_* and ETCD_SELFHOST_*: etcd would read the
// former as settings, and every setting is an argument.
func CleanEnv(env []string) []string {
	out := make([]string, 0, len(env))
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); !isOurs(name) {
			out = append(out, kv)
		}
	}
	return out
}

func isOurs(name string) bool { return strings.HasPrefix(name, "ETCD_") }

// ExitCode of a verb that ends with err: 0 done, 1 failed, 3 refused.
func ExitCode(err error) int {
	var r *wire.Refusal
	switch {
	case err == nil:
		return 0
	case errors.As(err, &r):
		return 3
	}
	return 1
}

// BinaryVersion asks an etcd binary for its version, "3.6.16".
func BinaryVersion(ctx context.Context, binary string) (string, error) {
	cmd := exec.CommandContext(ctx, binary, "--version")
	cmd.Env = CleanEnv(os.Environ())
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", binary, err)
	}
	for line := range strings.Lines(string(out)) {
		if v, ok := strings.CutPrefix(line, "etcd Version: "); ok {
			return strings.TrimSpace(v), nil
		}
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return "", fmt.Errorf("%s is no etcd: its --version begins with %q, expected a line \"etcd Version: …\"", binary, first)
}

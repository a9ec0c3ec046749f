package agent

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent/child"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Name of a process that a runtime runs: "proxy", "seed" or "member".
type Name string

// The processes of a node.
const (
	NameProxy  Name = "proxy"
	NameSeed   Name = Name(wire.SlotSeed)
	NameMember Name = Name(wire.SlotMember)
)

// Runtime carries out what the agent decides to run. All its processes outlive
// the agent, and a new one finds them by their locks. The child-process one is
// complete here; static pods and systemd units are to follow the same words.
type Runtime interface {
	// Start keeps the process running with argv from now on; one that runs
	// already is left as it is. It returns before the process is up.
	Start(n Name, argv []string) error
	// Stop no longer wants the process and signals it: SIGTERM now, SIGKILL
	// after child.Grace. It returns without waiting for the end.
	Stop(n Name) error
	// Down says that no such process is there; an error is unknown, not down.
	Down(n Name) (bool, error)
	// Process reports state, number, restarts and the last end; not Args.
	Process(n Name) (wire.Process, error)
	// Close ends supervision and leaves the processes alone.
	Close()
}

// childRuntime is RuntimeProcess.
type childRuntime struct {
	children map[Name]*child.Child
	stop     chan struct{}
	done     sync.WaitGroup
}

// newChildRuntime begins to supervise; nothing is wanted yet.
func newChildRuntime(id wire.Identity, log *slog.Logger, now func() time.Time) *childRuntime {
	r := &childRuntime{children: map[Name]*child.Child{}, stop: make(chan struct{})}
	locks := map[Name]string{
		NameProxy:  id.State(wire.FileProxyLock),
		NameSeed:   id.SlotLock(wire.SlotSeed),
		NameMember: id.SlotLock(wire.SlotMember),
	}
	for n, lock := range locks {
		c := child.New(child.Spec{Name: string(n), Lock: lock, Log: filepath.Join(id.State(wire.DirLogs), string(n)+".log")}, log, now)
		r.children[n] = c
		r.done.Go(func() { c.Run(r.stop) })
	}
	return r
}

func (r *childRuntime) Start(n Name, argv []string) error    { return r.children[n].Want(argv) }
func (r *childRuntime) Stop(n Name) error                    { return r.children[n].Stop(child.Grace) }
func (r *childRuntime) Down(n Name) (bool, error)            { return r.children[n].Down() }
func (r *childRuntime) Process(n Name) (wire.Process, error) { return r.children[n].Process() }

func (r *childRuntime) Close() {
	close(r.stop)
	r.done.Wait()
}

// command is the command line of a process: the bootstrap binary, the verb,
// and for an etcd the binary to exec and its arguments.
func command(id wire.Identity, bootstrap string, n Name, etcdBinary string, args []string) []string {
	if n == NameProxy {
		return []string{bootstrap, "proxy", "--state-dir", id.StateDir}
	}
	argv := []string{bootstrap, "etcd", "--state-dir", id.StateDir, "--slot", string(n)}
	if etcdBinary != "" {
		argv = append(argv, "--etcd-binary", etcdBinary)
	}
	return append(append(argv, "--"), args...)
}

// etcdArgs are the etcd arguments in a process's command line: what follows
// "--" of `bootstrap etcd`, or everything behind the program of a stock etcd.
func etcdArgs(argv []string) []string {
	for i, a := range argv {
		if a == "--" {
			return argv[i+1:]
		}
	}
	if len(argv) == 0 {
		return nil
	}
	return argv[1:]
}

func runtimeFor(id wire.Identity) error {
	for _, r := range []wire.Runtime{id.Runtime, id.SeedRuntime} {
		if r != wire.RuntimeProcess && r != "" {
			return fmt.Errorf("identity.json asks for runtime %q; this release knows %q", r, wire.RuntimeProcess)
		}
	}
	return nil
}

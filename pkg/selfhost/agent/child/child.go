package child

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Child supervises one process. Its methods are safe for concurrent use and
// return at once; Run does what takes time.
type Child struct {
	spec Spec
	log  *slog.Logger
	now  func() time.Time
	kick chan struct{}

	mu     sync.Mutex
	wanted bool
	argv   []string
	own    *exec.Cmd     // started here and not reaped yet
	ended  chan struct{} // closed when own was reaped

	pid       int // of the process last seen, 0 none
	adopted   bool
	startedAt time.Time
	killAt    time.Time // zero: no stop under way

	deaths    int       // in a row
	notBefore time.Time // of the next start
	restarts  int
	lastExit  string
}

// New makes a child that is not wanted yet. now is the clock of backoff and grace.
func New(spec Spec, log *slog.Logger, now func() time.Time) *Child {
	return &Child{spec: spec, log: log.With("child", spec.Name), now: now, kick: make(chan struct{}, 1)}
}

// Want keeps the process running with argv from now on. One that runs already
// is adopted as it is, with the arguments it has. An error means that a first
// start failed; it is tried again with backoff all the same.
func (c *Child) Want(argv []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted, c.argv = true, argv
	c.notBefore, c.deaths = time.Time{}, 0
	return c.step()
}

// Stop no longer wants the process, signals SIGTERM to it now and SIGKILL
// after grace if it is there still. It returns without waiting for the end.
func (c *Child) Stop(grace time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = false
	err := c.step()
	if c.pid == 0 {
		return err
	}
	if c.killAt.IsZero() {
		c.killAt = c.now().Add(grace)
	}
	return c.signal(syscall.SIGTERM)
}

// Down says that no process is there: nobody holds the lock, and no child of
// ours is on its way to it. An error is unknown, not down.
func (c *Child) Down() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.look(); err != nil {
		return false, err
	}
	return c.pid == 0, nil
}

// Process reports the state.
func (c *Child) Process() (Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.look()
	p := Process{State: wire.ProcDown, Restarts: c.restarts, Deaths: c.deaths, LastExit: c.lastExit}
	if err != nil {
		p.State = wire.ProcUnknown
		return p, err
	}
	if c.pid != 0 {
		p.State, p.PID, p.Adopted, p.StartedAt = wire.ProcUp, c.pid, c.adopted, c.startedAt
	}
	return p, nil
}

// Run supervises until stop is closed, and leaves the process alone then.
func (c *Child) Run(stop <-chan struct{}) {
	tick := time.NewTicker(Poll)
	defer tick.Stop()
	failing := ""
	for {
		c.mu.Lock()
		err := c.step()
		c.mu.Unlock()
		if err != nil && err.Error() != failing {
			c.log.Warn("child not supervised as wanted", "error", err)
		}
		failing = ""
		if err != nil {
			failing = err.Error()
		}
		select {
		case <-stop:
			return
		case <-tick.C:
		case <-c.kick:
		}
	}
}

// step looks and does the one thing that is due. Caller holds c.mu.
func (c *Child) step() error {
	if err := c.look(); err != nil {
		return err
	}
	now := c.now()
	if c.pid != 0 {
		if c.deaths > 0 && now.Sub(c.startedAt) >= UpReset {
			c.deaths = 0
		}
		boundLog(c.spec.Log)
		if !c.killAt.IsZero() && !now.Before(c.killAt) {
			c.killAt = now.Add(time.Second)
			c.log.Warn("process outlived its grace and is killed", "pid", c.pid)
			return c.signal(syscall.SIGKILL)
		}
		return nil
	}
	c.killAt = time.Time{}
	if !c.wanted || now.Before(c.notBefore) {
		return nil
	}
	return c.spawn(now)
}

// look brings pid up to date: an own child counts from its start, any other
// process by the lock. Caller holds c.mu.
func (c *Child) look() error {
	if c.own != nil {
		select {
		case <-c.ended:
			c.died(c.own.ProcessState)
			c.own, c.pid = nil, 0
		default:
			return nil
		}
	}
	holder, err := datadir.HolderPID(c.spec.Lock)
	if err != nil {
		return fmt.Errorf("who holds %s is unknown: %w", c.spec.Lock, err)
	}
	if holder == os.Getpid() {
		holder = 0 // this agent itself, moving the directory: no process to adopt, let alone to signal
	}
	switch {
	case holder == c.pid:
	case holder == 0:
		c.died(nil)
		c.pid = 0
	default:
		if c.pid != 0 {
			c.died(nil) // another took the lock between two looks
		}
		c.pid, c.adopted, c.startedAt = holder, true, startTime(holder, c.now())
		c.log.Info("process adopted", "pid", holder)
	}
	return nil
}

// died notes the end of the process; st is nil for one that was not our child.
func (c *Child) died(st *os.ProcessState) {
	tail := logTail(c.spec.Log)
	c.deaths++
	if c.wanted {
		c.restarts++ // on its way: only an end that nobody asked for counts
	}
	wait := Backoff(c.deaths)
	switch {
	case st == nil:
		c.lastExit = "exit status unknown"
	case st.ExitCode() == ExitRefused:
		c.lastExit, wait = "refused by its gate (exit status 3)", BackoffMax
	default:
		c.lastExit = st.String()
	}
	if tail != "" {
		c.lastExit += "; end of its log: " + tail
	}
	c.notBefore = c.now().Add(wait)
	c.log.Info("process ended", "pid", c.pid, "reason", c.lastExit, "wanted", c.wanted)
}

// spawn starts the process. Caller holds c.mu; nobody holds the lock.
func (c *Child) spawn(now time.Time) error {
	cmd, err := start(c.spec, c.argv)
	if err != nil {
		c.deaths++
		c.notBefore = now.Add(Backoff(c.deaths))
		c.lastExit = "not started: " + err.Error()
		return err
	}
	c.own, c.ended, c.pid, c.adopted, c.startedAt = cmd, make(chan struct{}), cmd.Process.Pid, false, now
	c.log.Info("process started", "pid", c.pid)
	go func(ended chan struct{}) {
		_ = cmd.Wait() // the status is in ProcessState
		close(ended)
		select {
		case c.kick <- struct{}{}:
		default:
		}
	}(c.ended)
	return nil
}

// signal sends sig to the process last seen, if it is that one still: pinned
// by a descriptor first, then checked, so that a reused number is never hit.
// Caller holds c.mu.
func (c *Child) signal(sig syscall.Signal) error {
	if c.own != nil {
		// Reaped only by cmd.Wait, which Signal excludes: the number is ours.
		if err := c.own.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return nil
	}
	p, err := os.FindProcess(c.pid) // holds a pidfd
	if err != nil {
		return err
	}
	defer p.Release() //nolint:errcheck // closes a descriptor
	holder, err := datadir.HolderPID(c.spec.Lock)
	if err != nil || holder != c.pid {
		return err // gone meanwhile, or unknown: nothing is hit
	}
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal pid %d: %w", c.pid, err)
	}
	return nil
}

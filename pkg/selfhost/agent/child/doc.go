// Package child is the runtime whose processes are children of the agent, in
// sessions of their own. They outlive the agent: a starting agent adopts
// whatever process holds the child's lock. A death is the freed lock, never a
// failed kill(0): process numbers are reused (DESIGN "Lock and gate").
package child

import (
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Timing of the supervisor.
const (
	// Poll is how often locks are looked at; the end of an own child is seen at once.
	Poll = 100 * time.Millisecond
	// BackoffMin doubles with each death up to BackoffMax, and starts over after UpReset.
	BackoffMin = 100 * time.Millisecond
	BackoffMax = 10 * time.Second
	UpReset    = 60 * time.Second
	// Grace is what a process has between SIGTERM and SIGKILL.
	Grace = 10 * time.Second
	// MaxLog is the size at which a log is set aside as FILE.1, over the one before.
	MaxLog = 16 << 20
)

// ExitRefused is the exit status of a process that its own gate refused
// (`bootstrap etcd`): kept as the reason, and tried again slowly.
const ExitRefused = 3

// Spec describes one child.
type Spec struct {
	Name string // "proxy", "seed", "member"
	Lock string // flock that the process holds for its life
	Log  string
	// Argv is the command, program first; only read while it is wanted.
	Argv []string
}

// Backoff is the wait after the n-th death in a row (n from 1).
func Backoff(n int) time.Duration {
	d := BackoffMin
	for ; n > 1 && d < BackoffMax; n-- {
		d *= 2
	}
	return min(d, BackoffMax)
}

// Process is what the runtime tells of a child: State is down or up, never
// serving, and Args are left to the reader of /proc.
type Process = wire.Process

// Package driver is the loop that turns decisions into deeds: observe every
// agent, ask the brain for the one next step, do it, observe again. It holds
// no progress: a driver killed anywhere is replaced by another that looks and
// goes on (I8). It needs agents only: no API, no DNS, no etcd of its own.
package driver

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Config of a driver.
type Config struct {
	// Nodes whose agents are asked first; nodes that specs and member lists name join.
	Nodes []wire.NodeRef
	Ports wire.Ports
	// TLS is the driver's client identity (pki role driver).
	TLS *tls.Config
	// Key is the holder's key: the same key takes its own grant over at once.
	Key string
	// Name is who this is, for people: "pivot on cp-1, pid 4711".
	Name   string
	Logger *slog.Logger
	// Events, when set, receives what happens, in order, from Run's goroutine.
	Events func(Event)
	// AfterStep, when set, is called after each step that worked; an error ends
	// Run with it (the seam at which tests kill a driver).
	AfterStep func(pivot.Step) error
	// Timeout bounds how long Run waits for a refusal that passes by itself
	// without anything changing; default DefaultTimeout.
	Timeout time.Duration
}

// Knobs of the loop.
const (
	DefaultTimeout = 5 * time.Minute
	ObserveTimeout = 2 * time.Second // one deadline per agent (OCPBUGS-60941)
	GrantTTL       = 10 * time.Second
	RenewEvery     = 3 * time.Second
	RoundValid     = 7 * time.Second
)

// EventKind of an Event.
type EventKind string

// What a driver tells.
const (
	EventStep    EventKind = "step"     // about to do Step
	EventDone    EventKind = "done"     // Step worked, Took says how long
	EventFailed  EventKind = "failed"   // Step failed or was refused; it looks again
	EventWait    EventKind = "wait"     // Refusals that pass by themselves
	EventSync    EventKind = "progress" // learners catching up: see View
	EventGranted EventKind = "granted"
)

// Event is one thing that happened.
type Event struct {
	Kind     EventKind
	Time     time.Time
	Step     pivot.Step
	Refusals []pivot.Refusal
	Err      error
	Took     time.Duration
	View     *View // the look it was decided on; nil where there was none
}

// NodeView is one node in one look.
type NodeView struct {
	Ref wire.NodeRef
	// Obs is nil where the agent did not answer; Err says why, in words.
	Obs *wire.Observation
	Err error
}

// View is one look at everything.
type View struct {
	At    time.Time
	Nodes []NodeView // the spec's order, then others by name
	// Spec is the highest spec any agent answered with; nil none.
	Spec *wire.Spec
	// Epoch is the highest any agent answered with.
	Epoch wire.Epoch
	// Members is the list of the leader, or nil.
	Members []wire.Member
	Leader  wire.ID
	// Served is a list that some member serves while no leader answers: for
	// people, no decision rests on it.
	Served []wire.Member
	// State is what the brain is asked with (for the stored spec, or the wanted one in Run).
	State pivot.State

	wanted *wire.Spec
}

// Result of a run.
type Result struct {
	Steps   int
	Seconds float64
	View    *View
	// First time three voters (or as many as wanted) stood, all served, in seconds from the start; 0 not seen.
	SecondsToVoters  float64
	SecondsToServing float64
}

// RefusedError ends a run that the brain refused; exit code 3.
type RefusedError struct{ Refusals []pivot.Refusal }

func (e *RefusedError) Error() string {
	return pivot.Decision{Refusals: e.Refusals}.String()
}

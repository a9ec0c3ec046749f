// Package agent is the one process per control-plane node that owns its etcd:
// it observes and acts for drivers that hold a grant, keeps durably what must
// survive it (epoch, spec, fence, slots, tombstones, journal), and supervises
// the node's proxy, seed and member, which all outlive it. It never talks to
// Kubernetes and never decides what a cluster should be (DESIGN "Parts", "Who
// may drive").
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent/journal"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/proxy"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/version"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Config of an agent. Only StateDir is required.
type Config struct {
	// StateDir holds identity.json and everything the agent stores.
	StateDir string
	Logger   *slog.Logger
	// Now is the clock of grants, backoff and journal; it must be monotonic.
	Now func() time.Time
	// GrantTTL is used where a driver names none (DefaultGrantTTL).
	GrantTTL time.Duration
	// TidyEvery and TidyAfter: how often to look whether the attic may be pruned,
	// and how long quorum must have been held (DefaultTidyEvery, DefaultTidyAfter).
	TidyEvery, TidyAfter time.Duration
	// Ready, when set, is called once the agent serves.
	Ready func()
}

// Agent is a running agent.
type Agent struct {
	id      wire.Identity
	log     *slog.Logger
	now     func() time.Time
	ttl     time.Duration
	exe     string // the bootstrap binary children run
	store   *store
	journal *journal.Journal
	rt      Runtime
	proxy   proxyControl
	peers   *agentclient.Client
	local   map[wire.Slot]*etcdClient
	classes *classCache

	grantMu sync.Mutex
	grant   grant

	slotMu   map[wire.Slot]*sync.Mutex // one change of a slot at a time
	memberMu sync.Mutex                // one membership call at a time
	fileMu   sync.Mutex                // targets.json
	atticMu  sync.Mutex                // the attic: one retires or prunes

	tidyEvery, tidyAfter time.Duration

	// work is what goes on after its RPC was answered (finishing a restart).
	work sync.WaitGroup
}

// proxyControl is the node's proxy as the agent uses it (proxy.Client).
type proxyControl interface {
	Status(ctx context.Context) (*wire.ProxyStatus, error)
	Hold(ctx context.Context, r wire.HoldRequest) error
	CloseDrain(ctx context.Context, member wire.ID) error
}

// Run is one life of an agent: it returns nil when ctx ends, and leaves every
// child alive. An error at the start says what was found; a second agent on one
// state directory names the first one's pid.
func Run(ctx context.Context, cfg Config) error {
	setDefaults(&cfg)
	id, err := ReadIdentity(cfg.StateDir)
	if err != nil {
		return err
	}
	id.StateDir = cfg.StateDir
	if err := runtimeFor(id); err != nil {
		return err
	}
	lock, err := lockState(id)
	if err != nil {
		return err
	}
	defer lock.Close()
	unlock, err := lockData(id)
	if err != nil {
		return err
	}
	defer unlock()
	a, err := open(id, cfg)
	if err != nil {
		return err
	}
	defer a.close()
	l, err := a.listen(ctx)
	if err != nil {
		return err
	}
	a.resume()
	for _, m := range a.store.migrated {
		a.log.Info("state file migrated", "what", m)
		if err := a.journal.Append(wire.JournalEntry{Step: "MigrateState", By: "agent", Outcome: "ok", Evidence: m}); err != nil {
			l.Close()
			return err
		}
	}
	if err := a.journal.Append(wire.JournalEntry{Step: "AgentStart", By: "agent", Outcome: "ok", Evidence: "version " + version.Version}); err != nil {
		l.Close()
		return err
	}
	return a.serve(ctx, l, cfg.Ready)
}

func setDefaults(cfg *Config) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.GrantTTL == 0 {
		cfg.GrantTTL = DefaultGrantTTL
	}
	if cfg.TidyEvery == 0 {
		cfg.TidyEvery = DefaultTidyEvery
	}
	if cfg.TidyAfter == 0 {
		cfg.TidyAfter = DefaultTidyAfter
	}
}

func lockState(id wire.Identity) (*datadir.Lock, error) {
	lock, err := datadir.TryLock(id.State(wire.FileAgentLock))
	var held *datadir.Held
	if errors.As(err, &held) {
		return nil, fmt.Errorf("another agent runs on %s: %w; one state directory has one agent", id.StateDir, held)
	}
	return lock, err
}

// open reads the state and begins to supervise. The state's lock is held.
func open(id wire.Identity, cfg Config) (*Agent, error) {
	a := &Agent{id: id, log: cfg.Logger, now: cfg.Now, ttl: cfg.GrantTTL, tidyEvery: cfg.TidyEvery, tidyAfter: cfg.TidyAfter,
		local: map[wire.Slot]*etcdClient{}, slotMu: map[wire.Slot]*sync.Mutex{}}
	if err := durable.MkdirAll(id.State(wire.DirLogs), 0o700); err != nil {
		return nil, err
	}
	var err error
	if a.exe, err = bootstrapBinary(id); err != nil {
		return nil, err
	}
	if a.store, err = openStore(id); err != nil {
		return nil, err
	}
	peerTLS, err := pki.ClientConfig(id.PKIDir, pki.RoleAgent)
	if err != nil {
		return nil, err
	}
	etcdTLS, err := pki.ClientConfig(id.PKIDir, pki.RoleEtcdClient)
	if err != nil {
		return nil, err
	}
	if a.journal, err = journal.Open(id.State(wire.FileJournal), id.Node.Name); err != nil {
		return nil, err
	}
	a.journal.Now = cfg.Now
	a.grant = restored(a.store.fence, a.ttl, a.now())
	a.peers = agentclient.NewClient(peerTLS, id.Ports.Agent)
	a.proxy = proxy.Client{Sock: id.State(wire.FileProxySock)}
	a.classes = newClassCache(id, a.exe)
	for _, slot := range bothSlots {
		a.local[slot] = newEtcdClient(id, slot, etcdTLS)
		a.slotMu[slot] = &sync.Mutex{}
	}
	a.rt = newChildRuntime(id, a.log, a.now)
	return a, nil
}

func bootstrapBinary(id wire.Identity) (string, error) {
	if id.Binary != "" {
		return id.Binary, nil
	}
	exe, err := os.Executable()
	// After an upgrade in place the kernel names the replaced file.
	return strings.TrimSuffix(exe, " (deleted)"), err
}

func (a *Agent) close() {
	a.work.Wait()
	a.rt.Close()
	a.peers.Close()
	for _, c := range a.local {
		c.close()
	}
	if err := a.journal.Close(); err != nil {
		a.log.Error("journal not closed", "error", err)
	}
}

// notifyReady tells systemd; without it, nothing.
func (a *Agent) notifyReady() {
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		a.log.Warn("systemd not told that the agent is ready", "error", err)
	}
}

package agent

import (
	"context"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// When an agent prunes its attic by itself.
const (
	// DefaultTidyEvery is how often it looks.
	DefaultTidyEvery = time.Minute
	// DefaultTidyAfter is how long quorum must have been held, at every look, before.
	DefaultTidyAfter = 24 * time.Hour
)

// heldFor measures how long quorum was held without a break, as looks go. The
// zero value is: not at all, which is also what a restarted agent knows.
type heldFor struct {
	every       time.Duration
	since, last time.Time
}

// look takes one look's answer and says how long it has been so. A look that is
// missing breaks it, and so does a clock that went back or leapt (the agent was
// stopped, or the clock was set): what was not seen was not held.
func (h *heldFor) look(now time.Time, held bool) time.Duration {
	gap := now.Sub(h.last)
	if !held {
		h.since = time.Time{}
		return 0
	}
	if h.since.IsZero() || gap < 0 || gap > 5*h.every {
		h.since = now
	}
	h.last = now
	return now.Sub(h.since)
}

// tidy prunes the attic after a day of held quorum (DESIGN "attic", I3). While
// there is nothing that could go it asks nobody.
func (a *Agent) tidy(ctx context.Context) {
	h := heldFor{every: a.tidyEvery}
	tick := time.NewTicker(a.tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !a.somethingToPrune() {
			h.since = time.Time{}
			continue
		}
		l := a.liveData(ctx)
		if held := h.look(a.now(), l.unknown == ""); held >= a.tidyAfter && !a.driven() {
			a.pruneByItself(ctx, l, held)
		}
	}
}

// somethingToPrune: by their notes some entries could go, if the live members hold them.
func (a *Agent) somethingToPrune() bool {
	entries, err := datadir.Entries(a.id)
	if err != nil {
		a.log.Error("attic not listed", "error", err)
		return false
	}
	epoch, _, _ := a.store.view()
	all := liveData{clusterID: epoch.ClusterID, term: 1<<64 - 1, index: 1<<64 - 1, revision: 1<<63 - 1}
	for _, why := range keepReasons(entries, all, wire.AtticKeep) {
		if why == "" {
			return true
		}
	}
	return false
}

// driven: a driver is at work here; whatever it is about, the attic can wait.
func (a *Agent) driven() bool { return a.fence().LeftMillis > 0 }

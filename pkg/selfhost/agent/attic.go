package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// liveData looks at this node and at the agents of the spec's nodes.
func (a *Agent) liveData(ctx context.Context) liveData {
	_, spec, _ := a.store.view()
	if spec == nil {
		return liveData{unknown: "no spec names the nodes to ask"}
	}
	ctx, cancel := context.WithTimeout(ctx, agentclient.ReadDeadline)
	defer cancel()
	own := a.observe(ctx)
	seen := []*wire.Observation{&own}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range spec.Nodes {
		if n.Name == a.id.Node.Name {
			continue
		}
		wg.Go(func() {
			o, err := a.peers.Observe(ctx, n.Address)
			if err != nil || o.Identity.Node.Name != n.Name {
				return // a voter that is not seen is not counted
			}
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, o)
		})
	}
	wg.Wait()
	return liveOf(seen)
}

func (a *Agent) getAttic(w http.ResponseWriter, r *http.Request) {
	keep := wire.AtticKeep
	if s := r.URL.Query().Get("keep"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			fail(w, http.StatusBadRequest, fmt.Errorf("keep=%q is no number", s))
			return
		}
		keep = n
	}
	entries, err := datadir.Entries(a.id)
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	out := wire.AtticReply{V: wire.V, Node: a.id.Node.Name, Entries: []wire.AtticEntry{}}
	var l liveData
	if len(entries) > 0 {
		l = a.liveData(r.Context())
		out.Live = l.String()
	}
	for i, why := range keepReasons(entries, l, keep) {
		out.Entries = append(out.Entries, wireEntry(entries[i], why))
	}
	write(w, http.StatusOK, out)
}

func wireEntry(e datadir.Entry, keep string) wire.AtticEntry {
	n := e.Note
	return wire.AtticEntry{Name: e.Name, Slot: n.Slot, MemberID: n.MemberID, ClusterID: n.ClusterID, Class: n.Class, LastTerm: n.LastTerm,
		LastIndex: n.LastIndex, Revision: n.Revision, Bytes: e.Bytes, Time: n.Time, Reason: n.Reason, Problem: e.Problem, Keep: keep}
}

// atticPrune removes one entry, if the live members are seen to hold all of it.
func (a *Agent) atticPrune(ctx context.Context, in wire.AtticPruneRequest) (out wire.PruneReply, err error) {
	if in.Keep < 0 {
		return out, badRequest{errors.New("keep is negative")}
	}
	l := a.liveData(ctx)
	in.Evidence = l.String()
	err = a.act(in.Act, stepPruneAttic, "prune attic entry "+in.Entry, func(ctx context.Context) error {
		out.Bytes, err = a.pruneEntry(ctx, in.Entry, l, in.Keep)
		return err
	})
	out.Reply, out.Removed = ok(), []string{in.Entry}
	return out, err
}

const stepPruneAttic = "PruneAttic"

// pruneEntry removes one entry that may go; freed is what it took on disk. The
// directory is read once more: its note is only what it was when it was retired.
func (a *Agent) pruneEntry(ctx context.Context, name string, l liveData, keep int) (freed int64, err error) {
	a.atticMu.Lock()
	defer a.atticMu.Unlock()
	entries, err := datadir.Entries(a.id)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(entries, func(e datadir.Entry) bool { return e.Name == name })
	if i < 0 {
		return 0, a.refusal("NoEntry", fmt.Sprintf("%d entries in %s, none named %q", len(entries), a.id.Attic(), name), "an entry as `bootstrap attic list` shows it", "")
	}
	e := entries[i]
	why := keepReasons(entries, l, keep)[i]
	if why == "" && !e.Doomed {
		why, err = a.stillAsNoted(ctx, e, l)
	}
	if err != nil {
		return 0, err
	}
	if why != "" {
		return 0, a.refusal("KeptEntry", name+": "+why, "an entry whose data a majority of the live members is seen to hold", "I3")
	}
	return e.Bytes, datadir.Prune(a.id, name)
}

// stillAsNoted reads the directory and judges what it holds now.
func (a *Agent) stillAsNoted(ctx context.Context, e datadir.Entry, l liveData) (why string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), classDeadline)
	defer cancel()
	info, err := datadir.ReadIsolated(ctx, a.exe, filepath.Join(a.id.Attic(), e.Name))
	if err != nil {
		return "", err
	}
	n := e.Note
	n.Class, n.ClusterID, n.MemberID = info.Class, info.ClusterID, info.MemberID
	n.LastTerm, n.LastIndex, n.Revision = max(n.LastTerm, info.LastTerm), max(n.LastIndex, info.LastIndex), max(n.Revision, info.Revision)
	if why = l.holds(n); why != "" {
		return "read again, " + why, nil
	}
	return "", nil
}

// pruneByItself removes what may go, oldest first; every removal is journaled
// before and after.
func (a *Agent) pruneByItself(ctx context.Context, l liveData, held time.Duration) {
	entries, err := datadir.Entries(a.id)
	if err != nil {
		a.log.Error("attic not listed", "error", err)
		return
	}
	why := keepReasons(entries, l, wire.AtticKeep)
	for i := len(entries) - 1; i >= 0; i-- {
		if why[i] != "" || ctx.Err() != nil {
			continue
		}
		e := wire.JournalEntry{Step: stepPruneAttic, By: "agent", Evidence: l.String(), Outcome: "begun",
			Why: fmt.Sprintf("prune attic entry %s, %d bytes: quorum was held for %s, and it is not among the %d newest", entries[i].Name, entries[i].Bytes, held.Round(time.Second), wire.AtticKeep)}
		if entries[i].Doomed {
			e.Why = fmt.Sprintf("prune attic entry %s: its removal was begun earlier", entries[i].Name)
		}
		if err := a.journal.Append(e); err != nil {
			a.log.Error("attic left alone, the journal cannot be written", "error", err)
			return
		}
		_, err := a.pruneEntry(ctx, entries[i].Name, l, wire.AtticKeep)
		e.Outcome = outcome(err)
		if err := errors.Join(err, a.journal.Append(e)); err != nil {
			a.log.Warn("attic entry not pruned", "entry", entries[i].Name, "error", err)
			continue
		}
		a.log.Info("attic entry pruned", "entry", entries[i].Name, "bytes", entries[i].Bytes)
	}
}

package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// voter is one member's word in a look; the leader (1) serves the list.
func voter(id wire.ID, leader wire.ID, term, applied uint64, rev int64, of int) *wire.Observation {
	e := &wire.EtcdStatus{From: "status", MemberID: id, ClusterID: 0xc, Leader: leader, Term: term, Index: applied + 5, Applied: applied, Revision: rev}
	if id == leader {
		e.Linearizable = true
		for i := range of {
			e.Members = append(e.Members, wire.Member{ID: wire.ID(i + 1)})
		}
		e.Members = append(e.Members, wire.Member{ID: 99, Learner: true})
	}
	return &wire.Observation{Slots: []wire.SlotStatus{{Slot: wire.SlotMember, Etcd: e}}}
}

func TestLiveOf(t *testing.T) {
	three := []*wire.Observation{voter(1, 1, 4, 100, 50, 3), voter(2, 1, 4, 90, 45, 3), voter(3, 1, 4, 10, 5, 3)}
	stale := voter(2, 2, 3, 500, 500, 3) // a deposed leader that has not heard of it
	metrics := voter(2, 1, 4, 90, 45, 3)
	metrics.Slots[0].Etcd.From = "metrics"
	other := voter(2, 1, 4, 90, 45, 3)
	other.Slots[0].Etcd.ClusterID = 0xd
	for name, tc := range map[string]struct {
		seen []*wire.Observation
		want string
	}{
		"what a majority holds":              {three, "3 of 3 voters of cluster c serve in term 4; a majority applied index 90 and is at revision 45"},
		"a minority's lag does not count":    {three[:2], "2 of 3 voters of cluster c serve in term 4; a majority applied index 90 and is at revision 45"},
		"the slowest of a majority does":     {[]*wire.Observation{three[0], three[2]}, "2 of 3 voters of cluster c serve in term 4; a majority applied index 10 and is at revision 5"},
		"one of three":                       {three[:1], "not known: 1 of 3 voters serve"},
		"nobody leads":                       {three[1:], "not known: no leader answers"},
		"a deposed leader is no voter of it": {[]*wire.Observation{three[0], stale}, "not known: 1 of 3 voters serve"},
		"metrics are no service":             {[]*wire.Observation{three[0], metrics}, "not known: 1 of 3 voters serve"},
		"another cluster's member":           {[]*wire.Observation{three[0], other}, "not known: 1 of 3 voters serve"},
		"nothing":                            {nil, "not known"},
	} {
		if got := liveOf(tc.seen).String(); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestKeepReasons(t *testing.T) {
	live := liveData{clusterID: 0xc, term: 4, index: 90, revision: 45, serve: 3, voters: 3}
	whole := datadir.Note{V: 1, Class: wire.ClassWhole, ClusterID: 0xc, LastTerm: 4, LastIndex: 90, Revision: 45}
	with := func(f func(*datadir.Note)) datadir.Note { n := whole; f(&n); return n }
	for name, tc := range map[string]struct {
		e    datadir.Entry
		live liveData
		want string
	}{
		"held":                 {datadir.Entry{Note: whole}, live, ""},
		"one entry more":       {datadir.Entry{Note: with(func(n *datadir.Note) { n.LastIndex++ })}, live, "index 91"},
		"a later term":         {datadir.Entry{Note: with(func(n *datadir.Note) { n.LastTerm, n.LastIndex = 5, 3 })}, live, "term 5"},
		"one revision more":    {datadir.Entry{Note: with(func(n *datadir.Note) { n.Revision++ })}, live, "revision 46"},
		"another cluster":      {datadir.Entry{Note: with(func(n *datadir.Note) { n.ClusterID = 0xd })}, live, "cannot be compared"},
		"part":                 {datadir.Entry{Note: with(func(n *datadir.Note) { n.Class = wire.ClassPart })}, live, "not fully known"},
		"foreign":              {datadir.Entry{Note: with(func(n *datadir.Note) { n.Class = wire.ClassForeign })}, live, "not fully known"},
		"no class":             {datadir.Entry{Note: with(func(n *datadir.Note) { n.Class = "" })}, live, "not fully known"},
		"no index":             {datadir.Entry{Note: with(func(n *datadir.Note) { n.LastIndex = 0 })}, live, "how far"},
		"empty":                {datadir.Entry{Note: datadir.Note{V: 1, Class: wire.ClassEmpty}}, live, ""},
		"live not known":       {datadir.Entry{Note: whole}, liveData{unknown: "1 of 3 voters serve"}, "1 of 3 voters"},
		"no note":              {datadir.Entry{Problem: "no note says what it was"}, live, "no note"},
		"its removal is begun": {datadir.Entry{Problem: "begun", Doomed: true}, liveData{unknown: "x"}, ""},
	} {
		newest := []datadir.Entry{{Name: "b", Note: whole}, {Name: "a", Problem: "no note"}, {Name: "c", Note: whole}}
		why := keepReasons(append(newest, tc.e), live, 2)
		if why[0] != "among the 2 newest" || why[1] != "no note" || why[2] != "among the 2 newest" {
			t.Fatalf("%s: %q", name, why) // what proves nothing is none of the two
		}
		got := keepReasons([]datadir.Entry{tc.e}, tc.live, 0)[0]
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestHeldFor(t *testing.T) {
	h := heldFor{every: time.Minute}
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	look := func(after time.Duration, held bool, want time.Duration) {
		t.Helper()
		at = at.Add(after)
		if got := h.look(at, held); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	look(0, true, 0)
	look(time.Minute, true, time.Minute)
	look(3*time.Minute, true, 4*time.Minute)
	look(time.Minute, false, 0) // lost for one look: from the start
	look(time.Minute, true, 0)
	look(time.Minute, true, time.Minute)
	look(2*time.Hour, true, 0) // the clock leapt, or nobody looked
	look(time.Minute, true, time.Minute)
	look(-2*time.Hour, true, 0) // it was set back
	look(time.Minute, true, time.Minute)
	for range 24*60 - 1 {
		look(time.Minute, true, at.Add(time.Minute).Sub(h.since))
	}
	if got := h.look(at, true); got != DefaultTidyAfter {
		t.Errorf("%s after a day", got)
	}
}

// keepCopy puts a copy of the stopped seed's directory into the attic, as one
// retired days ago, with a note that change may falsify.
func (r *rig) keepCopy(days int, change func(*datadir.Note)) (name string) {
	r.t.Helper()
	id := r.ids[0]
	info, err := datadir.Read(id.SlotDir(wire.SlotSeed))
	r.must(err)
	n := datadir.Note{V: 1, Class: info.Class, Slot: wire.SlotSeed, ClusterID: info.ClusterID, MemberID: info.MemberID, LastTerm: info.LastTerm,
		LastIndex: info.LastIndex, Revision: info.Revision, Reason: "test", Time: time.Date(2026, 1, 31-days, 0, 0, 0, 0, time.UTC)}
	name = fmt.Sprintf("%s-seed-%s", n.Time.Format("20060102T150405Z"), n.MemberID)
	if change != nil {
		change(&n)
	}
	r.must(durable.MkdirAll(id.Attic(), 0o700))
	r.must(os.CopyFS(filepath.Join(id.Attic(), name), os.DirFS(id.SlotDir(wire.SlotSeed))))
	r.must(durable.WriteJSON(filepath.Join(id.Attic(), name+".json"), n))
	return name
}

// An agent prunes its attic after held quorum, and only what the live data covers.
func TestAttic(t *testing.T) {
	r := newRig(t, 1)
	r.prepare()
	r.start(0)
	o := r.await(0, "seed serves", func(o *wire.Observation) bool { return serving(wire.SlotSeed)(o) && o.Epoch.ClusterID != 0 })
	epoch := o.Epoch
	id := o.SlotOf(wire.SlotSeed).MemberID
	r.grant("driver", 1, epoch)
	ctx, addr := t.Context(), r.ids[0].Node.Address
	r.must(r.client.Stop(ctx, addr, wire.SlotRequest{Act: r.act, Slot: wire.SlotSeed, MemberID: id, Reason: "test"}))
	r.await(0, "down", func(o *wire.Observation) bool { return o.SlotOf(wire.SlotSeed).Process.State == wire.ProcDown })
	newest, second := r.keepCopy(1, nil), r.keepCopy(2, nil)
	old := r.keepCopy(3, nil)
	ahead := r.keepCopy(4, func(n *datadir.Note) { n.LastIndex += 1000 })
	other := r.keepCopy(5, func(n *datadir.Note) { n.ClusterID++ })
	less := r.keepCopy(6, func(n *datadir.Note) { n.Class, n.LastIndex = wire.ClassWhole, 1 }) // a note that says too little
	r.must(os.RemoveAll(filepath.Join(r.ids[0].Attic(), less, "member", "wal")))

	list := func(keep int) (names, may string) {
		t.Helper()
		a, err := r.client.Attic(ctx, addr, keep)
		r.must(err)
		for _, e := range a.Entries {
			names += e.Name + " "
			if e.Keep == "" {
				may += e.Name + " "
			}
		}
		return names, may
	}
	prune := func(name string, keep int) error {
		return errOf(r.client.AtticPrune(ctx, addr, wire.AtticPruneRequest{Act: r.act, Entry: name, Keep: keep}))
	}
	if names, may := list(2); names != strings.Join([]string{newest, second, old, ahead, other, less}, " ")+" " || may != "" {
		t.Errorf("while nobody leads: %s may go of %s", may, names)
	}
	r.refused(prune(old, 2), "KeptEntry") // nobody leads
	r.must(r.client.Start(ctx, addr, wire.StartRequest{Act: r.act, Slot: wire.SlotSeed, ClusterID: epoch.ClusterID, MemberID: id}))
	r.await(0, "serves", serving(wire.SlotSeed))
	if _, may := list(2); may != old+" "+less+" " {
		t.Errorf("%s may go", may)
	}
	r.refused(prune("../data", 2), "NoEntry")
	r.refused(prune(second, 2), "KeptEntry")
	r.refused(prune(ahead, 0), "KeptEntry")
	r.refused(prune(other, 0), "KeptEntry")
	r.refused(prune(less, 0), "KeptEntry") // read again, it is no whole directory
	late := r.act
	late.Number = 7
	r.refused(errOf(r.client.AtticPrune(ctx, addr, wire.AtticPruneRequest{Act: late, Entry: old, Keep: 2})), "NoGrant")
	r.must(prune(second, 1))
	if names, _ := list(2); strings.Contains(names, second) || !strings.Contains(names, newest) {
		t.Errorf("left: %s", names)
	}
	// By itself: the two newest are now newest and old; of the others only one that is held goes.
	ripe := r.keepCopyOf(old, 10)
	r.must(r.client.GrantDrop(ctx, addr, r.act))
	r.end(0)
	r.tidyUntil(t, ripe)
	if left, _ := filepath.Glob(filepath.Join(r.ids[0].Attic(), "*Z-seed-*[0-9a-f]")); len(left) != 5 {
		t.Errorf("left: %v", left)
	}
}

// keepCopyOf copies an attic entry as one retired days ago.
func (r *rig) keepCopyOf(from string, days int) (name string) {
	r.t.Helper()
	attic := r.ids[0].Attic()
	var n datadir.Note
	r.must(durable.ReadJSON(filepath.Join(attic, from+".json"), wire.V, &n))
	n.Time = time.Date(2026, 1, 31-days, 0, 0, 0, 0, time.UTC)
	name = fmt.Sprintf("%s-seed-%s", n.Time.Format("20060102T150405Z"), n.MemberID)
	r.must(os.CopyFS(filepath.Join(attic, name), os.DirFS(filepath.Join(attic, from))))
	r.must(durable.WriteJSON(filepath.Join(attic, name+".json"), n))
	return name
}

// tidyUntil runs an agent whose day is half a second until the entry is gone.
func (r *rig) tidyUntil(t *testing.T, gone string) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	start := time.Now()
	go func() {
		for ctx.Err() == nil {
			if left, _ := filepath.Glob(filepath.Join(r.ids[0].Attic(), gone+"*")); len(left) == 0 {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	r.must(Run(ctx, Config{StateDir: r.ids[0].StateDir, Logger: log, TidyEvery: 200 * time.Millisecond, TidyAfter: 500 * time.Millisecond}))
	if left, _ := filepath.Glob(filepath.Join(r.ids[0].Attic(), gone+"*")); len(left) > 0 || time.Since(start) < 500*time.Millisecond {
		t.Fatalf("after %s: %v", time.Since(start), left)
	}
	a, err := os.ReadFile(r.ids[0].State(wire.FileJournal))
	r.must(err)
	for _, want := range []string{"prune attic entry " + gone, "quorum was held for", `"by":"agent"`, "1 of 1 voters of cluster"} {
		if !strings.Contains(string(a), want) {
			t.Errorf("%q is not in the journal", want)
		}
	}
}

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// learning is a look at a leader at 1,000 entries and a learner that holds have.
func learning(have uint64) *driver.View {
	v := &driver.View{Leader: 1}
	for i, applied := range []uint64{1000, have} {
		id, name := wire.ID(i+1), []string{"cp-1", "cp-2"}[i]
		v.Nodes = append(v.Nodes, driver.NodeView{Ref: wire.NodeRef{Name: name}, Obs: &wire.Observation{
			Slots: []wire.SlotStatus{{Slot: wire.SlotMember, MemberID: id, Etcd: &wire.EtcdStatus{Index: 1000, Applied: applied}}}}})
		v.State.Members = append(v.State.Members, pivot.Member{ID: pivot.MemberID(id), Node: name, Slot: pivot.MemberSlot, Role: []pivot.Role{pivot.Voter, pivot.Learner}[i]})
	}
	return v
}

func TestPivotPrinter(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := newPivotPrinter(&out, func() time.Time { return now })
	start := pivot.Step{Kind: pivot.StartMember, Node: "cp-2", Slot: pivot.MemberSlot, ID: 2, Why: "registered and\nnot yet started"}
	tell := func(after time.Duration, e driver.Event) {
		now = now.Add(after)
		p.print(p.note(e))
	}
	tell(0, driver.Event{Kind: driver.EventStep, Step: start})
	tell(time.Second, driver.Event{Kind: driver.EventFailed, Step: start, Err: errors.New("no route")})
	tell(0, driver.Event{Kind: driver.EventStep, Step: start})
	tell(time.Second, driver.Event{Kind: driver.EventDone, Step: start, Took: time.Second, View: learning(0)})
	tell(0, driver.Event{Kind: driver.EventWait, Refusals: []pivot.Refusal{{Name: "NotInSync", Step: pivot.PromoteLearner, Node: "cp-2", Wait: true}}})
	tell(time.Second, driver.Event{Kind: driver.EventSync, View: learning(0)}) // too soon
	tell(time.Second, driver.Event{Kind: driver.EventSync, View: learning(0)})
	tell(time.Second, driver.Event{Kind: driver.EventSync, View: learning(500)}) // too soon
	tell(time.Second, driver.Event{Kind: driver.EventSync, View: learning(800)})
	tell(time.Second, driver.Event{Kind: driver.EventDone, Step: pivot.Step{Kind: pivot.Done}})
	want := strings.Join([]string{
		"   1.00 s  StartMember cp-2/member 2 did not work, looking again: no route",
		"   2.00 s  StartMember cp-2/member 2: registered and not yet started (1.00 s)",
		"   2.00 s  wait PromoteLearner cp-2: NotInSync:",
		"   4.00 s  learner on cp-2 holds 0 of 1000 entries (0 %), receiving the database",
		"   6.00 s  learner on cp-2 holds 800 of 1000 entries (80 %), about 1s left", ""}, "\n")
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A long step is heard of while it runs, every two seconds.
func TestPivotPrinterOfLongStep(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := newPivotPrinter(&out, func() time.Time { return now })
	p.print(p.note(driver.Event{Kind: driver.EventStep, Step: pivot.Step{Kind: pivot.ProveHashes}}))
	for _, s := range []time.Duration{1, 2, 3, 4} {
		p.heard(now.Add(s * time.Second))
	}
	p.print(p.note(driver.Event{Kind: driver.EventDone, Step: pivot.Step{Kind: pivot.Done}}))
	p.heard(now.Add(time.Hour))
	want := "   2.00 s  ProveHashes: under way for 2 s\n   4.00 s  ProveHashes: under way for 4 s\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestRouteText(t *testing.T) {
	step := func(k pivot.Kind, id pivot.MemberID, why string) pivot.RouteEntry {
		return pivot.RouteEntry{Decision: pivot.Decision{Step: &pivot.Step{Kind: k, Node: "cp-1", Slot: pivot.SeedSlot, ID: id, Why: why}}}
	}
	refusal := pivot.RouteEntry{Decision: pivot.Decision{Refusals: []pivot.Refusal{{Name: "NodeSilent", Step: pivot.WriteSpec, Node: "cp-2"}}}}
	wait := refusal
	wait.Settled = true
	v := &driver.View{State: pivot.State{Members: []pivot.Member{{ID: 0xa}}}}
	for _, tc := range []struct {
		name  string
		route []pivot.RouteEntry
		want  string
		err   string
	}{
		{"done at once", []pivot.RouteEntry{step(pivot.Done, 0, "well")}, "nothing to do: well\n", ""},
		{"to the end", []pivot.RouteEntry{step(pivot.StartMember, 0x100, "new"), wait, step(pivot.StopMember, 0xa, "old"), step(pivot.Done, 0, "well")},
			"  1. StartMember cp-1/seed\n     new\n     refuse WriteSpec cp-2: NodeSilent:\n  2. StopMember cp-1/seed a\n     old\n     done: well\n", ""},
		{"to a refusal", []pivot.RouteEntry{step(pivot.TakeGrant, 0, "first"), refusal}, "  1. TakeGrant cp-1/seed\n     first\n", "NodeSilent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			err := newApp(&out, &out, nil).printRoute(tc.route, v)
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Error(diff)
			}
			if (err == nil) != (tc.err == "") || err != nil && (!strings.Contains(err.Error(), tc.err) || exitCode(err) != exitRefused) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// No line is lost among bars, whenever they come and go, and none stays hidden.
func TestLinesAmongBars(t *testing.T) {
	var out bytes.Buffer
	b := &bars{raw: &out}
	var want []string
	say := func() {
		line := "line " + strings.Repeat("x", len(want)+1) + "\n"
		want = append(want, line)
		if _, err := b.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for _, now := range [][]catchUp{
		nil, {{"cp-2", 0, 1000}}, {{"cp-2", 500, 1000}, {"cp-3", 1000, 1000}}, {{"cp-3", 1000, 1000}}, {{"cp-3", 1001, 1001}}, {{"cp-3", 1001, 1005}},
		nil, {{"cp-4", 1, 2}, {"cp-2", 7, 7}}, {{"cp-4", 2, 2}, {"cp-2", 8, 8}}, {{"cp-4", 3, 3}, {"cp-2", 9, 9}}, {{"cp-2", 10, 10}},
	} {
		say()
		b.show(now)
		say()
	}
	if took := time.Since(began); took > 900*time.Millisecond {
		t.Errorf("drawing took %s: the driver would wait for it", took)
	}
	b.end()
	say()
	var got []string
	for line := range strings.Lines(out.String()) {
		if i := strings.Index(line, "line x"); i >= 0 {
			got = append(got, line[i:])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s\n%q", diff, out.String())
	}
	for _, text := range []string{"cp-2", "500 of 1000 entries", "cp-3", "ETA"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q was never drawn: %q", text, out.String())
		}
	}
}

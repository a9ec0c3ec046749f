package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// looked is a look at three nodes with long names and large figures; the third
// is silent, and with it its member.
func looked() *driver.View {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	v := &driver.View{At: at, Epoch: wire.Epoch{Number: 1, SeedID: 9, ClusterID: 0x6dd3670849a03020}, Leader: 0xe27077f2076532de,
		Spec: &wire.Spec{Target: wire.TargetMembers}}
	v.State.ListKnown = true
	for i, id := range []pivot.MemberID{0xe27077f2076532de, 0xad3efe885884d19b, 0x37ed74d01ffd1b1f} {
		ref := wire.NodeRef{Name: fmt.Sprintf("control-plane-%d.example.net", i+1), Address: fmt.Sprintf("2001:db8:1234:5678:9abc:def0:0:%d", i+1)}
		v.Spec.Nodes = append(v.Spec.Nodes, ref)
		m := pivot.Member{ID: id, Node: ref.Name, Slot: pivot.MemberSlot, Role: pivot.Voter}
		n := driver.NodeView{Ref: ref, Err: &url.Error{Op: "Get", URL: "https://x", Err: errors.New("connection refused")}}
		if i < 2 {
			m.Serves, m.AtIndex, m.Started, m.Lag, n.Err = pivot.Yes, pivot.Yes, pivot.Yes, uint64(i)*1234567, nil
			n.Obs = &wire.Observation{
				Disk:  wire.Disk{FreeBytes: 5 << 30, TotalBytes: 100 << 30},
				Certs: []wire.CertStatus{{Name: "ca", NotAfter: at.AddDate(9, 0, 0)}, {Name: "peer", NotAfter: at.AddDate(0, 0, 10+i), Problem: "missing SAN: 10.0.0.1"}},
				Slots: []wire.SlotStatus{
					{Slot: wire.SlotSeed, Class: wire.ClassPart, Reason: "its log ends in the middle"},
					{Slot: wire.SlotMember, Class: wire.ClassRunning, MemberID: wire.ID(id), Process: wire.Process{State: wire.ProcServing, Restarts: 12},
						Etcd: &wire.EtcdStatus{Term: 1234, Index: 1234567890123, Applied: 1234567890000, DBSize: 8 << 30, Alarms: []string{"NOSPACE"}}}},
				Fence: wire.Fence{LeftMillis: 5000, HolderName: "pivot on control-plane-1.example.net, pid 4711"},
			}
		}
		v.Nodes = append(v.Nodes, n)
		v.State.Members = append(v.State.Members, m)
	}
	return v
}

func TestStatusText(t *testing.T) {
	r := newStatus(looked(), pivot.Decision{Refusals: []pivot.Refusal{{Name: "NodeSilent", Step: pivot.WriteSpec, Found: strings.Repeat("words ", 40)}}})
	text := r.text()
	for line := range strings.Lines(text) {
		if runes(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("%d columns: %s", runes(line), line)
		}
	}
	words := strings.Join(strings.Fields(text), " ")
	for _, want := range []string{
		"quorum held 2/3", "leader control-plane-1.example.net", "epoch 1, cluster 6dd3670849a03020",
		"control-plane-3.example.net at 2001:db8:1234:5678:9abc:def0:0:3 is silent: connection refused",
		"raised NOSPACE", "control-plane-1 leader serves 1234 1.235e+12 0 8.0G", "control-plane-2 voter serves 1234 1.235e+12 1e+06 8.0G", "control-plane-3 2001:db8", "5.0G free of 100G", "its log ends in the middle", "missing SAN: 10.0.0.1",
		"peer of control-plane-1.example.net, on 2030-01-12 (10 days)", "driven by pivot on control-plane-1.example.net",
		"nothing can be done until somebody acts refuse WriteSpec: NodeSilent",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if t.Failed() {
		t.Log("\n" + text)
	}
}

// The fields that programs read keep their names.
func TestStatusJSON(t *testing.T) {
	b, err := json.Marshal(newStatus(looked(), pivot.Decision{Step: &pivot.Step{Kind: pivot.Done, Why: "well"}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"v":1`, `"leader":"e27077f2076532de"`, `"quorum":{"state":"Held","serve":2,"voters":3,"text":"quorum held 2/3"}`,
		`"role":"voter"`, `"health":"silent"`, `"lagKnown":false`, `"agent":"silent","why":"connection refused"`,
		`"certificate":{"node":"control-plane-1.example.net","name":"peer","notAfter":"2030-01-12T03:04:05Z"}`, `"next":{"step":"Done","why":"well"}`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
}

func TestQuorumWords(t *testing.T) {
	view := func(known bool, serves ...pivot.Tri) *driver.View {
		v := &driver.View{}
		v.State.ListKnown = known
		for i, s := range serves {
			v.State.Members = append(v.State.Members, pivot.Member{ID: pivot.MemberID(i + 1), Role: pivot.Voter, Serves: s})
		}
		return v
	}
	listed := []memberStatus{{Role: "voter", Health: "up"}, {Role: "voter", Health: "silent"}, {Role: "voter", Health: "down"}, {Role: "learner", Health: "up"}}
	for _, tc := range []struct {
		v      *driver.View
		listed []memberStatus
		state  string
		text   string
	}{
		{view(true, pivot.Yes), nil, "Held", "quorum held 1/1"},
		{view(true, pivot.Yes, pivot.Yes, pivot.Unknown), nil, "Held", "quorum held 2/3"},
		{view(true, pivot.Yes, pivot.No, pivot.Unknown), nil, "Unknown", "no quorum: 1 of 3 voters serve"},
		{view(true, pivot.Yes, pivot.No, pivot.No), nil, "Unknown", "no quorum: 1 of 3 voters serve"}, // down is not lost (I4)
		{view(false), nil, "Unknown", "no quorum seen: nobody answers with a member list"},
		{view(false), listed, "Unknown", "no quorum: 1 of 3 voters answer, and none leads"},
	} {
		if q := newQuorum(tc.v, tc.listed); q.State != tc.state || q.Text != tc.text {
			t.Errorf("%s, %q; want %s, %q", q.State, q.Text, tc.state, tc.text)
		}
	}
}

// Without a leader the list of any member is shown, as that member's.
func TestStatusWithoutLeader(t *testing.T) {
	v := looked()
	v.State.ListKnown, v.State.Members, v.Leader = false, nil, 0
	v.Nodes[1].Obs.SlotOf(wire.SlotMember).Etcd.Members = []wire.Member{{ID: 1, Name: "gone", PeerURLs: []string{"https://10.0.0.9:2380"}}, {ID: 0xad3efe885884d19b, Name: "x"}}
	r := newStatus(v, pivot.Decision{})
	if r.ListFrom != v.Nodes[1].Ref.Name+"/member" || len(r.Members) != 2 || r.Members[0].Health != "silent" || r.Members[1].Node != v.Nodes[1].Ref.Name {
		t.Errorf("list from %q: %+v", r.ListFrom, r.Members)
	}
	if !strings.Contains(r.text(), "no leader answers; this is the list as") {
		t.Error(r.text())
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 999: "999B", 1000: "1.0K", 20480: "20.0K", 105 << 20: "105M", 2 << 30: "2.0G", 999 << 30: "999G", 1 << 50: "1.0P"} {
		if got := bytesText(n); got != want || len(got) > 6 {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

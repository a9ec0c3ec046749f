package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Who owns what is decided before etcd is asked (CASES M1, M4, M13).
func TestAddLearnerOwners(t *testing.T) {
	a := &Agent{id: testIdentity(t.TempDir())}
	n := wire.NodeRef{Name: "cp-2", Address: "10.0.0.2", MoreAddresses: []string{"fd00::2"}}
	seed := wire.Member{ID: 1, Name: "cp-1-seed-1", PeerURLs: []string{"https://10.0.0.1:12380"}}
	url := "https://10.0.0.2:2380"
	for _, tc := range []struct {
		name string
		urls []string
		list []wire.Member
		want string
	}{
		{"free", []string{url}, []wire.Member{seed}, ""},
		{"free, its other address", []string{"https://[fd00:0::2]:2380"}, []wire.Member{seed}, ""},
		{"a seed on the same node is another slot", []string{url}, []wire.Member{{ID: 1, Name: "cp-2-seed-1", PeerURLs: []string{"https://10.0.0.2:12380"}}}, ""},
		{"our unstarted learner", []string{url}, []wire.Member{seed, {ID: 2, Learner: true, PeerURLs: []string{url}}}, ""},
		{"our unstarted learner, written otherwise", []string{"https://[fd00::2]:2380"}, []wire.Member{{ID: 2, Learner: true, PeerURLs: []string{"HTTPS://[FD00:0:0::2]:2380"}}}, ""},
		{"an unstarted voter", []string{url}, []wire.Member{{ID: 2, PeerURLs: []string{url}}}, "DuplicatePeerURL"},
		{"a started learner", []string{url}, []wire.Member{{ID: 2, Name: "cp-2", Learner: true, PeerURLs: []string{url}}}, "DuplicatePeerURL"},
		{"a learner with more URLs", []string{url}, []wire.Member{{ID: 2, Learner: true, PeerURLs: []string{url, "https://10.0.0.9:2380"}}}, "DuplicatePeerURL"},
		{"the node by another address", []string{url}, []wire.Member{{ID: 2, Name: "x", PeerURLs: []string{"https://[fd00::2]:2380"}}}, "DuplicateNode"},
		{"the name elsewhere", []string{url}, []wire.Member{{ID: 2, Name: "cp-2", PeerURLs: []string{"https://10.0.0.7:2380"}}}, "DuplicateName"},
		{"another node's address", []string{"https://10.0.0.3:2380"}, nil, "WrongPeerURL"},
		{"another port", []string{"https://10.0.0.2:2379"}, nil, "WrongPeerURL"},
		{"no TLS", []string{"http://10.0.0.2:2380"}, nil, "WrongPeerURL"},
		{"a host name", []string{"https://localhost:2380"}, nil, "WrongPeerURL"},
	} {
		in := wire.MemberRequest{Node: n.Name, PeerURLs: tc.urls}
		err := a.checkURLs(in, n)
		if err == nil {
			err = a.checkOwners(in, n, tc.list)
		}
		var r *wire.Refusal
		if errors.As(err, &r); err == nil && tc.want != "" || r != nil && r.Name != tc.want {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
		if r != nil && r.Node == "" {
			t.Errorf("%s: %v names no node", tc.name, r)
		}
	}
}

// A seed joins beside its node's member, at the seed's port, and is the only one.
func TestAddSeedOwners(t *testing.T) {
	id := testIdentity(t.TempDir())
	s, err := openStore(id)
	if err != nil {
		t.Fatal(err)
	}
	s.epoch.Number = 1
	a := &Agent{id: id, store: s}
	n := wire.NodeRef{Name: "cp-2", Address: "10.0.0.2"}
	own := wire.Member{ID: 2, Name: "cp-2", PeerURLs: []string{"https://10.0.0.2:2380"}}
	url := "https://10.0.0.2:12380"
	for _, tc := range []struct {
		name, url string
		list      []wire.Member
		want      string
	}{
		{"beside its node's member", url, []wire.Member{own}, ""},
		{"our unstarted learner", url, []wire.Member{own, {ID: 3, Learner: true, PeerURLs: []string{url}}}, ""},
		{"at a member's port", "https://10.0.0.2:2380", []wire.Member{own}, "WrongPeerURL"},
		{"another node's address", "https://10.0.0.3:12380", []wire.Member{own}, "WrongPeerURL"},
		{"a started one", url, []wire.Member{own, {ID: 3, Name: "cp-2-seed-1", Learner: true, PeerURLs: []string{url}}}, "DuplicatePeerURL"},
		{"its name elsewhere", url, []wire.Member{{ID: 3, Name: "cp-2-seed-1", PeerURLs: []string{"https://10.0.0.9:2380"}}}, "DuplicateName"},
		{"a seed on another node", url, []wire.Member{own, {ID: 1, Name: "cp-1-seed-1", PeerURLs: []string{"https://10.0.0.1:12380"}}}, "DuplicateSeed"},
	} {
		in := wire.MemberRequest{Node: n.Name, Slot: wire.SlotSeed, PeerURLs: []string{tc.url}}
		err := a.checkURLs(in, n)
		if err == nil {
			err = a.checkOwners(in, n, tc.list)
		}
		if err == nil {
			err = a.checkOneSeed(in, &leaderView{members: tc.list})
		}
		var r *wire.Refusal
		if errors.As(err, &r); err == nil && tc.want != "" || r != nil && r.Name != tc.want {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestNamedRefusalsOfEtcd(t *testing.T) {
	a := &Agent{id: testIdentity(t.TempDir())}
	v := &leaderView{members: []wire.Member{{ID: 0x2, Learner: true, PeerURLs: []string{"https://10.0.0.2:2380"}}}}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{rpctypes.ErrGRPCLearnerNotReady, "NotInSync"},
		{rpctypes.ErrGRPCUnhealthy, "UnhealthyCluster"},
		{rpctypes.ErrGRPCMemberNotEnoughStarted, "NotEnoughStarted"},
		{rpctypes.ErrGRPCTooManyLearners, "TooManyLearners"},
		{rpctypes.ErrGRPCMemberNotFound, "NoSuchMember"},
		{status.Error(codes.DeadlineExceeded, "late"), ""},
	} {
		err := a.refused(tc.err, v)
		var r *wire.Refusal
		if errors.As(err, &r); r != nil && r.Name != tc.want || r == nil && tc.want != "" || err == nil {
			t.Errorf("%v: got %v", tc.err, err)
		}
		if tc.want == "TooManyLearners" && !strings.Contains(err.Error(), "learner 2 https://10.0.0.2:2380 never started") { // CASES M2
			t.Errorf("%v", err)
		}
	}
	if a.refused(nil, v) != nil {
		t.Error("no error is none")
	}
}

func TestMetrics(t *testing.T) {
	page := func(receive, inflight, apply int) string {
		return fmt.Sprintf(`# TYPE etcd_server_proposals_committed_total gauge
etcd_server_proposals_committed_total 1.234567e+06
# TYPE etcd_server_proposals_applied_total gauge
etcd_server_proposals_applied_total 1.2e+06
# TYPE etcd_server_is_learner gauge
etcd_server_is_learner 1
# TYPE etcd_server_id gauge
etcd_server_id{server_id="b0f2a"} 1
# TYPE etcd_server_version gauge
etcd_server_version{server_version="3.7.3"} 1
# TYPE etcd_network_snapshot_receive_success counter
etcd_network_snapshot_receive_success{From="1"} %d
# TYPE etcd_network_snapshot_receive_inflights_total gauge
etcd_network_snapshot_receive_inflights_total{From="1"} %d
# TYPE etcd_server_snapshot_apply_in_progress_total gauge
etcd_server_snapshot_apply_in_progress_total %d
`, receive, inflight, apply)
	}
	for _, tc := range []struct {
		receive, inflight, apply int
		want                     bool
	}{{0, 0, 0, false}, {1, 0, 0, true}, {1, 1, 0, false}, {1, 0, 1, false}, {0, 1, 0, false}} {
		st, err := parseMetrics(strings.NewReader(page(tc.receive, tc.inflight, tc.apply)))
		if err != nil {
			t.Fatal(err)
		}
		if st.SnapshotReceived != tc.want {
			t.Errorf("%+v: %t", tc, st.SnapshotReceived)
		}
		if st.From != "metrics" || st.Index != 1234567 || st.Applied != 1200000 || !st.Learner || st.MemberID != 0xb0f2a || st.Version != "3.7.3" {
			t.Errorf("%+v", st)
		}
	}
	for _, other := range []string{"", "# TYPE up gauge\nup 1\n", "<html>"} {
		if st, err := parseMetrics(strings.NewReader(other)); err == nil {
			t.Errorf("%q: %+v", other, st)
		}
	}
}

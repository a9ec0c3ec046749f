package driver

import (
	"fmt"
	"strings"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// fill makes the brain's state of a look. want nil: the stored spec.
func (d *Driver) fill(v *View, want *wire.Spec, forget []wire.ID) {
	if want == nil {
		want = v.Spec
	}
	s := pivot.State{}
	if want != nil {
		s.Want.Target = pivot.TargetMembers
		if want.Target == wire.TargetSeed {
			s.Want.Target = pivot.TargetSeed
		}
		for _, n := range want.Nodes {
			s.Want.Nodes = append(s.Want.Nodes, n.Name)
		}
	}
	for _, id := range forget {
		s.Want.Forget = append(s.Want.Forget, pivot.MemberID(id))
	}
	s.Leader = pivot.MemberID(v.Leader)
	s.ListKnown, s.Founded = v.Members != nil, v.Epoch.ClusterID != 0
	s.Unstarted = v.unstarted()
	d.fillMembers(v, &s)
	s.Tombstones = tombstones(v)
	s.Grant = d.grantState(v, want)
	targets := d.targets(v, &s)
	for i := range v.Nodes {
		s.Nodes = append(s.Nodes, d.fillNode(v, &v.Nodes[i], want, targets))
	}
	s.Proof = d.proofFor(v)
	s.Normalize()
	v.State = s
}

func (d *Driver) fillNode(v *View, nv *NodeView, want *wire.Spec, targets []wire.ProxyTarget) pivot.Node {
	n := pivot.Node{Name: nv.Ref.Name, Agent: pivot.Answers}
	if nv.Obs == nil {
		n.Agent = pivot.Silent
		if nv.Err != nil {
			n.Why = agentclient.Why(nv.Err)
		}
		return n
	}
	n.SpecCurrent = tri(want != nil && nv.Obs.Spec != nil && sameSpec(*nv.Obs.Spec, *want))
	for _, sl := range nv.Obs.Slots {
		*n.Slot(pivot.SlotName(sl.Slot)) = fillSlot(v, sl)
	}
	n.Proxy = fillProxy(nv.Obs.Proxy, targets)
	n.Disk = pivot.Disk{Known: nv.Obs.Disk.TotalBytes > 0, Free: nv.Obs.Disk.FreeBytes}
	n.Unfit = strings.Join(nv.Obs.Unfit, "; ")
	if want != nil && want.Target == wire.TargetSeed {
		n.Unfit = strings.Join(nv.Obs.SeedUnfit, "; ")
	}
	return n
}

// removed: the list no longer names the member, or a tombstone says so for good.
func (v *View) removed(id wire.ID) bool {
	for _, nv := range v.Nodes {
		if nv.Obs == nil {
			continue
		}
		for _, t := range nv.Obs.Tombstones {
			if t.MemberID == id && t.Phase == wire.TombFinal {
				return true
			}
		}
	}
	for _, m := range v.Members {
		if m.ID == id {
			return false
		}
	}
	return v.Members != nil
}

var classes = map[wire.Class]pivot.Class{
	wire.ClassAbsent: pivot.Absent, wire.ClassEmpty: pivot.Empty, wire.ClassRunning: pivot.Running,
	wire.ClassWhole: pivot.Whole, wire.ClassPart: pivot.Part, wire.ClassForeign: pivot.Foreign,
}

var procs = map[wire.ProcState]pivot.Proc{wire.ProcDown: pivot.Down, wire.ProcUp: pivot.Up, wire.ProcServing: pivot.Serving}

func fillSlot(v *View, sl wire.SlotStatus) pivot.Slot {
	out := pivot.Slot{Class: classes[sl.Class], Reason: sl.Reason, ID: pivot.MemberID(sl.MemberID), Proc: procs[sl.Process.State],
		PeerUp: tri(sl.Process.PeerUp), Reading: sl.Reading, Assigned: pivot.MemberID(sl.Assigned), Parked: sl.Parked, LateRestarted: sl.LateRestarts > 0, Args: applyArgs(sl.Process.Args)}
	out.Kept = sl.Wanted && !sl.Parked && out.Proc == pivot.Down
	if sl.Wanted && sl.Process.Deaths > 0 && sl.Process.State != wire.ProcServing && !sl.Process.PeerUp {
		out.Ended = sl.Process.LastExit
	}
	if sl.Class == wire.ClassRunning && out.ID == 0 {
		out.ID = pivot.MemberID(sl.Assigned) // running, and not far enough to say its ID
	}
	if sl.Class == wire.ClassWhole && v.Epoch.ClusterID != 0 && sl.ClusterID != v.Epoch.ClusterID {
		out.Class = pivot.Foreign
		out.Reason = fmt.Sprintf("a directory of cluster %s, member %s; this cluster is %s", sl.ClusterID, sl.MemberID, v.Epoch.ClusterID)
	}
	if out.Class == pivot.Whole && v.removed(sl.MemberID) {
		out.Class = pivot.Older
		out.Reason = fmt.Sprintf("member %s was removed from this cluster", sl.MemberID)
	}
	return out
}

func fillProxy(p *wire.ProxyStatus, want []wire.ProxyTarget) pivot.Proxy {
	if p == nil {
		return pivot.Proxy{}
	}
	have, admitted := map[string]bool{}, false
	for _, t := range p.Targets {
		have[targetKey(t.ProxyTarget)] = true
		admitted = admitted || t.Mode == wire.Serve && t.Admitted
	}
	same := len(have) == len(want)
	for _, t := range want {
		same = same && have[targetKey(t)]
	}
	return pivot.Proxy{Routed: tri(same && admitted)}
}

func targetKey(t wire.ProxyTarget) string {
	return fmt.Sprintf("%s %s %s %s", t.Address, t.Slot, t.MemberID, t.Mode)
}

func (d *Driver) fillMembers(v *View, s *pivot.State) {
	var leaderIndex uint64
	if _, sl := v.SlotOfMember(v.Leader); sl != nil && sl.Etcd != nil {
		leaderIndex, s.DBSize = sl.Etcd.Index, sl.Etcd.DBSize
	}
	for _, m := range v.Members {
		node, slot := v.place(m, d.ports)
		pm := pivot.Member{ID: pivot.MemberID(m.ID), Node: node, Slot: pivot.SlotName(slot), Role: pivot.Voter, Started: tri(m.Name != "")}
		if len(m.PeerURLs) > 0 {
			pm.URL = m.PeerURLs[0]
		}
		if m.Learner {
			pm.Role = pivot.Learner
		}
		if nv := v.Node(node); nv != nil && nv.Obs != nil {
			d.fillProgress(&pm, nv.Obs.SlotOf(slot), leaderIndex)
			pm.Settled = settledFor(nv.Obs, slot)
		}
		pm.Clients = v.clients(m.ID)
		s.Members = append(s.Members, pm)
	}
	d.mu.Lock()
	d.leaderIndex = leaderIndex
	d.mu.Unlock()
}

// settleTime is etcd's HealthInterval (server/etcdserver/server.go, 5 s) and what
// a connection takes: so long a member must have run before etcd counts it as
// connected when it judges the removal of another.
const settleTime = 6 * time.Second

// settledFor compares two times of one machine's clock.
func settledFor(o *wire.Observation, slot wire.Slot) pivot.Tri {
	sl := o.SlotOf(slot)
	if sl == nil || sl.Process.StartedAt.IsZero() {
		return pivot.Unknown
	}
	return tri(o.Time.Sub(sl.Process.StartedAt) >= settleTime)
}

// clients says whether any proxy has connections to a member.
func (v *View) clients(id wire.ID) pivot.Tri {
	out := pivot.No
	for _, nv := range v.Nodes {
		if nv.Obs == nil || nv.Obs.Proxy == nil {
			out = pivot.Unknown
			continue
		}
		for _, t := range nv.Obs.Proxy.Targets {
			if t.MemberID == id && t.Connections > 0 {
				return pivot.Yes
			}
		}
	}
	return out
}

// fillProgress judges one member against the leader of the same look.
func (d *Driver) fillProgress(pm *pivot.Member, sl *wire.SlotStatus, leaderIndex uint64) {
	if sl == nil {
		return
	}
	pm.Serves = tri(sl.Process.State == wire.ProcServing && sl.Etcd != nil && sl.Etcd.From == "status" && sl.Etcd.Leader != 0)
	// A member that ran and died before its name was in the list has run all the
	// same: its agent recorded its log.
	if sl.Process.State == wire.ProcUp || sl.Process.State == wire.ProcServing || sl.Recorded && sl.Assigned == wire.ID(pm.ID) {
		pm.Started = pivot.Yes
	}
	if sl.Etcd == nil || leaderIndex == 0 {
		return
	}
	if leaderIndex > sl.Etcd.Applied {
		pm.Lag = leaderIndex - sl.Etcd.Applied
	}
	pm.AtIndex = tri(pm.Lag <= inSyncEntries)
	d.mu.Lock()
	before := d.leaderIndex
	d.mu.Unlock()
	pm.Late = tri(sl.Etcd.SnapshotReceived && sl.Process.State == wire.ProcUp && before > 0 && sl.Etcd.Applied >= before)
}

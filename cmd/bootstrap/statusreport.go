package main

import (
	"fmt"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// statusReport is the output of `status -o json`. Fields are added, never
// renamed or taken away; v grows when one changes its meaning. An ID is
// hexadecimal as etcd prints it, "" unknown; sizes are in bytes.
type statusReport struct {
	V     int        `json:"v"`
	Time  time.Time  `json:"time"`
	Epoch wire.Epoch `json:"epoch"`
	// Target of the desired spec: "seed", "members", or "" where no agent has a spec.
	Target wire.Target `json:"target"`
	// Wanted nodes of the desired spec.
	Wanted []string `json:"wanted"`
	Quorum quorum   `json:"quorum"`
	// Leader is the leader's member ID.
	Leader wire.ID `json:"leader"`
	// Members is the leader's list; where no leader answers, ListFrom names the
	// member whose own list this is, which decides nothing.
	Members    []memberStatus `json:"members"`
	ListFrom   string         `json:"listFrom,omitempty"`
	Nodes      []nodeStatus   `json:"nodes"`
	Conditions []condition    `json:"conditions"`
	// Certificate is the one that expires first, over all nodes that answer.
	Certificate *certStatus `json:"certificate,omitempty"`
	Next        next        `json:"next"`
}

// quorum is what the voters' answers amount to.
type quorum struct {
	State  string `json:"state"` // Held or Unknown; Lost needs more than a look (I4)
	Serve  int    `json:"serve"` // voters that serve clients and have a leader
	Voters int    `json:"voters"`
	Text   string `json:"text"`
}

type memberStatus struct {
	ID       wire.ID   `json:"id"`
	Node     string    `json:"node"`   // "" where its peer URL belongs to no known node
	Slot     wire.Slot `json:"slot"`   // member or seed
	Role     string    `json:"role"`   // voter or learner
	Leader   bool      `json:"leader"` // it leads
	Health   string    `json:"health"` // serves, up, down, silent, unstarted
	Term     uint64    `json:"term"`
	Index    uint64    `json:"index"`   // committed
	Applied  uint64    `json:"applied"` // to its database
	Lag      uint64    `json:"lag"`     // entries behind the leader
	LagKnown bool      `json:"lagKnown"`
	DBSize   int64     `json:"dbSize"`
	DBInUse  int64     `json:"dbInUse"`
	Revision int64     `json:"revision"`
	Version  string    `json:"version"`
	Alarms   []string  `json:"alarms,omitempty"`
	URL      string    `json:"url"`
}

type nodeStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Agent   string `json:"agent"` // answers or silent
	Why     string `json:"why,omitempty"`
	Version string `json:"version,omitempty"`
	// Seed and Member are the two slots in words: "running", "whole, parked", "absent".
	Seed        string      `json:"seed,omitempty"`
	Member      string      `json:"member,omitempty"`
	Proxy       string      `json:"proxy,omitempty"`  // what it does, in words
	Driver      string      `json:"driver,omitempty"` // who holds a live grant here
	Certificate *certStatus `json:"certificate,omitempty"`
	FreeBytes   int64       `json:"freeBytes,omitempty"`
	Problems    []string    `json:"problems,omitempty"`
}

type certStatus struct {
	Node     string    `json:"node"`
	Name     string    `json:"name"`
	NotAfter time.Time `json:"notAfter"`
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"` // True, False, Unknown
	Text   string `json:"text"`
}

// next is what a driver would do for the stored spec.
type next struct {
	Step     string   `json:"step,omitempty"` // "Done" when there is nothing
	Why      string   `json:"why,omitempty"`
	Refusals []string `json:"refusals,omitempty"`
	Waits    bool     `json:"waits,omitempty"` // they pass by themselves
}

func newStatus(v *driver.View, d pivot.Decision) *statusReport {
	r := &statusReport{V: wire.V, Time: v.At.UTC(), Epoch: v.Epoch, Leader: v.Leader, Wanted: []string{},
		Members: []memberStatus{}, Nodes: []nodeStatus{}}
	if v.Spec != nil {
		r.Target = v.Spec.Target
		for _, n := range v.Spec.Nodes {
			r.Wanted = append(r.Wanted, n.Name)
		}
	}
	for _, n := range v.Nodes {
		r.Nodes = append(r.Nodes, newNodeStatus(n))
	}
	r.fillMembers(v)
	r.Quorum = newQuorum(v, r.Members)
	for _, n := range r.Nodes {
		if c := n.Certificate; c != nil && (r.Certificate == nil || c.NotAfter.Before(r.Certificate.NotAfter)) {
			r.Certificate = c
		}
	}
	r.Conditions = newConditions(r, v)
	r.Next = newNext(d)
	return r
}

func newQuorum(v *driver.View, listed []memberStatus) quorum {
	q := quorum{State: pivot.QuorumUnknown.String()}
	var votes []pivot.Vote
	for _, m := range v.State.Voters() {
		vote := pivot.VoteUnknown
		switch m.Serves {
		case pivot.Yes:
			vote = pivot.VoteYes
			q.Serve++
		case pivot.No:
			vote = pivot.VoteDown
		}
		votes = append(votes, vote)
	}
	q.Voters = len(votes)
	state := pivot.Judge(votes)
	q.State = state.String()
	switch {
	case !v.State.ListKnown && len(listed) == 0:
		q.Text = "no quorum seen: nobody answers with a member list"
	case !v.State.ListKnown: // what one member last knew; good enough for words
		for _, m := range listed {
			if m.Role == pivot.Voter.String() {
				q.Voters++
				if m.Health == "serves" || m.Health == "up" {
					q.Serve++
				}
			}
		}
		q.Text = fmt.Sprintf("no quorum: %d of %d voters answer, and none leads", q.Serve, q.Voters)
		q.Serve = 0
	case state == pivot.QuorumHeld:
		q.Text = fmt.Sprintf("quorum held %d/%d", q.Serve, q.Voters)
	default:
		q.Text = fmt.Sprintf("no quorum: %d of %d voters serve", q.Serve, q.Voters)
	}
	return q
}

// fillMembers takes the leader's list, or else any member's own, named as such.
func (r *statusReport) fillMembers(v *driver.View) {
	if v.State.ListKnown {
		for _, m := range v.State.Members {
			r.Members = append(r.Members, newMemberStatus(v, m))
		}
		return
	}
	for _, n := range v.Nodes {
		if n.Obs == nil {
			continue
		}
		for _, sl := range n.Obs.Slots {
			if sl.Etcd == nil || len(sl.Etcd.Members) == 0 {
				continue
			}
			r.ListFrom = n.Ref.Name + "/" + string(sl.Slot)
			for _, m := range sl.Etcd.Members {
				r.Members = append(r.Members, newMemberStatus(v, servedMember(v, m)))
			}
			return
		}
	}
}

// servedMember is an entry of a list that no leader vouches for.
func servedMember(v *driver.View, m wire.Member) pivot.Member {
	out := pivot.Member{ID: pivot.MemberID(m.ID), Node: m.Name, Role: pivot.Voter, Slot: pivot.MemberSlot}
	if m.Learner {
		out.Role = pivot.Learner
	}
	if len(m.PeerURLs) > 0 {
		out.URL = m.PeerURLs[0]
	}
	if n, sl := v.SlotOfMember(m.ID); n != nil {
		out.Node, out.Slot = n.Ref.Name, pivot.SlotName(sl.Slot)
	}
	return out
}

func newMemberStatus(v *driver.View, m pivot.Member) memberStatus {
	out := memberStatus{ID: wire.ID(m.ID), Node: m.Node, Slot: slotOf(m), Role: m.Role.String(), Leader: m.ID != 0 && wire.ID(m.ID) == v.Leader,
		Lag: m.Lag, LagKnown: m.AtIndex != pivot.Unknown, URL: m.URL, Health: "silent"}
	n := v.Node(m.Node)
	if n == nil || n.Obs == nil {
		return out
	}
	sl := n.Obs.SlotOf(out.Slot)
	if sl == nil {
		return out
	}
	switch {
	case m.Serves == pivot.Yes:
		out.Health = "serves"
	case sl.Process.State == wire.ProcUp || sl.Process.State == wire.ProcServing:
		out.Health = "up" // and without a leader, or its client port still shut
	case m.Started == pivot.No:
		out.Health = "unstarted"
	case sl.Process.State == wire.ProcDown:
		out.Health = "down"
	default:
		out.Health = "unknown"
	}
	out.DBSize = sl.DBSize
	if e := sl.Etcd; e != nil {
		out.Term, out.Index, out.Applied, out.Revision = e.Term, e.Index, e.Applied, e.Revision
		out.Version, out.DBInUse, out.Alarms = e.Version, e.DBInUse, e.Alarms
		if e.DBSize != 0 {
			out.DBSize = e.DBSize
		}
	}
	return out
}

func newNext(d pivot.Decision) next {
	if d.Step != nil {
		return next{Step: d.Step.String(), Why: d.Step.Why}
	}
	out := next{Waits: d.Waits()}
	for _, r := range d.Refusals {
		out.Refusals = append(out.Refusals, r.String())
	}
	return out
}

package agent

import (
	"fmt"
	"slices"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// liveData is what a majority of the voters was seen to hold in one look.
type liveData struct {
	// unknown is why nothing is known, in words; the rest is then zero.
	unknown   string
	clusterID wire.ID
	term      uint64
	index     uint64 // applied by a majority
	revision  int64  // of a majority's databases
	serve     int    // voters that serve under this leader
	voters    int
}

func (l liveData) String() string {
	if l.unknown != "" {
		return "what the live members hold is not known: " + l.unknown
	}
	return fmt.Sprintf("%d of %d voters of cluster %s serve in term %d; a majority applied index %d and is at revision %d", l.serve, l.voters, l.clusterID, l.term, l.index, l.revision)
}

// liveOf reads one look at the agents. The list is the leader's own, read
// linearizably: the leader has then committed an entry of its term, so a log
// that ends in an older term has nothing above that which was ever committed.
func liveOf(seen []*wire.Observation) liveData {
	byID := map[wire.ID]*wire.EtcdStatus{}
	var lead *wire.EtcdStatus
	for _, o := range seen {
		for _, s := range o.Slots {
			e := s.Etcd
			if e == nil || e.From != "status" || e.MemberID == 0 {
				continue
			}
			byID[e.MemberID] = e
			if e.Leader == e.MemberID && e.Linearizable && len(e.Members) > 0 && (lead == nil || e.Term > lead.Term) {
				lead = e
			}
		}
	}
	if lead == nil {
		return liveData{unknown: "no leader answers with its member list"}
	}
	l := liveData{clusterID: lead.ClusterID, term: lead.Term}
	var applied []uint64
	var revisions []int64
	for _, m := range lead.Members {
		if m.Learner {
			continue
		}
		l.voters++
		if e := byID[m.ID]; e != nil && e.Leader == lead.MemberID && e.Term == lead.Term && e.ClusterID == lead.ClusterID {
			l.serve++
			applied, revisions = append(applied, e.Applied), append(revisions, e.Revision)
		}
	}
	need := l.voters/2 + 1
	if l.serve < need {
		return liveData{unknown: fmt.Sprintf("%d of %d voters serve", l.serve, l.voters)}
	}
	slices.Sort(applied)
	slices.Sort(revisions)
	l.index, l.revision = applied[l.serve-need], revisions[l.serve-need]
	return l
}

// holds says why l is not known to hold all that n's directory held, "" where it
// is (I3). Of a log that was never committed to its end it asks for the end all
// the same: too much is kept rather than too little.
func (l liveData) holds(n datadir.Note) string {
	switch {
	case n.Class == wire.ClassEmpty:
		return ""
	case n.Class != wire.ClassWhole:
		return fmt.Sprintf("it is %s, so what it holds is not fully known", n.Class)
	case n.ClusterID == 0 || n.LastIndex == 0:
		return "its note does not say how far it goes"
	case l.unknown != "":
		return l.String()
	case n.ClusterID != l.clusterID:
		return fmt.Sprintf("it is of cluster %s; the live one is %s, and the two cannot be compared", n.ClusterID, l.clusterID)
	case n.LastTerm > l.term || n.LastIndex > l.index || n.Revision > l.revision:
		return fmt.Sprintf("it goes to term %d, index %d, revision %d, and %s", n.LastTerm, n.LastIndex, n.Revision, l)
	}
	return ""
}

// keepReasons says of each entry (newest first) why it stays, "" where it may
// go. The newest keep directories stay whatever they hold.
func keepReasons(entries []datadir.Entry, l liveData, keep int) []string {
	out := make([]string, len(entries))
	newest := 0
	for i, e := range entries {
		switch {
		case e.Doomed:
		case e.Problem != "":
			out[i] = e.Problem
		case newest < keep:
			newest++
			out[i] = fmt.Sprintf("among the %d newest", keep)
		default:
			out[i] = l.holds(e.Note)
		}
	}
	return out
}

package pivot

import "testing"

func seedState(nodes ...string) State {
	s := State{Want: Want{Target: TargetMembers, Nodes: nodes}, ListKnown: true, Leader: 1,
		Members: []Member{{ID: 1, Node: nodes[0], Slot: SeedSlot, Role: Voter, Started: Yes, Serves: Yes, AtIndex: Yes}}}
	for i, n := range nodes {
		nd := Node{Name: n, Agent: Answers, SpecCurrent: No, Member: Slot{Class: Absent, Proc: Down}, Seed: Slot{Class: Absent, Proc: Down}, Proxy: Proxy{Routed: No}}
		if i == 0 {
			nd.Seed = Slot{Class: Running, ID: 1, Proc: Serving, PeerUp: Yes, Args: "max-learners=8"}
		}
		s.Nodes = append(s.Nodes, nd)
	}
	return s
}

func TestRoutePlain(t *testing.T) {
	for _, nodes := range [][]string{{"cp-1"}, {"cp-1", "cp-2"}, {"cp-1", "cp-2", "cp-3"}, {"cp-1", "cp-2", "cp-3", "cp-4", "cp-5"}} {
		r := Route(seedState(nodes...), 200)
		for _, e := range r {
			t.Log(e.Decision.String())
		}
		if last := r[len(r)-1].Decision; last.Step == nil || last.Step.Kind != Done {
			t.Fatalf("%d nodes: the route ends in %s", len(nodes), last)
		}
	}
}

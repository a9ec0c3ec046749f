package pivot

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// The dumb twin: a quorum is any set of voters that every other such set meets.
// Nothing here counts halves.

// meets says whether two sets of at most 8 voters share one.
func meets(a, b int) bool { return a&b != 0 }

// dumbMajority says whether set decides for n voters: no two sets that decide
// may be disjoint, so it must meet every set at least as large as itself.
func dumbMajority(set, n int) bool {
	if set == 0 {
		return false
	}
	for other := 0; other < 1<<n; other++ {
		if size(other) >= size(set) && !meets(set, other) {
			return false
		}
	}
	return true
}

func size(set int) (n int) {
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}

func TestMajorityTwin(t *testing.T) {
	for n := 0; n <= 7; n++ {
		for set := 0; set < 1<<n; set++ {
			if got, want := size(set) >= Majority(n), dumbMajority(set, n); got != want {
				t.Fatalf("%b of %d: %v, the twin says %v", set, n, got, want)
			}
		}
	}
}

// TestJudgeTwin enumerates every vote of up to 7 voters. Held: those who say yes
// decide. Lost: even if everybody who is not gone said yes, they would not.
func TestJudgeTwin(t *testing.T) {
	seen := map[Quorum]int{}
	for n := 0; n <= 7; n++ {
		votes := make([]Vote, n)
		var each func(i int)
		each = func(i int) {
			if i < n {
				for v := VoteUnknown; v <= VoteGone; v++ {
					votes[i] = v
					each(i + 1)
				}
				return
			}
			yes, hope := 0, 0
			for j, v := range votes {
				if v == VoteYes {
					yes |= 1 << j
				}
				if v != VoteGone {
					hope |= 1 << j
				}
			}
			want := QuorumUnknown
			switch {
			case dumbMajority(yes, n):
				want = QuorumHeld
			case n > 0 && !dumbMajority(hope, n):
				want = QuorumLost
			}
			if got := Judge(votes); got != want {
				t.Fatalf("%v: %s, the twin says %s", votes, got, want)
			}
			seen[want]++
		}
		each(0)
	}
	if len(seen) != 3 {
		t.Fatalf("not every answer was seen: %v", seen)
	}
}

// TestJointMajorityTwin enumerates voters, desired nodes and answers over 5
// names; the voters list may name one node twice (seed and member).
func TestJointMajorityTwin(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	pick := func(set int) (out []string) {
		for i, n := range names {
			if set>>i&1 == 1 {
				out = append(out, n)
			}
		}
		return out
	}
	// squeeze keeps the bits of set that are in of, numbered anew.
	squeeze := func(set, of int) (out int) {
		j := 0
		for i := range names {
			if of>>i&1 == 1 {
				out |= (set >> i & 1) << j
				j++
			}
		}
		return out
	}
	for voters := 0; voters < 32; voters++ {
		for desired := 0; desired < 32; desired++ {
			for answered := 0; answered < 32; answered++ {
				m := map[string]bool{}
				for _, n := range pick(answered) {
					m[n] = true
				}
				want := dumbMajority(squeeze(answered, voters), size(voters)) && dumbMajority(squeeze(answered, desired), size(desired))
				v := pick(voters)
				if len(v) > 0 {
					v = append(v, v[0])
				}
				if got := JointMajority(m, v, pick(desired)); got != want {
					t.Fatalf("answered %v of voters %v and desired %v: %v, the twin says %v", pick(answered), v, pick(desired), got, want)
				}
			}
		}
	}
}

// TestTwoDriversNeverBothHoldJointMajorities: whatever two drivers desire, the
// agents of the voters let only one of them drive.
func TestTwoDriversNeverBothHoldJointMajorities(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(t *rapid.T) {
		subset := func(label string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, len(names), rapid.ID[string]).Draw(t, label)
		}
		voters, mine, theirs := subset("voters"), subset("mine"), subset("theirs")
		a, b := map[string]bool{}, map[string]bool{}
		for _, n := range names { // an agent grants one driver at a time
			switch rapid.IntRange(0, 2).Draw(t, n) {
			case 0:
				a[n] = true
			case 1:
				b[n] = true
			}
		}
		if JointMajority(a, voters, mine) && JointMajority(b, voters, theirs) {
			t.Fatalf("both drive: %v and %v over voters %v", a, b, voters)
		}
	})
}

// TestKeepsQuorumTwin: the guard lets a step pass exactly where those who serve
// afterwards decide for the configuration that is left.
func TestKeepsQuorumTwin(t *testing.T) {
	passed, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "members")
		s := State{ListKnown: true}
		for i := range n {
			s.Members = append(s.Members, Member{ID: MemberID(i + 1), Node: fmt.Sprint("n", i), Slot: MemberSlot,
				Role:   rapid.SampledFrom([]Role{Learner, Voter}).Draw(t, "role"),
				Serves: rapid.SampledFrom([]Tri{Unknown, No, Yes}).Draw(t, "serves")})
		}
		step := Step{Kind: rapid.SampledFrom([]Kind{PromoteLearner, StopMember, RemoveMember}).Draw(t, "kind"),
			ID: MemberID(rapid.IntRange(1, n).Draw(t, "id"))}
		m := s.Member(step.ID)
		if step.Kind == PromoteLearner && m.Role != Learner || step.Kind != PromoteLearner && m.Role != Voter {
			return
		}
		// the world after the step, in a list
		voters, serving := 0, 0
		for _, x := range s.Members {
			switch {
			case step.Kind == RemoveMember && x.ID == step.ID:
				continue
			case x.Role != Voter && x.ID != step.ID:
				continue
			}
			if x.Serves == Yes && !(step.Kind == StopMember && x.ID == step.ID) {
				serving |= 1 << voters
			}
			voters++
		}
		got, want := keepsQuorum(&s, step) == nil, dumbMajority(serving, voters)
		if got != want {
			t.Fatalf("%s in\n%s: guard lets pass: %v, the twin: %v", step, s, got, want)
		}
		if got {
			passed++
		} else {
			refused++
		}
	})
	if passed == 0 || refused == 0 {
		t.Fatalf("%d passed, %d refused: nothing was shown", passed, refused)
	}
}

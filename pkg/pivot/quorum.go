package pivot

import "fmt"

// Vote is what one voter can still give. The zero value is unknown.
type Vote uint8

// Votes. Registered-but-down voters are VoteDown: lost for I2, not gone for I4.
const (
	VoteUnknown Vote = iota
	VoteYes
	VoteDown
	VoteGone
)

// Quorum is raft's answer with three values: pending is not lost
// (etcd-io/raft quorum.VoteResult).
type Quorum uint8

// Quorum values.
const (
	QuorumUnknown Quorum = iota
	QuorumHeld
	QuorumLost
)

func (q Quorum) String() string { return [...]string{"Unknown", "Held", "Lost"}[q] }

// Majority of n voters; 1 for none, so that nobody never decides.
func Majority(n int) int { return n/2 + 1 }

// Judge counts votes of one configuration: Held when a majority says yes, Lost
// when so many are gone that no majority can be left, Unknown otherwise. An
// empty configuration is Unknown.
func Judge(votes []Vote) Quorum {
	yes, gone := 0, 0
	for _, v := range votes {
		switch v {
		case VoteYes:
			yes++
		case VoteGone:
			gone++
		}
	}
	need := Majority(len(votes))
	switch {
	case yes >= need:
		return QuorumHeld
	case len(votes) > 0 && len(votes)-gone < need:
		return QuorumLost
	}
	return QuorumUnknown
}

// JointMajority says whether answered holds a majority of both sets (raft's
// joint rule); an empty set is never satisfied.
func JointMajority(answered map[string]bool, voters, desired []string) bool {
	return majorityOf(answered, voters) && majorityOf(answered, desired)
}

func majorityOf(answered map[string]bool, set []string) bool {
	n, seen := 0, map[string]bool{}
	for _, s := range set {
		if seen[s] {
			continue // two voters on one node (seed and member) are one agent
		}
		seen[s] = true
		if answered[s] {
			n++
		}
	}
	return n >= Majority(len(seen)) && len(seen) > 0
}

// votes of the list with hypothetical changes: ids in down do not vote, those
// in without are not counted, those in plus count as voters.
func (s *State) quorumWith(down, without, plus map[MemberID]bool) (have, need, of int) {
	for _, m := range s.Members {
		if without[m.ID] || (m.Role != Voter && !plus[m.ID]) {
			continue
		}
		of++
		if m.Serves == Yes && !down[m.ID] {
			have++
		}
	}
	return have, Majority(of), of
}

// Judge of the present list: who serves votes yes, nobody is known gone.
func (s *State) quorum() (Quorum, string) {
	var votes []Vote
	yes, silent := 0, 0
	for _, m := range s.Voters() {
		v := VoteUnknown
		switch {
		case m.Serves == Yes:
			v = VoteYes
			yes++
		case m.Serves == No:
			v = VoteDown
		default:
			silent++
		}
		votes = append(votes, v)
	}
	return Judge(votes), fmt.Sprintf("%d of %d voters serve, %d silent", yes, len(votes), silent)
}

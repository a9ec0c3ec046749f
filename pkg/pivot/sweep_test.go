//go:build sweep

package pivot

import "testing"

// The full length: two accidents for two and three nodes (minutes), five nodes
// without an accident and with a few kinds of directories.

func TestSweepWalkTwoNodes(t *testing.T) {
	runWalk(t, newWalk(2, TargetMembers, Next), pivotRoots(2, 3, classesOfAMember))
}

func TestSweepWalkThreeNodes(t *testing.T) {
	runWalk(t, newWalk(3, TargetMembers, Next), pivotRoots(3, 2, classesOfAMember))
}

func TestSweepWalkFiveNodes(t *testing.T) {
	runWalk(t, newWalk(5, TargetMembers, Next), pivotRoots(5, 0, []Class{Absent, Whole, Part}))
}

func TestSweepWalkFiveNodesOneAccident(t *testing.T) {
	runWalk(t, newWalk(5, TargetMembers, Next), pivotRoots(5, 1, []Class{Absent}))
}

//go:build sweep

package pivot

import "testing"

// The full length: two accidents for two and three nodes (minutes), five nodes
// without an accident and with a few kinds of directories.

func TestSweepWalkTwoNodes(t *testing.T) {
	runWalk(t, newWalk(2, Next), pivotRoots(2, 3, classesOfAMember))
}

func TestSweepWalkThreeNodes(t *testing.T) {
	runWalk(t, newWalk(3, Next), pivotRoots(3, 2, classesOfAMember))
}

func TestSweepWalkTurningTwoNodes(t *testing.T) {
	runWalk(t, turning(2), turningRoots(2, 1))
}

func TestSweepWalkTurningThreeNodes(t *testing.T) {
	runWalk(t, turning(3), turningRoots(3, 0))
}

func TestSweepWalkTurningThreeNodesOneAccident(t *testing.T) {
	runWalk(t, coarse(turning(3)), turningRoots(3, 1))
}

func TestSweepWalkFiveNodes(t *testing.T) {
	runWalk(t, newWalk(5, Next), pivotRoots(5, 0, []Class{Absent, Whole, Part}))
}

func TestSweepWalkFiveNodesOneAccident(t *testing.T) {
	runWalk(t, newWalk(5, Next), pivotRoots(5, 1, []Class{Absent}))
}

//go:build sweep

package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// eachStep pivots a fresh cluster once per step, with one accident after that
// step alone; from is the node the driver runs on. Sweeps run two at a time:
// most of it is waiting.
func eachStep(t *testing.T, from int, a accident) {
	t.Parallel()
	total := len(inTurn(t, rig.Up(t, 3), from, func(int, pivot.Step) *accident { return nil }))
	for k := 1; k <= total; k++ {
		t.Run(fmt.Sprintf("step-%02d", k), func(t *testing.T) {
			inTurn(t, rig.Up(t, 3), from, func(n int, _ pivot.Step) *accident {
				if n == k {
					return &a
				}
				return nil
			})
		})
	}
}

func TestAgentOfTheSeedKilledAfterEachStepAlone(t *testing.T) { eachStep(t, 0, agentDies(0)) }

func TestAgentOfAJoinerKilledAfterEachStepAlone(t *testing.T) { eachStep(t, 0, agentDies(2)) }

func TestSeedKilledAfterEachStepAlone(t *testing.T) { eachStep(t, 0, dies(0, "seed")) }

func TestJoinerKilledAfterEachStepAlone(t *testing.T) { eachStep(t, 0, dies(2, "member")) }

func TestPowerLossOfTheSeedsNodeAtEachStep(t *testing.T) {
	eachStep(t, 1, losesPower(0, 2*time.Second))
}

func TestPowerLossOfAJoinerAtEachStep(t *testing.T) { eachStep(t, 0, losesPower(2, 2*time.Second)) }

func TestSeedPausedAtEachStep(t *testing.T) { eachStep(t, 0, pausedFor(0, "seed", 10*time.Second)) }

func TestJoinerPausedAtEachStep(t *testing.T) { eachStep(t, 0, pausedFor(1, "member", 10*time.Second)) }

// Four minutes at a tenth of the time: still alive, never evicted.
func TestSlowLearnerForFourMinutes(t *testing.T) {
	t.Parallel()
	slowLearner(t, 4*time.Minute)
}

// P4 at full length.
func TestP4TooManyRequestsForHalfAMinute(t *testing.T) {
	t.Parallel()
	tooManyRequests(t, 30*time.Second)
}

//go:build sweep

package cases

import "testing"

func TestDriverKilledAfterEachStepAlone(t *testing.T) { sweepKills(t) }

func TestTurnRoundAfterEachStep(t *testing.T) { sweepTurns(t) }

package pki

import (
	"net/http"
	"slices"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Rule says who may call one RPC of the agent.
type Rule struct {
	Method string
	Path   string
	Roles  []Role
}

var (
	drivers = []Role{RoleDriver}
	ours    = []Role{RoleDriver, RoleAgent}
)

// Rules is the whole access table; docs/reference/rpc-access.md shows the same.
// Agents may look, and do the two things the leader's agent needs of the
// others around a change of leadership; everything that changes a node needs a
// driver, which needs a grant besides.
func Rules() []Rule {
	return []Rule{
		{http.MethodGet, wire.PathObserve, ours},
		{http.MethodGet, wire.PathJournal, ours},
		{http.MethodGet, wire.PathFence, ours},
		{http.MethodPost, wire.PathGrantTake, drivers},
		{http.MethodPost, wire.PathGrantDrop, drivers},
		{http.MethodPost, wire.PathSpec, drivers},
		{http.MethodPost, wire.PathHash, drivers},
		{http.MethodPost, wire.PathTargets, drivers},
		{http.MethodPost, wire.PathHold, ours},
		{http.MethodPost, wire.PathCloseDrain, ours},
		{http.MethodPost, wire.PathTombstone, drivers},
		{http.MethodPost, wire.PathSlotStart, drivers},
		{http.MethodPost, wire.PathSlotRestart, drivers},
		{http.MethodPost, wire.PathSlotStop, drivers},
		{http.MethodPost, wire.PathSlotRetire, drivers},
		{http.MethodPost, wire.PathAddLearner, drivers},
		{http.MethodPost, wire.PathPromote, drivers},
		{http.MethodPost, wire.PathRemove, drivers},
		{http.MethodPost, wire.PathMoveLeader, drivers},
		{http.MethodPost, wire.PathCertDriver, drivers},
		{http.MethodGet, wire.PathAttic, drivers},
		{http.MethodPost, wire.PathAtticPrune, drivers},
		{http.MethodGet, wire.PathJournalFiles, drivers},
		{http.MethodPost, wire.PathJournalPrune, drivers},
	}
}

// Allowed says whether role may call path. A path that is not in Rules is
// nobody's.
func Allowed(path string, role Role) bool {
	for _, r := range Rules() {
		if r.Path == path {
			return slices.Contains(r.Roles, role)
		}
	}
	return false
}

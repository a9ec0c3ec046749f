package operator

import (
	"fmt"
	"slices"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// turn is everything known of one object at the end of one turn, from which its
// status follows.
type turn struct {
	object *v1alpha1.EtcdCluster
	choice choice
	view   *driver.View   // nil: no agent was asked
	dec    pivot.Decision // of the brain, for what the view was judged against
	past   past
	// refusal of the object by the operator itself; nil: it is obeyed.
	refusal *Refusal
	// failed is how the last run ended, where it did not end well; empty else.
	failed string
	// working: a run is under way.
	working bool
}

// status of the object, conditions apart from their transition times.
func (t *turn) status() v1alpha1.EtcdClusterStatus {
	s := v1alpha1.EtcdClusterStatus{ObservedGeneration: t.object.Generation, Spares: t.choice.spares, FromThePast: t.past.status(t.object)}
	s.Size = int32(len(t.choice.nodes))
	if v := t.view; v != nil {
		if s.Size == 0 && v.Wanted() != nil {
			s.Size = int32(len(v.Wanted().Nodes))
		}
		s.Epoch = int64(v.Epoch.Number)
		if v.Epoch.ClusterID != 0 {
			s.ClusterID = v.Epoch.ClusterID.String()
		}
		s.Members = members(v)
		s.Version = strings.Join(versions(v), ", ")
		for _, m := range s.Members {
			if m.Role != roleLearner && m.Health == healthServes {
				s.Ready++
			}
			if m.Role == roleLeader {
				s.Leader, s.DBSize = m.Node, m.DBSize
			}
		}
	}
	if total(t.refusal) { // nothing is known of the cluster that this object is about
		s.Epoch, s.ClusterID = t.object.Status.Epoch, t.object.Status.ClusterID
		s.Members, s.Version, s.Ready, s.Leader, s.DBSize = nil, "", 0, "", ""
	}
	s.Phase, s.Message = t.phase(), t.message()
	s.Conditions = t.conditions()
	return s
}

func total(r *Refusal) bool { return r != nil && r.Total }

const (
	roleLeader, roleVoter, roleLearner = "Leader", "Voter", "Learner"
	healthServes                       = "Serves"
)

func members(v *driver.View) []v1alpha1.MemberStatus {
	var out []v1alpha1.MemberStatus
	for _, m := range v.State.Members {
		ms := v1alpha1.MemberStatus{ID: m.ID.String(), Node: m.Node, Slot: string(m.Slot), Role: roleVoter, Health: health(v, m)}
		switch {
		case wire.ID(m.ID) == v.Leader:
			ms.Role = roleLeader
		case m.Role == pivot.Learner:
			ms.Role = roleLearner
		}
		for _, l := range v.Members {
			if l.ID == wire.ID(m.ID) {
				ms.Name = l.Name
			}
		}
		if m.AtIndex != pivot.Unknown {
			lag := int64(m.Lag)
			ms.Lag = &lag
		}
		if sl := slot(v, m); sl != nil && sl.Etcd != nil {
			ms.Version, ms.DBSize = sl.Etcd.Version, bytesText(sl.Etcd.DBSize)
		}
		out = append(out, ms)
	}
	slices.SortFunc(out, func(a, b v1alpha1.MemberStatus) int { return strings.Compare(a.Node+a.ID, b.Node+b.ID) })
	return out
}

func slot(v *driver.View, m pivot.Member) *wire.SlotStatus {
	if nv := v.Node(m.Node); nv != nil && nv.Obs != nil {
		return nv.Obs.SlotOf(wire.Slot(m.Slot))
	}
	return nil
}

func health(v *driver.View, m pivot.Member) string {
	sl := slot(v, m)
	switch {
	case m.Serves == pivot.Yes:
		return healthServes
	case sl == nil && m.Node != "":
		return "Silent"
	case sl == nil:
		return "Unknown"
	case sl.Process.State == wire.ProcUp || sl.Process.State == wire.ProcServing:
		return "Up"
	case m.Started == pivot.No:
		return "Unstarted"
	case sl.Process.State == wire.ProcDown:
		return "Down"
	}
	return "Unknown"
}

// versions that members run, each once, the oldest first.
func versions(v *driver.View) []string {
	var out []string
	for _, m := range v.State.Members {
		if sl := slot(v, m); sl != nil && sl.Etcd != nil && sl.Etcd.Version != "" {
			out = append(out, sl.Etcd.Version)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		va, err := utilversion.ParseGeneric(a)
		if err != nil {
			return strings.Compare(a, b)
		}
		order, err := va.Compare(b)
		if err != nil {
			return strings.Compare(a, b)
		}
		return order
	})
	return slices.Compact(out)
}

// bytesText rounds as people read it; it changes seldom, so status does too.
func bytesText(n int64) string {
	switch {
	case n <= 0:
		return ""
	case n < 1<<30:
		return fmt.Sprintf("%d MiB", max(1, (n+1<<19)>>20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

func (t *turn) phase() v1alpha1.Phase {
	v := t.view
	switch {
	case t.refusal != nil:
		return v1alpha1.PhaseRefused
	case v == nil || v.Spec == nil:
		return v1alpha1.PhaseUnknown
	case t.object.Spec.Paused:
		return v1alpha1.PhasePaused
	case quorumOf(v) != pivot.QuorumHeld && !v.State.ListKnown:
		return v1alpha1.PhaseNoQuorum
	case t.blocked():
		return v1alpha1.PhaseDegraded
	case t.done() && v.State.Want.Target == pivot.TargetSeed:
		return v1alpha1.PhaseSeed
	case t.done():
		return v1alpha1.PhaseRunning
	case v.State.SeedMember() != nil:
		return v1alpha1.PhasePivoting
	case membersMissing(v):
		return v1alpha1.PhaseScaling
	}
	return v1alpha1.PhaseDegraded
}

func (t *turn) done() bool { return t.dec.Step != nil && t.dec.Step.Kind == pivot.Done }

// blocked: the brain's refusals do not pass by themselves.
func (t *turn) blocked() bool { return t.dec.Step == nil && len(t.dec.Refusals) > 0 && !t.dec.Waits() }

func membersMissing(v *driver.View) bool {
	for _, n := range v.State.Want.Nodes {
		if m := v.State.MemberOn(n, pivot.MemberSlot); m == nil || m.Role != pivot.Voter {
			return true
		}
	}
	return false
}

func (t *turn) message() string {
	switch {
	case t.refusal != nil:
		return t.refusal.Name + ": " + t.refusal.String()
	case t.view == nil:
		return "no agent was asked yet"
	case t.object.Spec.Paused:
		return "paused; would do: " + t.next()
	case t.failed != "" && !t.done() && !t.working:
		return t.failed
	}
	return t.next()
}

// next is the decision in words, the first refusal of several.
func (t *turn) next() string {
	if t.dec.Step != nil {
		if t.done() {
			return t.dec.Step.Why
		}
		return t.dec.String()
	}
	if len(t.dec.Refusals) == 0 {
		return "nothing is known yet"
	}
	r := t.dec.Refusals[0]
	if n := len(t.dec.Refusals) - 1; n > 0 {
		return fmt.Sprintf("%s (and %d more)", refusalText(r), n)
	}
	return refusalText(r)
}

func refusalText(r pivot.Refusal) string {
	s := r.Name
	if r.Node != "" {
		s += " " + r.Node
	}
	s += ": " + r.Found
	if r.Want != "" {
		s += "; needed: " + r.Want
	}
	return s
}

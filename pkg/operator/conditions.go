package operator

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// conditions of a turn. Transition times are the object's own where nothing
// changed. After a total refusal nothing is claimed about the cluster.
func (t *turn) conditions() []metav1.Condition {
	out := append([]metav1.Condition(nil), t.object.Status.Conditions...)
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&out, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: clip(message), ObservedGeneration: t.object.Generation})
	}
	set(t.available())
	set(t.quorumHealthy())
	set(t.progressing())
	set(t.degraded())
	set(t.pivoted())
	switch {
	case t.past.is:
		set(v1alpha1.ConditionSpecFromThePast, metav1.ConditionTrue, ReasonSpecFromThePast, t.past.found+". It is not obeyed until it is edited, or annotated "+
			fmt.Sprintf("%s=%d", v1alpha1.AcceptSpecAnnotation, t.object.Generation)+"; "+difference(t.choice.nodes, t.storedSpec()))
	case t.past.accepted:
		set(v1alpha1.ConditionSpecFromThePast, metav1.ConditionFalse, ReasonAccepted, t.past.found+"; it was edited or confirmed since")
	default:
		set(v1alpha1.ConditionSpecFromThePast, metav1.ConditionFalse, ReasonNotFromThePast, "not older than what the agents store")
	}
	return out
}

// clip keeps messages within what the API takes (32 KiB) and people read.
func clip(s string) string {
	const most = 1000
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + " …"
	}
	return s
}

// unseen is what a condition says while the cluster itself was not seen.
func (t *turn) unseen() (reason, message string, ok bool) {
	switch {
	case total(t.refusal):
		return t.refusal.Name, t.refusal.String(), true
	case t.view == nil && t.refusal != nil:
		return t.refusal.Name, t.refusal.String(), true
	case t.view == nil || !answered(t.view):
		return ReasonNoAgents, "no agent answers" + t.silence(), true
	}
	return "", "", false
}

func answered(v *driver.View) bool {
	for _, n := range v.Nodes {
		if n.Obs != nil {
			return true
		}
	}
	return false
}

func (t *turn) silence() string {
	if t.view == nil {
		return ""
	}
	for _, n := range t.view.Nodes {
		if n.Obs == nil && n.Err != nil {
			return "; " + n.Ref.Name + ": " + n.Err.Error()
		}
	}
	return ""
}

func quorumOf(v *driver.View) pivot.Quorum {
	var votes []pivot.Vote
	for _, m := range v.State.Voters() {
		vote := pivot.VoteUnknown
		switch m.Serves {
		case pivot.Yes:
			vote = pivot.VoteYes
		case pivot.No:
			vote = pivot.VoteDown
		}
		votes = append(votes, vote)
	}
	return pivot.Judge(votes)
}

func (t *turn) available() (kind string, st metav1.ConditionStatus, reason, message string) {
	kind = v1alpha1.ConditionAvailable
	if r, m, ok := t.unseen(); ok {
		return kind, metav1.ConditionUnknown, r, m
	}
	serve, voters := voters(t.view)
	switch {
	case t.view.State.ListKnown && quorumOf(t.view) == pivot.QuorumHeld:
		return kind, metav1.ConditionTrue, ReasonQuorumHeld, fmt.Sprintf("%d of %d voters serve", serve, len(voters))
	case t.view.State.ListKnown:
		return kind, metav1.ConditionUnknown, ReasonQuorumUnknown, fmt.Sprintf("%d of %d voters serve", serve, len(voters))
	}
	return kind, metav1.ConditionFalse, "NoLeader", "no member answers as leader" + t.silence()
}

func voters(v *driver.View) (serve int, all []pivot.Member) {
	all = v.State.Voters()
	for _, m := range all {
		if m.Serves == pivot.Yes {
			serve++
		}
	}
	return serve, all
}

func (t *turn) quorumHealthy() (kind string, st metav1.ConditionStatus, reason, message string) {
	kind = v1alpha1.ConditionQuorumHealthy
	if r, m, ok := t.unseen(); ok {
		return kind, metav1.ConditionUnknown, r, m
	}
	if !t.view.State.ListKnown {
		return kind, metav1.ConditionUnknown, "NoLeader", "no member list is known without a leader"
	}
	serve, all := voters(t.view)
	if serve == len(all) {
		return kind, metav1.ConditionTrue, ReasonAllVotersServe, fmt.Sprintf("%d of %d; %d may fail", serve, len(all), len(all)-pivot.Majority(len(all)))
	}
	var bad []string
	for _, m := range all {
		if m.Serves != pivot.Yes {
			bad = append(bad, fmt.Sprintf("%s on %s: %s", m.ID, orUnknown(m.Node), health(t.view, m)))
		}
	}
	return kind, metav1.ConditionFalse, ReasonVotersMissing, fmt.Sprintf("%d of %d voters serve: %s", serve, len(all), strings.Join(bad, ", "))
}

func orUnknown(s string) string {
	if s == "" {
		return "no known node"
	}
	return s
}

func (t *turn) progressing() (kind string, st metav1.ConditionStatus, reason, message string) {
	kind = v1alpha1.ConditionProgressing
	switch {
	case t.refusal != nil:
		return kind, metav1.ConditionFalse, t.refusal.Name, t.refusal.String()
	case t.view == nil || t.view.Spec == nil && !answered(t.view):
		return kind, metav1.ConditionUnknown, ReasonNoAgents, "no agent answers" + t.silence()
	case t.object.Spec.Paused:
		return kind, metav1.ConditionFalse, ReasonPaused, t.message()
	case t.done():
		return kind, metav1.ConditionFalse, string(pivot.Done), t.dec.Step.Why
	case t.dec.Step != nil:
		return kind, metav1.ConditionTrue, string(t.dec.Step.Kind), t.dec.String()
	case len(t.dec.Refusals) == 0:
		return kind, metav1.ConditionUnknown, ReasonNoAgents, "nothing was decided"
	case t.dec.Waits():
		return kind, metav1.ConditionTrue, t.dec.Refusals[0].Name, t.next()
	}
	return kind, metav1.ConditionFalse, t.dec.Refusals[0].Name, allRefusals(t.dec)
}

func allRefusals(d pivot.Decision) string {
	var rows []string
	for _, r := range d.Refusals {
		rows = append(rows, refusalText(r))
	}
	return strings.Join(rows, "; ")
}

// degraded: something needs a person, or does not serve.
func (t *turn) degraded() (kind string, st metav1.ConditionStatus, reason, message string) {
	kind = v1alpha1.ConditionDegraded
	switch {
	case t.refusal != nil:
		return kind, metav1.ConditionTrue, t.refusal.Name, t.refusal.String()
	case t.view == nil || !answered(t.view):
		return kind, metav1.ConditionTrue, ReasonNoAgents, "no agent answers" + t.silence()
	case t.blocked():
		return kind, metav1.ConditionTrue, t.dec.Refusals[0].Name, allRefusals(t.dec)
	case !t.view.State.ListKnown:
		return kind, metav1.ConditionTrue, "NoLeader", "no member answers as leader"
	}
	if serve, all := voters(t.view); serve < len(all) {
		_, _, _, m := t.quorumHealthy()
		return kind, metav1.ConditionTrue, ReasonVotersMissing, m
	}
	if t.failed != "" && !t.working && !t.done() {
		return kind, metav1.ConditionTrue, ReasonRunFailed, t.failed
	}
	return kind, metav1.ConditionFalse, ReasonAsExpected, "every voter serves and nothing is refused"
}

func (t *turn) pivoted() (kind string, st metav1.ConditionStatus, reason, message string) {
	kind = v1alpha1.ConditionPivoted
	if r, m, ok := t.unseen(); ok {
		return kind, metav1.ConditionUnknown, r, m
	}
	s := &t.view.State
	switch {
	case !s.ListKnown:
		return kind, metav1.ConditionUnknown, "NoLeader", "no member list is known without a leader"
	case s.SeedMember() != nil:
		return kind, metav1.ConditionFalse, ReasonSeed, "the seed on " + s.SeedMember().Node + " is still a member"
	case s.Want.Target == pivot.TargetMembers && membersMissing(t.view):
		return kind, metav1.ConditionTrue, string(pivot.Done), "no seed is left; members are being added"
	}
	return kind, metav1.ConditionTrue, string(pivot.Done), "no seed is left"
}

func (t *turn) storedSpec() *wire.Spec {
	if t.view == nil {
		return nil
	}
	return t.view.Spec
}

package operator

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
)

const maxNote = 1000 // the API takes 1024 bytes

// recorder tells people, by Events on the object, what was done and what was
// refused. It never blocks a run: the events wait in a queue while the API is
// away, and equal ones become a series of one.
type recorder struct{ to events.EventRecorder }

// of a driver: steps that worked, and those that failed.
func (r recorder) of(c *v1alpha1.EtcdCluster, ev driver.Event) {
	switch {
	case ev.Kind == driver.EventDone && ev.Took > 0: // Done itself is no deed
		r.event(c, ev.Step.Node, corev1.EventTypeNormal, string(ev.Step.Kind), ev.Step.String()+": "+ev.Step.Why)
	case ev.Kind == driver.EventFailed:
		r.event(c, ev.Step.Node, corev1.EventTypeWarning, string(ev.Step.Kind), ev.Step.String()+" failed, looking again: "+ev.Err.Error())
	}
}

// event names the node as the related object, so that steps on two nodes are
// two events, not a series.
func (r recorder) event(c *v1alpha1.EtcdCluster, node, kind, reason, note string) {
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") + " …"
	}
	var related runtime.Object
	if node != "" {
		related = &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: node}}
	}
	r.to.Eventf(c, related, kind, reason, reason, "%s", note)
}

// tell what is refused, when it changes: a refusal that stands is one event.
func (o *Operator) tell(e *engine, t *turn) {
	name, node, note := "", "", ""
	switch {
	case t.refusal != nil:
		name, node, note = t.refusal.Name, t.refusal.Node, t.refusal.String()
	case t.blocked() && !t.working:
		r := t.dec.Refusals[0]
		name, node, note = r.Name, r.Node, allRefusals(t.dec)
	}
	if told := name + " " + node; told != e.told {
		e.told = told
		if name != "" {
			o.log.Warn("refused", "etcdcluster", e.name.String(), "reason", name, "what", note)
			o.events.event(t.object, node, corev1.EventTypeWarning, name, note)
		}
	}
}

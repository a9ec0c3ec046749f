package operator

import (
	"fmt"
	"strconv"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// past is what the agents' record says of an object (DESIGN "Desired spec").
type past struct {
	is       bool // from the past, and not to be obeyed
	accepted bool // from the past, and a person has edited or confirmed it since
	record   string
	found    string
}

// fromThePast compares an object with the source of the agents' spec. The
// object lives in the data and travels back in time with it; the agents' record
// does not. Older is a lower generation under the same UID, or another object
// that was created earlier than the one on record (re-creating adopts, and is later).
func fromThePast(c *v1alpha1.EtcdCluster, v *driver.View) past {
	if v.Spec == nil || v.Spec.Source == nil {
		return past{}
	}
	src := v.Spec.Source
	same := src.UID == string(c.UID)
	switch {
	case same && c.Generation >= src.Generation:
		return past{}
	case !same && !c.CreationTimestamp.Time.Before(src.Created):
		return past{}
	}
	p := past{is: true, record: fmt.Sprintf("epoch %d, %s generation %d", v.Epoch.Number, src.UID, src.Generation)}
	p.found = fmt.Sprintf("the agents store generation %d of this object, which is at %d", src.Generation, c.Generation)
	if !same {
		p.found = fmt.Sprintf("the agents store an object made at %s, after this one", src.Created.UTC().Format("2006-01-02T15:04:05Z"))
	}
	edited := c.Status.FromThePast != nil && c.Status.FromThePast.Record == p.record && c.Generation > c.Status.FromThePast.Generation
	if edited || c.Annotations[v1alpha1.AcceptSpecAnnotation] == strconv.FormatInt(c.Generation, 10) {
		p.is, p.accepted = false, true
	}
	return p
}

// status is what the object remembers of it: the generation at which it was
// found, until the agents store a later spec of it.
func (p past) status(c *v1alpha1.EtcdCluster) *v1alpha1.PastStatus {
	if !p.is && !p.accepted {
		return nil
	}
	if have := c.Status.FromThePast; have != nil && have.Record == p.record {
		return have
	}
	return &v1alpha1.PastStatus{Generation: c.Generation, Record: p.record}
}

// difference says in words what the object asks for and the agents do not store.
func difference(wanted []wire.NodeRef, stored *wire.Spec) string {
	if stored == nil {
		return ""
	}
	return fmt.Sprintf("it asks for %v, the agents store %v", refNames(wanted), refNames(stored.Nodes))
}

func refNames(refs []wire.NodeRef) []string {
	out := []string{}
	for _, r := range refs {
		out = append(out, r.Name)
	}
	return out
}

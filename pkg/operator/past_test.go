package operator

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func TestFromThePast(t *testing.T) {
	t0 := time.Unix(100, 0)
	record := &wire.Source{Cluster: "c", UID: "u", Generation: 7, Created: t0}
	const mark = "epoch 2, u generation 7"
	for name, c := range map[string]struct {
		source   *wire.Source
		uid      types.UID
		gen      int64
		created  time.Time
		accept   string
		had      *v1alpha1.PastStatus
		is, took bool
	}{
		"nothing on record":                     {uid: "u", gen: 1, created: t0},
		"the same":                              {source: record, uid: "u", gen: 7, created: t0},
		"edited":                                {source: record, uid: "u", gen: 9, created: t0},
		"older":                                 {source: record, uid: "u", gen: 6, created: t0, is: true},
		"older and confirmed":                   {source: record, uid: "u", gen: 6, created: t0, accept: "6", took: true},
		"confirmed at another generation":       {source: record, uid: "u", gen: 6, created: t0, accept: "5", is: true},
		"found before, not edited since":        {source: record, uid: "u", gen: 5, created: t0, had: &v1alpha1.PastStatus{Generation: 5, Record: mark}, is: true},
		"found before, edited since":            {source: record, uid: "u", gen: 6, created: t0, had: &v1alpha1.PastStatus{Generation: 5, Record: mark}, took: true},
		"a memory of another restore":           {source: record, uid: "u", gen: 6, created: t0, had: &v1alpha1.PastStatus{Generation: 5, Record: "epoch 1, u generation 7"}, is: true},
		"made anew":                             {source: record, uid: "v", gen: 1, created: t0.Add(time.Hour)},
		"made anew within a second":             {source: record, uid: "v", gen: 1, created: t0},
		"an object that was deleted meanwhile":  {source: record, uid: "old", gen: 99, created: t0.Add(-time.Hour), is: true},
		"the same, with a confirmation left on": {source: record, uid: "u", gen: 8, created: t0, accept: "6"},
	} {
		obj := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{UID: c.uid, Generation: c.gen, CreationTimestamp: metav1.NewTime(c.created)}}
		obj.Status.FromThePast = c.had
		if c.accept != "" {
			obj.Annotations = map[string]string{v1alpha1.AcceptSpecAnnotation: c.accept}
		}
		v := &driver.View{Epoch: wire.Epoch{Number: 2}, Spec: &wire.Spec{Source: c.source}}
		got := fromThePast(obj, v)
		if got.is != c.is || got.accepted != c.took {
			t.Errorf("%s: %+v", name, got)
		}
		st := got.status(obj)
		if (st != nil) != (c.is || c.took) {
			t.Errorf("%s: remembered %+v", name, st)
		}
		if c.took && c.had != nil && st != c.had {
			t.Errorf("%s: the generation at which it was found is forgotten: %+v", name, st)
		}
	}
}

func TestOtherCluster(t *testing.T) {
	src := func(cluster string) *wire.Spec { return &wire.Spec{Source: &wire.Source{Cluster: cluster}} }
	for name, c := range map[string]struct {
		seen    int64
		seenID  string
		spec    *wire.Spec
		epoch   wire.Epoch
		refused bool
	}{
		"nothing known":                {},
		"no object ever":               {spec: &wire.Spec{}, epoch: wire.Epoch{Number: 1, ClusterID: 0xa}},
		"ours":                         {seen: 1, seenID: "a", spec: src("here"), epoch: wire.Epoch{Number: 1, ClusterID: 0xa}},
		"the record names another API": {spec: src("there"), epoch: wire.Epoch{Number: 1, ClusterID: 0xa}, refused: true},
		"another etcd of that epoch":   {seen: 1, seenID: "b", spec: src("here"), epoch: wire.Epoch{Number: 1, ClusterID: 0xa}, refused: true},
		"agents of an older epoch":     {seen: 2, seenID: "b", spec: src("here"), epoch: wire.Epoch{Number: 1, ClusterID: 0xa}, refused: true},
		"a newer epoch, so restored":   {seen: 1, seenID: "b", spec: src("here"), epoch: wire.Epoch{Number: 2, ClusterID: 0xa}},
		"agents do not know yet":       {seen: 1, seenID: "b", spec: src("here")},
	} {
		obj := &v1alpha1.EtcdCluster{Status: v1alpha1.EtcdClusterStatus{Epoch: c.seen, ClusterID: c.seenID}}
		got := otherCluster(obj, "here", &driver.View{Spec: c.spec, Epoch: c.epoch})
		if (got != nil) != c.refused || got != nil && !got.Total {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestClaimKeepsWhatIsHeld(t *testing.T) {
	older := &turn{object: &v1alpha1.EtcdCluster{}, refusal: &Refusal{Name: ReasonNotEnoughNodes}}
	older.object.Name = "older"
	held := claimOf(older, &engine{stored: []wire.NodeRef{{Name: "cp-1"}}})
	younger := &v1alpha1.EtcdCluster{}
	if r := claimed(younger, []wire.NodeRef{{Name: "cp-2"}, {Name: "cp-1"}}, []claim{held}); r == nil || r.Name != ReasonNodesClaimed || r.Node != "cp-1" {
		t.Errorf("a refused object lost its nodes to a younger one: %+v", r)
	}
	if r := claimed(younger, []wire.NodeRef{{Name: "cp-2"}}, []claim{held}); r != nil {
		t.Errorf("a node that nobody has is refused: %v", r)
	}
}

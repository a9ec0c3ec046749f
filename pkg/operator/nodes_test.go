package operator

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func node(name string, age int, labels ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, CreationTimestamp: metav1.NewTime(time.Unix(1000-int64(age), 0))}}
	if len(labels) == 0 {
		labels = []string{ControlPlaneLabel}
	}
	for _, l := range labels {
		n.Labels[l] = ""
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: "10.0.0." + name[1:]}}
	return n
}

func ptr(n int32) *int32 { return &n }

func TestChoose(t *testing.T) {
	leaving := node("n4", 9)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	homeless := node("n5", 9)
	homeless.Status.Addresses = nil
	four := []corev1.Node{node("n1", 1), node("n2", 2), node("n3", 3), node("n4", 4)}
	sized := func(n int32) v1alpha1.EtcdClusterSpec { return v1alpha1.EtcdClusterSpec{Size: ptr(n)} }
	for name, c := range map[string]struct {
		spec    v1alpha1.EtcdClusterSpec
		nodes   []corev1.Node
		stored  []string
		want    []string
		spares  []string
		refusal string
	}{
		"the oldest first":             {spec: sized(3), nodes: four, want: []string{"n4", "n3", "n2"}, spares: []string{"n1"}},
		"who has a member stays":       {spec: sized(3), nodes: four, stored: []string{"n1"}, want: []string{"n1", "n4", "n3"}, spares: []string{"n2"}},
		"the stored order":             {spec: sized(3), nodes: four, stored: []string{"n2", "n1", "n3"}, want: []string{"n2", "n1", "n3"}, spares: []string{"n4"}},
		"as many as there are, odd":    {nodes: four, want: []string{"n4", "n3", "n2"}, spares: []string{"n1"}},
		"seven at most":                {nodes: []corev1.Node{node("n1", 9), node("n2", 8), node("n3", 7), node("n4", 6), node("n5", 5), node("n6", 4), node("n7", 3), node("n8", 2)}, want: []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7"}, spares: []string{"n8"}},
		"the selector":                 {spec: v1alpha1.EtcdClusterSpec{NodeSelector: map[string]string{"etcd": ""}}, nodes: append(four, node("n9", 1, "etcd")), want: []string{"n9"}},
		"equal age, by name":           {spec: sized(1), nodes: []corev1.Node{node("n2", 1), node("n1", 1)}, want: []string{"n1"}, spares: []string{"n2"}},
		"never fewer than asked for":   {spec: sized(5), nodes: four, refusal: ReasonNotEnoughNodes},
		"no node is not a small wish":  {nodes: []corev1.Node{node("n1", 1, "worker")}, refusal: ReasonNotEnoughNodes},
		"one under deletion is not":    {spec: sized(3), nodes: []corev1.Node{four[0], four[1], leaving}, refusal: ReasonNotEnoughNodes},
		"an address must be known":     {spec: sized(1), nodes: []corev1.Node{homeless}, refusal: ReasonNodeAddress},
		"a stored one that is no more": {spec: sized(1), nodes: four[:1], stored: []string{"n7", "n1"}, want: []string{"n1"}},
	} {
		var stored []wire.NodeRef
		for _, n := range c.stored {
			stored = append(stored, wire.NodeRef{Name: n})
		}
		got := choose(&c.spec, c.nodes, stored)
		switch {
		case c.refusal != "":
			if got.refusal == nil || got.refusal.Name != c.refusal || len(got.nodes) > 0 {
				t.Errorf("%s: %+v, want refusal %s", name, got, c.refusal)
			}
		case got.refusal != nil || !slices.Equal(refNames(got.nodes), c.want) || !slices.Equal(got.spares, c.spares):
			t.Errorf("%s: %v, spares %v, refusal %v", name, refNames(got.nodes), got.spares, got.refusal)
		}
	}
}

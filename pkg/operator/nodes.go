package operator

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// ControlPlaneLabel is what kubeadm and its like put on control-plane nodes.
const ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

// maxMembers is where more members only cost: a write waits for more of them.
const maxMembers = 7

// choice is which nodes an object asks for.
type choice struct {
	nodes  []wire.NodeRef // in order; the first are those that the stored spec names
	spares []string
	// refusal: the object asks for what cannot be chosen.
	refusal *Refusal
}

// choose picks the nodes of an object: those of the stored spec first, in its
// order (the seed's node leads it), then the others by age, then by name. A node
// under deletion is not chosen. It never falls back to fewer than asked for.
func choose(spec *v1alpha1.EtcdClusterSpec, nodes []corev1.Node, stored []wire.NodeRef) choice {
	var c choice
	fit := candidates(spec, nodes, stored)
	var refs []wire.NodeRef
	for i := range fit {
		addr := internalIP(&fit[i])
		if addr == "" {
			c.refusal = &Refusal{Name: ReasonNodeAddress, Node: fit[i].Name, Found: "the Node has no InternalIP", Want: "an address at which its agent is found"}
			return c
		}
		refs = append(refs, wire.NodeRef{Name: fit[i].Name, Address: addr})
	}
	size := wantedSize(spec, len(refs))
	if len(refs) < size || size == 0 {
		c.refusal = &Refusal{Name: ReasonNotEnoughNodes, Found: plural(len(refs), "node") + " " + described(spec), Want: plural(max(size, 1), "node")}
		return c
	}
	c.nodes = refs[:size]
	for _, r := range refs[size:] {
		c.spares = append(c.spares, r.Name)
	}
	return c
}

// wantedSize is what the object says, or the largest odd number of what matches.
func wantedSize(spec *v1alpha1.EtcdClusterSpec, matching int) int {
	if spec.Size != nil {
		return int(*spec.Size)
	}
	n := min(matching, maxMembers)
	if n > 0 && n%2 == 0 {
		n--
	}
	return n
}

func selector(spec *v1alpha1.EtcdClusterSpec) labels.Selector {
	if len(spec.NodeSelector) > 0 {
		return labels.SelectorFromSet(spec.NodeSelector)
	}
	s, err := labels.Parse(ControlPlaneLabel)
	if err != nil {
		return labels.Nothing() // a constant; a test parses it
	}
	return s
}

func described(spec *v1alpha1.EtcdClusterSpec) string {
	return "with " + selector(spec).String()
}

func candidates(spec *v1alpha1.EtcdClusterSpec, nodes []corev1.Node, stored []wire.NodeRef) []corev1.Node {
	var out []corev1.Node
	sel := selector(spec)
	for _, n := range nodes {
		if n.DeletionTimestamp == nil && sel.Matches(labels.Set(n.Labels)) {
			out = append(out, n)
		}
	}
	rank := func(n corev1.Node) int {
		if i := slices.IndexFunc(stored, func(r wire.NodeRef) bool { return r.Name == n.Name }); i >= 0 {
			return i
		}
		return 1 << 30
	}
	slices.SortFunc(out, func(a, b corev1.Node) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// internalIP is where a node's agent is looked for.
func internalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

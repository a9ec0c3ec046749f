package operator

import (
	"fmt"
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Reasons of the operator's own, beside the brain's names of steps and
// refusals (docs/reference/operator.md).
const (
	ReasonPaused            = "Paused"
	ReasonSpecFromThePast   = "SpecFromThePast"
	ReasonNotFromThePast    = "NotFromThePast"
	ReasonAccepted          = "Accepted"
	ReasonOtherCluster      = "OtherCluster"
	ReasonNodesClaimed      = "NodesClaimed"
	ReasonNotEnoughNodes    = "NotEnoughNodes"
	ReasonNodeAddress       = "NodeAddress"
	ReasonVersionNotRolled  = "VersionNotRolled"
	ReasonSettingsNotRolled = "SettingsNotRolled"
	ReasonNotInThisRelease  = "NotInThisRelease"
	ReasonNoAgents          = "NoAgents"
	ReasonNoCertificate     = "NoCertificate"
	ReasonRunFailed         = "RunFailed"
	ReasonDeleted           = "Deleted"
	ReasonAsExpected        = "AsExpected"
	ReasonAllVotersServe    = "AllVotersServe"
	ReasonQuorumHeld        = "QuorumHeld"
	ReasonQuorumUnknown     = "QuorumUnknown"
	ReasonVotersMissing     = "VotersMissing"
	ReasonSeed              = "Seed"
)

// Refusal is the operator's no to an object. Nothing of the object is obeyed
// while it stands; the stored spec stays in force, unless Total.
type Refusal struct {
	Name, Node, Found, Want string
	// Total: the agents may not even be driven towards what they store.
	Total bool
}

func (r *Refusal) String() string {
	s := r.Found
	if r.Node != "" {
		s = r.Node + ": " + s
	}
	if r.Want != "" {
		s += "; needed: " + r.Want
	}
	return s
}

// unsupported refuses what this release has no way to do; saying nothing would
// promise it.
func unsupported(spec *v1alpha1.EtcdClusterSpec) *Refusal {
	switch {
	case spec.Recovery.QuorumLoss == v1alpha1.QuorumLossAutomatic:
		return &Refusal{Name: ReasonNotInThisRelease, Found: "recovery.quorumLoss: Automatic", Want: "Manual"}
	case spec.Replacement.Policy == v1alpha1.ReplaceAfterSilence:
		return &Refusal{Name: ReasonNotInThisRelease, Found: "replacement.policy: AfterSilence", Want: "OnProof"}
	}
	return nil
}

// unrolled refuses a version or settings other than those in force: rolling
// them is not in this release.
func unrolled(spec *v1alpha1.EtcdClusterSpec, v *driver.View) *Refusal {
	if spec.Version != "" {
		for _, have := range versions(v) {
			if have != spec.Version {
				return &Refusal{Name: ReasonVersionNotRolled, Found: "members run etcd " + have + ", version is " + spec.Version + "; this release does not change it", Want: "version " + have + ", or none"}
			}
		}
	}
	if spec.Settings == nil || v.Spec == nil {
		return nil
	}
	var diff []string
	differs := func(name string, want, have int64) {
		if want != have {
			diff = append(diff, fmt.Sprintf("%s %d where members have %s", name, want, orDefault(have)))
		}
	}
	have, s := v.Spec.Settings, spec.Settings
	if s.HeartbeatMillis != nil {
		differs("heartbeatMillis", int64(*s.HeartbeatMillis), int64(have.HeartbeatMillis))
	}
	if s.ElectionMillis != nil {
		differs("electionMillis", int64(*s.ElectionMillis), int64(have.ElectionMillis))
	}
	if s.Quota != nil {
		differs("quota", s.Quota.Value(), have.QuotaBytes)
	}
	if s.SnapshotCount != nil {
		differs("snapshotCount", int64(*s.SnapshotCount), int64(have.SnapshotCount))
	}
	if len(diff) == 0 {
		return nil
	}
	return &Refusal{Name: ReasonSettingsNotRolled, Found: strings.Join(diff, ", ") + "; this release does not change them", Want: "the members' values, or none"}
}

func orDefault(n int64) string {
	if n == 0 {
		return "etcd's default"
	}
	return fmt.Sprint(n)
}

// otherCluster refuses agents that are not those of the cluster that this API
// belongs to, before anything is done: the record of where their spec came from
// names another API, or the object's own status another etcd of the same epoch,
// or of a later one. All of it Total.
func otherCluster(c *v1alpha1.EtcdCluster, api string, v *driver.View) *Refusal {
	if v.Spec != nil && v.Spec.Source != nil && v.Spec.Source.Cluster != api {
		return &Refusal{Name: ReasonOtherCluster, Total: true,
			Found: fmt.Sprintf("the agents belong to the API whose kube-system has UID %s, this one has %s", v.Spec.Source.Cluster, api),
			Want:  "the kubeconfig and the driver certificate of one cluster"}
	}
	seen := uint64(c.Status.Epoch)
	if seen == 0 || v.Epoch.Number == 0 {
		return nil
	}
	id := v.Epoch.ClusterID.String()
	if v.Epoch.Number < seen || v.Epoch.Number == seen && v.Epoch.ClusterID != 0 && c.Status.ClusterID != "" && c.Status.ClusterID != id {
		return &Refusal{Name: ReasonOtherCluster, Total: true,
			Found: fmt.Sprintf("the agents are of epoch %d, cluster %s; this object has seen epoch %d, cluster %s", v.Epoch.Number, id, seen, c.Status.ClusterID),
			Want:  "the agents of the cluster that this API stores its objects in"}
	}
	return nil
}

// claimed refuses the younger of two objects that ask for one node.
func claimed(c *v1alpha1.EtcdCluster, mine []wire.NodeRef, older []claim) *Refusal {
	for _, o := range older {
		for _, n := range mine {
			if o.nodes[n.Name] {
				return &Refusal{Name: ReasonNodesClaimed, Node: n.Name, Total: true,
					Found: "EtcdCluster " + o.name + ", which is older, has this node", Want: "one EtcdCluster per node; delete " + c.Name + " (no etcd stops)"}
			}
		}
	}
	return nil
}

// claim is what an older object asked for.
type claim struct {
	name  string
	nodes map[string]bool
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

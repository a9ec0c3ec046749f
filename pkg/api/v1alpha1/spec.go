package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdCluster is the etcd under this API: one member per control-plane node. It
// belongs in kube-system. Deleting it never stops etcd: the members stay as
// they are, and an EtcdCluster made later adopts them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=etcd;ec,categories=control-plane
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.status.size`,description="Members that are to be"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.ready`,description="Voters that serve"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,description="etcd that the members run"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Leader",type=string,JSONPath=`.status.leader`,description="Node of the leader"
// +kubebuilder:printcolumn:name="DB",type=string,JSONPath=`.status.dbSize`,description="Database of the leader"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type EtcdCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	// +optional
	Spec EtcdClusterSpec `json:"spec,omitempty"`
	// +optional
	Status EtcdClusterStatus `json:"status,omitempty"`
}

// EtcdClusterList is a list of them.
//
// +kubebuilder:object:root=true
type EtcdClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdCluster `json:"items"`
}

// EtcdClusterSpec is what is wanted. An object that asks for something that
// cannot be done is not obeyed as a whole; the last good one stays in force.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.size) && has(self.nodeSelector))",message="name size or nodeSelector, not both: a selector takes every node that it matches"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || !has(oldSelf.version) || (int(self.version.split('.')[1]) - int(oldSelf.version.split('.')[1])) in [-1, 0, 1]",message="one minor version at a time: etcd's members of two neighbouring minors can form one cluster, others cannot"
type EtcdClusterSpec struct {
	// Size is how many control-plane nodes have a member. Nodes that have one
	// stay, further ones are taken in the order in which they were created.
	//
	// +kubebuilder:validation:Enum=1;3;5;7
	// +optional
	Size *int32 `json:"size,omitempty"`

	// NodeSelector takes every node with these labels, up to seven; of an even
	// number the last stays a spare, since it would not let one more fail. The
	// default, where size is not set either, is the control-plane label.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=8
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Version of etcd that the members are to run. Not set: whichever they run.
	// This release cannot change it; another than theirs is refused by condition.
	//
	// +kubebuilder:validation:Pattern=`^3\.(5|6|7)\.(0|[1-9][0-9]{0,2})$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('3.5.') || int(self.split('.')[2]) >= 26",message="of etcd 3.5, 3.5.26 or later: earlier ones can bring removed members back when they are upgraded"
	// +optional
	Version string `json:"version,omitempty"`

	// Paused: the operator looks and reports, and changes nothing.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Settings of etcd. What is not set stays as the members have it. This
	// release cannot change them; others than theirs are refused by condition.
	//
	// +optional
	Settings *Settings `json:"settings,omitempty"`

	// Recovery after the voters' majority is lost.
	//
	// +kubebuilder:default={quorumLoss: Manual}
	// +optional
	Recovery Recovery `json:"recovery,omitempty"`

	// Replacement of a member whose node is lost.
	//
	// +kubebuilder:default={policy: OnProof}
	// +optional
	Replacement Replacement `json:"replacement,omitempty"`
}

// Settings are etcd's, the same on every member.
//
// +kubebuilder:validation:XValidation:rule="!has(self.electionMillis) || !has(self.heartbeatMillis) || self.electionMillis >= 5 * self.heartbeatMillis",message="electionMillis must be at least five times heartbeatMillis, or etcd does not start"
type Settings struct {
	// HeartbeatMillis is the leader's heartbeat interval, in milliseconds.
	//
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=10000
	// +optional
	HeartbeatMillis *int32 `json:"heartbeatMillis,omitempty"`

	// ElectionMillis is how long followers wait for a leader, in milliseconds.
	//
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=50000
	// +optional
	ElectionMillis *int32 `json:"electionMillis,omitempty"`

	// Quota is the size at which the database takes no more writes.
	//
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0 && quantity(string(self)).compareTo(quantity('32Gi')) <= 0",message="between 64Mi and 32Gi"
	// +optional
	Quota *resource.Quantity `json:"quota,omitempty"`

	// SnapshotCount is after how many entries raft's log is compacted.
	//
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	SnapshotCount *int32 `json:"snapshotCount,omitempty"`
}

// QuorumLossPolicy says who decides about a new seed.
//
// +kubebuilder:validation:Enum=Manual;Automatic
type QuorumLossPolicy string

// The policies. This release knows Manual only and refuses the other by condition.
const (
	QuorumLossManual    QuorumLossPolicy = "Manual"
	QuorumLossAutomatic QuorumLossPolicy = "Automatic"
)

// Recovery after quorum loss.
//
// +kubebuilder:validation:XValidation:rule="!has(self.after) || (has(self.quorumLoss) && self.quorumLoss == 'Automatic')",message="after belongs to quorumLoss: Automatic"
type Recovery struct {
	// QuorumLoss: Manual waits for a person. Automatic is not in this release.
	//
	// +kubebuilder:default=Manual
	// +optional
	QuorumLoss QuorumLossPolicy `json:"quorumLoss,omitempty"`

	// After is how long the loss must have been proved.
	//
	// +optional
	After *metav1.Duration `json:"after,omitempty"`
}

// ReplacementPolicy says what counts as loss of a node.
//
// +kubebuilder:validation:Enum=OnProof;AfterSilence
type ReplacementPolicy string

// The policies. This release replaces nothing; it refuses AfterSilence by condition.
const (
	ReplaceOnProof      ReplacementPolicy = "OnProof"
	ReplaceAfterSilence ReplacementPolicy = "AfterSilence"
)

// Replacement of members.
//
// +kubebuilder:validation:XValidation:rule="has(self.silentFor) == (has(self.policy) && self.policy == 'AfterSilence')",message="silentFor is needed with policy: AfterSilence, and only there"
type Replacement struct {
	// Policy: OnProof takes a deleted Node, or an agent's attestation, never silence.
	// AfterSilence is a person's word, given in advance; it is not in this release.
	//
	// +kubebuilder:default=OnProof
	// +optional
	Policy ReplacementPolicy `json:"policy,omitempty"`

	// SilentFor is how long a node is silent before it counts as lost.
	//
	// +optional
	SilentFor *metav1.Duration `json:"silentFor,omitempty"`
}

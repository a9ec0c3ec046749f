package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Phase is the state of things in one word, for people; programs read conditions.
type Phase string

// The phases.
const (
	PhaseUnknown  Phase = "Unknown"  // no agent, or no member list, answers
	PhaseSeed     Phase = "Seed"     // one seed, not pivoted yet
	PhasePivoting Phase = "Pivoting" // from the seed to members
	PhaseScaling  Phase = "Scaling"  // members are being added
	PhaseRunning  Phase = "Running"  // as wanted, all serve
	PhaseDegraded Phase = "Degraded" // quorum held; something is wrong
	PhaseNoQuorum Phase = "NoQuorum" // no leader is seen
	PhasePaused   Phase = "Paused"   // as told
	PhaseRefused  Phase = "Refused"  // what is asked for cannot be done
)

// Types of conditions. Reasons are the names of the brain's steps and refusals
// (pkg/pivot), and a few of the operator's own.
const (
	// ConditionAvailable: a majority of the voters serves, so writes go on.
	ConditionAvailable = "Available"
	// ConditionQuorumHealthy: every voter serves; the most that can fail may fail.
	ConditionQuorumHealthy = "QuorumHealthy"
	// ConditionProgressing: a step is under way, or waited for.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: somebody has to look.
	ConditionDegraded = "Degraded"
	// ConditionPivoted: no seed is left; every wanted node has a voter.
	ConditionPivoted = "Pivoted"
	// ConditionSpecFromThePast: the object is older than what the agents store,
	// because the data was restored. It is not obeyed until it is edited or
	// annotated (AcceptSpecAnnotation).
	ConditionSpecFromThePast = "SpecFromThePast"
)

// EtcdClusterStatus is what the operator last saw at the agents.
type EtcdClusterStatus struct {
	// ObservedGeneration is the generation that this status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase is the state of things in one word.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Message says in one line what goes on or what is in the way.
	//
	// +optional
	Message string `json:"message,omitempty"`

	// Size is how many members there are to be.
	//
	// +optional
	Size int32 `json:"size"`

	// Ready is how many voters serve clients and have a leader.
	//
	// +optional
	Ready int32 `json:"ready"`

	// Version of etcd that the members run; two where they differ.
	//
	// +optional
	Version string `json:"version,omitempty"`

	// Leader is the leader's node.
	//
	// +optional
	Leader string `json:"leader,omitempty"`

	// DBSize is the size of the leader's database.
	//
	// +optional
	DBSize string `json:"dbSize,omitempty"`

	// ClusterID is etcd's, in hexadecimal.
	//
	// +optional
	ClusterID string `json:"clusterID,omitempty"`

	// Epoch is 1 at the first seed and grows with each seed built from data.
	//
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// Members are etcd's, from the leader's own list.
	//
	// +listType=map
	// +listMapKey=id
	// +optional
	Members []MemberStatus `json:"members,omitempty"`

	// Spares are nodes that could have a member and are not to.
	//
	// +listType=set
	// +optional
	Spares []string `json:"spares,omitempty"`

	// FromThePast tells which record this object was found to be older than.
	//
	// +optional
	FromThePast *PastStatus `json:"fromThePast,omitempty"`

	// Conditions; see the constants for their types.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MemberStatus is one member.
type MemberStatus struct {
	// ID is etcd's member ID, in hexadecimal.
	ID string `json:"id"`
	// Name is etcd's name of it; empty until it started.
	//
	// +optional
	Name string `json:"name,omitempty"`
	// Node it runs on; empty where its address is no known node's.
	//
	// +optional
	Node string `json:"node,omitempty"`
	// Slot of the node: member or seed.
	//
	// +optional
	Slot string `json:"slot,omitempty"`
	// Role is Leader, Voter or Learner.
	//
	// +optional
	Role string `json:"role,omitempty"`
	// Health: Serves, Up (without a leader, or not yet serving), Down, Silent (its agent), Unstarted, Unknown.
	//
	// +optional
	Health string `json:"health,omitempty"`
	// Version of its etcd.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// DBSize of its database.
	//
	// +optional
	DBSize string `json:"dbSize,omitempty"`
	// Lag is how many raft entries it is behind the leader; absent where not known.
	//
	// +optional
	Lag *int64 `json:"lag,omitempty"`
}

// PastStatus is kept while an object is older than the agents' record.
type PastStatus struct {
	// Generation at which the object was found to be from the past; a later
	// one was edited since.
	Generation int64 `json:"generation"`
	// Record names the agents' record: epoch, UID and generation.
	Record string `json:"record"`
}

// Package wire is what agents, drivers, proxies and members say to each other:
// the RPC bodies, the stored files that cross a process boundary, and the
// names of files and ports. It holds types and pure helpers only.
package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"sort"
	"strconv"
	"strings"
	"time"
)

// V is the version of every RPC body and stored file of this release. A higher
// one is refused by name (LESSONS, "versions").
const V = 1

// ID is an etcd member or cluster ID; zero is unknown. JSON: lower-case hex,
// as etcd itself prints it.
type ID uint64

func (i ID) String() string { return strconv.FormatUint(uint64(i), 16) }

// MarshalJSON writes "" for the unknown ID.
func (i ID) MarshalJSON() ([]byte, error) {
	if i == 0 {
		return []byte(`""`), nil
	}
	return json.Marshal(i.String())
}

// UnmarshalJSON reads hex; "" is unknown.
func (i *ID) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s == "" {
		*i = 0
		return nil
	}
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return fmt.Errorf("ID %q is not hexadecimal", s)
	}
	*i = ID(n)
	return nil
}

// Slot names one of the two places a node has for an etcd.
type Slot string

// The two slots of a node (DESIGN "Ports, paths, units").
const (
	SlotMember Slot = "member"
	SlotSeed   Slot = "seed"
)

// Runtime says who supervises a process.
type Runtime string

// The runtimes. Only RuntimeProcess (child of the agent) exists so far.
const (
	RuntimeProcess   Runtime = "process"
	RuntimeStaticPod Runtime = "static-pod"
	RuntimeSystemd   Runtime = "systemd"
)

// Ports are TCP ports, the same on every node of a cluster.
type Ports struct {
	Client      int `json:"client"`
	Peer        int `json:"peer"`
	Metrics     int `json:"metrics"`
	Agent       int `json:"agent"`
	SeedClient  int `json:"seedClient"`
	SeedPeer    int `json:"seedPeer"`
	SeedMetrics int `json:"seedMetrics"`
}

// DefaultPorts are DESIGN's.
var DefaultPorts = Ports{Client: 2379, Peer: 2380, Metrics: 2381, Agent: 2382, SeedClient: 12379, SeedPeer: 12380, SeedMetrics: 12381}

// NodeRef names a node and where it is found.
type NodeRef struct {
	// Name is the node name, unique in the cluster, and its member's etcd name.
	Name string `json:"name"`
	// Address is the node's primary IP: members listen on it, agents are dialled at it.
	Address string `json:"address"`
	// MoreAddresses are further IPs the node may dial from or be reached at.
	MoreAddresses []string `json:"moreAddresses,omitempty"`
	// ProxyAddress is the IP the node's proxy listens on; 127.0.0.1 when empty.
	ProxyAddress string `json:"proxyAddress,omitempty"`
}

// Proxy is the IP the node's proxy listens on.
func (n NodeRef) Proxy() string {
	if n.ProxyAddress == "" {
		return "127.0.0.1"
	}
	return n.ProxyAddress
}

// HostPort joins the node's address and port; IPv6 is bracketed.
func (n NodeRef) HostPort(port int) string { return net.JoinHostPort(n.Address, strconv.Itoa(port)) }

// Client and Peer are the ports of a slot.
func (p Ports) Of(s Slot) (client, peer, metrics int) {
	if s == SlotSeed {
		return p.SeedClient, p.SeedPeer, p.SeedMetrics
	}
	return p.Client, p.Peer, p.Metrics
}

// Identity is STATE/identity.json: who this node is and where its things lie.
// Written once by init or by the bundle, read by agent, proxy, member and CLI.
type Identity struct {
	V           int     `json:"v"`
	Node        NodeRef `json:"node"`
	Ports       Ports   `json:"ports"`
	DataDir     string  `json:"dataDir"`
	StateDir    string  `json:"stateDir"`
	PKIDir      string  `json:"pkiDir"`
	Runtime     Runtime `json:"runtime"`
	SeedRuntime Runtime `json:"seedRuntime"`
	// Binary is the bootstrap binary the agent starts children with; empty: its own executable.
	Binary string `json:"binary,omitempty"`
}

// Epoch is (number, seed ID, cluster ID); number 0 means none yet. IDs are
// zero until the seed's WAL exists.
type Epoch struct {
	Number    uint64 `json:"number"`
	SeedID    ID     `json:"seedID"`
	ClusterID ID     `json:"clusterID"`
}

// Settings are the etcd settings the spec carries; zero means etcd's default
// (quota: 2 GiB) or ours where etcd's would be wrong.
type Settings struct {
	HeartbeatMillis int   `json:"heartbeatMillis,omitempty"`
	ElectionMillis  int   `json:"electionMillis,omitempty"`
	QuotaBytes      int64 `json:"quotaBytes,omitempty"`
	SnapshotCount   int   `json:"snapshotCount,omitempty"`
}

// MaxLearners is one value on every member for life (I11).
const MaxLearners = 8

// Target says what the spec asks for.
type Target string

// Targets of a spec.
const (
	// TargetSeed: one seed on the first node, as init leaves it.
	TargetSeed Target = "seed"
	// TargetMembers: one managed member per node, no seed.
	TargetMembers Target = "members"
)

// Spec is STATE/spec.json, the desired spec (DESIGN "Desired spec"). Specs are
// ordered by (Epoch, Fence, Count); the highest found wins.
type Spec struct {
	V      int       `json:"v"`
	Epoch  uint64    `json:"epoch"`
	Fence  uint64    `json:"fence"`
	Count  uint64    `json:"count"`
	Target Target    `json:"target"`
	Nodes  []NodeRef `json:"nodes"`
	Ports  Ports     `json:"ports"`
	// EtcdBinary, when set, is the etcd every member runs (same path on each node); empty: the embedded one.
	EtcdBinary string   `json:"etcdBinary,omitempty"`
	Settings   Settings `json:"settings"`
	// Source is the object this was copied from; nil where no operator ever wrote
	// one. Later specs of other drivers keep it: it tells an object of the past.
	Source *Source `json:"source,omitempty"`
}

// Source names an EtcdCluster object, as it was when it was copied.
type Source struct {
	// Cluster is the UID of that API's kube-system namespace: it stays the same
	// when data is restored, and differs between clusters.
	Cluster    string    `json:"cluster"`
	UID        string    `json:"uid"`
	Generation int64     `json:"generation"`
	Created    time.Time `json:"created"`
}

// Same says whether two sources, nil included, are the same object and generation.
func (s *Source) Same(o *Source) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Cluster == o.Cluster && s.UID == o.UID && s.Generation == o.Generation && s.Created.Equal(o.Created)
}

// Newer says whether a stands above b in the order of specs.
func (a Spec) Newer(b Spec) bool {
	if a.Epoch != b.Epoch {
		return a.Epoch > b.Epoch
	}
	if a.Fence != b.Fence {
		return a.Fence > b.Fence
	}
	return a.Count > b.Count
}

// Node finds a node by name.
func (a Spec) Node(name string) (NodeRef, bool) {
	for _, n := range a.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return NodeRef{}, false
}

// SeedName is the etcd name of a seed (DESIGN: NODE-seed-EPOCH).
func SeedName(node string, epoch uint64) string { return fmt.Sprintf("%s-seed-%d", node, epoch) }

// Member is one entry of etcd's member list.
type Member struct {
	ID         ID       `json:"id"`
	Name       string   `json:"name"` // empty until it started
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs,omitempty"`
	Learner    bool     `json:"learner"`
}

// ListHash identifies a member list: IDs, peer URLs and roles, not names,
// which change when a member first starts. Membership RPCs carry it as "seen".
func ListHash(ms []Member) string {
	rows := make([]string, 0, len(ms))
	for _, m := range ms {
		u := append([]string(nil), m.PeerURLs...)
		sort.Strings(u)
		rows = append(rows, fmt.Sprintf("%s %t %s", m.ID, m.Learner, strings.Join(u, ",")))
	}
	sort.Strings(rows)
	s := sha256.Sum256([]byte(strings.Join(rows, "\n")))
	return hex.EncodeToString(s[:8])
}

// Now formats t as every time of ours is written: RFC 3339, UTC.
func Now(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

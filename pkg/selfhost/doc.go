// Package selfhost is the hands: everything under it observes and acts, and
// leaves deciding to pkg/pivot. It holds no code itself; this page is the map.
//
// # Layers
//
// A package imports only packages of lower layers; fence_test.go checks that.
//
//	0  wire         what crosses a process: RPC bodies, files, classes, ports
//	   durable      writes that survive a power cut, or say that they may not have
//	   version      what this binary is
//	   port         listens, and says who holds a port that is taken
//	1  datadir      the one reader of data directories: lock, class, identity, attic
//	   pki          authorities, certificates, bundles; who may call which RPC
//	   config       flags, environment and file, agreeing on names
//	   agentclient  calls to agents
//	   proxy        the node's L4 proxy: probes, admits, holds, splices
//	   agent/journal  what was done on a node, by whom, why, with what outcome
//	2  member       the process of every seed and member: lock, gate, then etcd
//	   agent/child  runs those processes, adopts them by their lock
//	3  agent        one per node: enforces what is local, whoever asks
//	   driver       the loop: look, ask the brain, do the one step, look again
//	4  lab          several nodes on one machine, for tests and the demo
//	5  demo         the story told to a person
//
// Beside lab, outside this folder, stands pkg/operator: one more driver of the
// same agents, which takes its wish from an EtcdCluster object (pkg/api). It
// imports driver, agentclient, pki, version and wire, and nothing here imports it.
//
// # Who knows the brain
//
// Only driver and what stands above it import pkg/pivot: an agent answers what
// is on its node and refuses what would harm it; it never decides where the
// cluster goes. Nothing below lab knows Kubernetes.
//
// # What flows
//
//	agents ──observe──> driver ──State──> pivot.Next ──Step──> driver ──RPC──> agent
//	agent ──targets file──> proxy        agent ──child──> member (etcd)
//
// No progress lives in memory: a driver killed anywhere is replaced by another
// that looks and goes on; an agent that restarts adopts what holds the locks;
// proxy and member read only their own node's disk to start.
package selfhost

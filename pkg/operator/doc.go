// Package operator drives the agents from an EtcdCluster object: the same brain
// and hands as `bootstrap pivot`, with the desired spec read from the API that
// the driven etcd stores.
//
// It depends on that API as little as it can. Every turn reads objects and nodes
// anew, without a cache, decides from what the agents say, and lets a driver run
// that needs agents only. While the API is away nothing new is begun; a run
// under way goes on to its end, since the API may be away because of what it is
// in the middle of. The agents' grants are the lock; the Lease only spares two
// operators the trouble of waiting for each other, and losing it ends nothing.
package operator

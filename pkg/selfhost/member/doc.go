// Package member is the process of every seed and member: the arguments it
// runs with, the start gate, and `bootstrap etcd`, which takes the lock, asks
// the gate and then is that etcd, embedded or by exec of a stock binary
// (DESIGN "Lock and gate"). It needs this node's disk and nothing else.
package member

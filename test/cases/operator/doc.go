// Package operatorcases holds the operator's accidents, on a real apiserver
// whose etcd it drives. Build tags as in its parent.
package operatorcases

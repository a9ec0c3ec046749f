// Package integration runs each flow once, for real: init, join, pivot, power
// cycle, with the built binary, real etcds and a real kube-apiserver.
package integration

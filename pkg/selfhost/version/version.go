// Package version holds the release this binary was built from and the
// upstream versions it was tested with.
package version

// Version is stamped by the build (-ldflags -X); "dev" means an unstamped one.
var Version = "dev"

const (
	// Etcd is the version of the embedded etcd.
	Etcd = "3.7.3"
	// Kubernetes is the kube-apiserver version the demo and tests run.
	Kubernetes = "1.37.2"
)

// Package v1alpha1 is the API of the operator: an EtcdCluster says what the
// etcd under this very API is to look like. The CRD in manifests/crd and the
// reference in docs/reference are made from it.
//
// +kubebuilder:object:generate=true
// +groupName=etcd.selfhost.dev
package v1alpha1

//go:generate ../../../bin/tools/controller-gen object paths=. crd output:crd:artifacts:config=../../../manifests/crd
//go:generate go run ./reference ../../../manifests/crd/etcd.selfhost.dev_etcdclusters.yaml ../../../docs/reference/etcdcluster.md

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of everything in this package.
var GroupVersion = schema.GroupVersion{Group: "etcd.selfhost.dev", Version: "v1alpha1"}

// AcceptSpecAnnotation, set to the object's generation, makes the operator obey
// an object that came from the past together with the data (DESIGN "Desired spec").
const AcceptSpecAnnotation = "etcd.selfhost.dev/accept-spec"

// AddToScheme registers the types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &EtcdCluster{}, &EtcdClusterList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

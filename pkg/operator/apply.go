package operator

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
)

// fieldOwner of the status in server-side apply.
const fieldOwner = "etcd-selfhost-operator"

// figuresEvery is how often figures alone (lag, size) are worth a write into
// the very database that they speak of.
const figuresEvery = 30 * time.Second

// writeStatus applies the turn's status where it differs from what was read.
// The object's UID goes along, so that an object made anew in between under
// that name does not get its predecessor's.
func (o *Operator) writeStatus(ctx context.Context, e *engine, t *turn) error {
	want, have := t.status(), t.object.Status
	if equality.Semantic.DeepEqual(want, have) {
		return nil
	}
	if equality.Semantic.DeepEqual(withoutFigures(want), withoutFigures(have)) && o.cfg.Now().Sub(e.wrote) < figuresEvery {
		return nil
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("EtcdCluster"))
	u.SetName(t.object.Name)
	u.SetNamespace(t.object.Namespace)
	u.SetUID(t.object.UID)
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	err = o.api.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(fieldOwner), client.ForceOwnership)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // deleted, or made anew: the next turn reads it
	}
	if err == nil {
		e.wrote = o.cfg.Now()
	}
	return err
}

// withoutFigures is a status without what changes at every look under load.
func withoutFigures(s v1alpha1.EtcdClusterStatus) v1alpha1.EtcdClusterStatus {
	out := *s.DeepCopy()
	out.DBSize = ""
	for i := range out.Members {
		out.Members[i].Lag, out.Members[i].DBSize = nil, ""
	}
	return out
}

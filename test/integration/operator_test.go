package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/operator"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

func size(n int32) v1alpha1.EtcdClusterSpec { return v1alpha1.EtcdClusterSpec{Size: &n} }

func running(n int32) func(*v1alpha1.EtcdCluster) bool {
	return func(c *v1alpha1.EtcdCluster) bool {
		return c.Status.Phase == v1alpha1.PhaseRunning && c.Status.Ready == n && c.Status.Size == n && c.Status.ObservedGeneration == c.Generation
	}
}

// The operator under the ServiceAccount and RBAC of manifests/, on a real
// apiserver whose etcd it pivots.
func TestOperatorPivots(t *testing.T) {
	l := rig.Up(t, 3)
	k := l.StartKube(0)
	kubeconfig := k.Install()
	k.AddNodes(0, 3)
	refusedByTheCRD(t, k)
	op := k.StartOperator(1, kubeconfig)
	k.Cluster("etcd", size(3))
	began := time.Now()
	c := k.Await("etcd", 2*time.Minute, "three members", running(3))
	t.Logf("seed to three members, by the operator, in %s", time.Since(began).Round(100*time.Millisecond))
	l.CheckPivoted(rig.Context(t, time.Minute))

	for kind, want := range map[string]metav1.ConditionStatus{v1alpha1.ConditionAvailable: "True", v1alpha1.ConditionQuorumHealthy: "True", v1alpha1.ConditionProgressing: "False",
		v1alpha1.ConditionDegraded: "False", v1alpha1.ConditionPivoted: "True", v1alpha1.ConditionSpecFromThePast: "False"} {
		if cond := meta.FindStatusCondition(c.Status.Conditions, kind); cond == nil || cond.Status != want {
			t.Errorf("condition %s: %+v, want %s", kind, cond, want)
		}
	}
	for _, m := range c.Status.Members {
		if m.Health != "Serves" || m.Node == "" || m.Version == "" || m.Name != m.Node {
			t.Errorf("member %+v", m)
		}
	}
	wide, err := k.Kubectl("", "-n", "kube-system", "get", "etcdcluster", "-o", "wide")
	rig.Must(t, err)
	desc, err := k.Kubectl("", "-n", "kube-system", "describe", "etcdcluster", "etcd")
	rig.Must(t, err)
	t.Logf("\n%s\n%s", wide, desc)
	for _, want := range []string{"Running", "3.7.3", c.Status.Leader, "every named node has a voter"} {
		if !strings.Contains(wide, want) {
			t.Errorf("kubectl get -o wide does not show %q", want)
		}
	}
	for _, want := range []string{"MoveLeader", "RetireDirectory", "PromoteLearner"} {
		if !strings.Contains(desc, want) {
			t.Errorf("no Event tells of %s", want)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		resp, err := http.Get("http://" + op.Health + path)
		rig.Must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	certificateIsRenewed(t, k)
	if code := op.Stop(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	if op.Said("forbidden") {
		t.Error("the RBAC of manifests/ is not enough; see the operator's log")
		t.FailNow()
	}
}

// The year-long certificate that the Secret began with is replaced by one of a
// day, signed through an agent, and works.
func certificateIsRenewed(t *testing.T, k *rig.Kube) {
	t.Helper()
	k.Lab.Eventually(time.Minute, "a driver certificate of a day in the Secret", func() (bool, string) {
		var s corev1.Secret
		if err := k.API.Get(t.Context(), types.NamespacedName{Namespace: "kube-system", Name: operator.DefaultSecret}, &s); err != nil {
			return false, err.Error()
		}
		_, leaf, err := pki.DriverConfigPEM(s.Data["ca.crt"], s.Data["tls.crt"], s.Data["tls.key"])
		if err != nil {
			return false, err.Error()
		}
		left := time.Until(leaf.NotAfter)
		return left < 25*time.Hour && leaf.Subject.CommonName == "operator", "valid for " + left.String()
	})
	k.Patch("etcd", `{"spec":{"paused":true}}`)
	k.Await("etcd", time.Minute, "looks with the new certificate", func(c *v1alpha1.EtcdCluster) bool {
		return c.Status.Phase == v1alpha1.PhasePaused && c.Status.Ready == 3 && c.Status.ObservedGeneration == c.Generation
	})
}

// What cannot be is refused by the API itself, in words.
func refusedByTheCRD(t *testing.T, k *rig.Kube) {
	t.Helper()
	ctx := rig.Context(t, time.Minute)
	for spec, want := range map[string]string{
		`{"size":2}`:                          "Unsupported value",
		`{"size":3,"nodeSelector":{"a":"b"}}`: "name size or nodeSelector, not both",
		`{"version":"3.5.16"}`:                "3.5.26 or later",
		`{"version":"4.0.0"}`:                 "should match",
		`{"settings":{"heartbeatMillis":500,"electionMillis":1000}}`:         "five times",
		`{"settings":{"quota":"1Ki"}}`:                                       "between 64Mi and 32Gi",
		`{"recovery":{"after":"1m"}}`:                                        "belongs to quorumLoss",
		`{"replacement":{"policy":"AfterSilence"}}`:                          "silentFor is needed",
		`{"replacement":{"policy":"OnProof","silentFor":"5m"}}`:              "silentFor is needed",
		`{"size":3,"recovery":{"quorumLoss":"Sometimes"},"unheard-of":true}`: "Unsupported value",
	} {
		u := &unstructured.Unstructured{}
		rig.Must(t, u.UnmarshalJSON([]byte(`{"apiVersion":"etcd.selfhost.dev/v1alpha1","kind":"EtcdCluster","metadata":{"name":"bad","namespace":"kube-system"},"spec":`+spec+`}`)))
		if err := k.API.Create(ctx, u); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want a refusal with %q, got %v", spec, want, err)
		}
	}
	// One minor version at a time: a rule about two states of one object.
	k.Cluster("versions", v1alpha1.EtcdClusterSpec{Version: "3.5.35"})
	c, err := k.Get("versions")
	rig.Must(t, err)
	patch := func(version string) error {
		return k.API.Patch(ctx, c.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":"`+version+`"}}`)))
	}
	if err := patch("3.7.3"); err == nil || !strings.Contains(err.Error(), "one minor version at a time") {
		t.Errorf("3.5 to 3.7: %v", err)
	}
	rig.Must(t, patch("3.6.16"))
	rig.Must(t, k.API.Delete(ctx, c))
}

//go:build cases || sweep

package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// Every object of a real kube-apiserver, compared before and after pivot,
// unpivot and pivot: each is there, byte for byte, and a writer that worked
// through the API all the while got no error that a controller would not retry.
func TestKubernetesObjectsThereAndBack(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 8*time.Minute)
	k, err := l.NewKube(l.Nodes[0], rig.KubeAPIServer(t))
	rig.Must(t, err)
	rig.Must(t, k.Start())
	t.Cleanup(k.Kill)
	rig.Must(t, k.AwaitReady(ctx))
	makeObjects(ctx, t, k)
	before := settledObjects(ctx, t, l, k)
	w := startAPIWriter(ctx, t, k)

	check := func(after string) {
		t.Helper()
		changed, missing := compareObjects(before, allObjects(ctx, t, k))
		t.Logf("after %s: %d objects of before compared", after, len(before))
		if len(changed) > 0 || len(missing) > 0 {
			t.Errorf("after %s: missing %v, changed %v", after, missing, changed)
		}
	}
	ran(t, l, l.PivotArgs(0))
	check("pivot")
	ran(t, l, unpivotArgs(l, 2))
	check("unpivot")
	ran(t, l, []string{"pivot", "--state-dir", l.Nodes[0].StateDir()})
	w.stop()
	check("the second pivot")
	w.check(ctx, t)
	l.CheckMembers(ctx)
}

// makeObjects puts something of several kinds there.
func makeObjects(ctx context.Context, t *testing.T, k *lab.Kube) {
	t.Helper()
	c, err := dynamic.NewForConfig(k.Config())
	rig.Must(t, err)
	for i := range 60 {
		for kind, gvr := range map[string]schema.GroupVersionResource{"ConfigMap": configMaps, "Secret": {Version: "v1", Resource: "secrets"}} {
			_, err := c.Resource(gvr).Namespace("default").Create(ctx, object(kind, fmt.Sprintf("before-%03d", i), strings.Repeat("x", 512*(i%8))), metav1.CreateOptions{})
			rig.Must(t, err)
		}
	}
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func object(kind, name, text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": "default"}}}
	field := map[string]string{"ConfigMap": "data", "Secret": "stringData"}[kind]
	u.Object[field] = map[string]any{"text": text}
	return u
}

// objects is every object of the API: resource, namespace and name to its JSON.
type objects map[string]string

// allObjects lists every resource that can be listed. Leases are renewed all the
// time, and only that they are there is compared.
func allObjects(ctx context.Context, t *testing.T, k *lab.Kube) objects {
	t.Helper()
	cfg := quiet(k)
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	rig.Must(t, err)
	c, err := dynamic.NewForConfig(cfg)
	rig.Must(t, err)
	lists, err := d.ServerPreferredResources()
	rig.Must(t, err)
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "get"}}, lists)
	out := objects{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		rig.Must(t, err)
		for _, r := range list.APIResources {
			if r.Name == "componentstatuses" {
				continue // not stored, looked at when asked for
			}
			all, err := c.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			rig.Must(t, err)
			for _, u := range all.Items {
				b, err := json.Marshal(u.Object)
				rig.Must(t, err)
				text := string(b)
				if r.Name == "leases" {
					text = string(u.GetUID())
				}
				out[fmt.Sprintf("%s %s/%s", gv.WithResource(r.Name), u.GetNamespace(), u.GetName())] = text
			}
		}
	}
	return out
}

// quiet is a client's configuration without warnings of deprecation.
func quiet(k *lab.Kube) *rest.Config {
	cfg := k.Config()
	cfg.WarningHandler = rest.NoWarnings{}
	return cfg
}

// settledObjects waits until a fresh apiserver has made what it makes by itself.
func settledObjects(ctx context.Context, t *testing.T, l *rig.Lab, k *lab.Kube) objects {
	t.Helper()
	last := allObjects(ctx, t, k)
	same := time.Now()
	l.Eventually(2*time.Minute, "no object to change for 5 s", func() (bool, string) {
		now := allObjects(ctx, t, k)
		if changed, missing := compareObjects(last, now); len(changed)+len(missing) > 0 || len(now) != len(last) {
			last, same = now, time.Now()
		}
		return time.Since(same) > 5*time.Second, fmt.Sprintf("%d objects", len(now))
	})
	if len(last) < 150 {
		t.Fatalf("only %d objects: %v", len(last), last)
	}
	return last
}

func compareObjects(before, after objects) (changed, missing []string) {
	for k, v := range before {
		switch got, ok := after[k]; {
		case !ok:
			missing = append(missing, k)
		case got != v:
			changed = append(changed, k)
		}
	}
	sort.Strings(changed)
	sort.Strings(missing)
	return changed, missing
}

// apiWriter creates ConfigMaps one after the other.
type apiWriter struct {
	client dynamic.Interface
	cancel context.CancelFunc
	wg     sync.WaitGroup

	acked []string
	errs  map[string]int
}

func startAPIWriter(ctx context.Context, t *testing.T, k *lab.Kube) *apiWriter {
	t.Helper()
	c, err := dynamic.NewForConfig(quiet(k))
	rig.Must(t, err)
	ctx, cancel := context.WithCancel(ctx)
	w := &apiWriter{client: c, cancel: cancel, errs: map[string]int{}}
	w.wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("during-%05d", i)
			_, err := c.Resource(configMaps).Namespace("default").Create(context.WithoutCancel(ctx), object("ConfigMap", name, "x"), metav1.CreateOptions{})
			switch {
			case err == nil:
				w.acked = append(w.acked, name)
			case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err),
				strings.Contains(err.Error(), "leader changed"), strings.Contains(err.Error(), "proposal dropped"):
				t.Logf("retriable: %v", err)
			default:
				w.errs[err.Error()]++
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *apiWriter) stop() {
	w.cancel()
	w.wg.Wait()
}

func (w *apiWriter) check(ctx context.Context, t *testing.T) {
	t.Helper()
	all, err := w.client.Resource(configMaps).Namespace("default").List(ctx, metav1.ListOptions{})
	rig.Must(t, err)
	have := map[string]bool{}
	for _, u := range all.Items {
		have[u.GetName()] = true
	}
	for _, name := range w.acked {
		if !have[name] {
			t.Errorf("%s was acknowledged and is gone", name)
		}
	}
	t.Logf("%d objects made through the API meanwhile, errors %v", len(w.acked), w.errs)
	if len(w.errs) > 0 || len(w.acked) == 0 {
		t.Errorf("errors of the API: %v", w.errs)
	}
}

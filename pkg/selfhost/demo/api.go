package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

const namespace = "default"

// apiLoad is a writer and an informer that work through the API all the time.
type apiLoad struct {
	client dynamic.Interface
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	acked     map[string]int // object -> last acknowledged value
	ok        int
	errs      map[string]int
	retriable map[string]int
	seen      map[string]int // object -> last value the informer saw
	backwards []string       // values or revisions the informer saw go back
	revision  map[string]uint64
}

func startAPILoad(ctx context.Context, cfg *rest.Config) (*apiLoad, error) {
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &apiLoad{client: c, stop: cancel, acked: map[string]int{}, errs: map[string]int{}, retriable: map[string]int{},
		seen: map[string]int{}, revision: map[string]uint64{}}
	if err := a.inform(ctx, cfg); err != nil {
		cancel()
		return nil, err
	}
	a.wg.Go(func() { a.write(ctx) })
	return a, nil
}

func (a *apiLoad) inform(ctx context.Context, cfg *rest.Config) error {
	watch := rest.CopyConfig(cfg)
	watch.Timeout = 0 // a watch has no end
	c, err := dynamic.NewForConfig(watch)
	if err != nil {
		return err
	}
	f := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c, 0, namespace, func(o *metav1.ListOptions) { o.LabelSelector = "app=demo" })
	inf := f.ForResource(configMaps).Informer()
	if err := inf.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { a.failed("informer", err) }); err != nil {
		return err
	}
	if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: a.observe, UpdateFunc: func(_, o any) { a.observe(o) },
		DeleteFunc: func(o any) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.backwards = append(a.backwards, fmt.Sprintf("deleted: %v", o))
		},
	}); err != nil {
		return err
	}
	a.wg.Go(func() { inf.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
		return errors.New("the informer never synced")
	}
	return nil
}

func (a *apiLoad) observe(o any) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	n := value(u)
	rev, _ := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	a.mu.Lock()
	defer a.mu.Unlock()
	if n < a.seen[u.GetName()] || rev < a.revision[u.GetName()] {
		a.backwards = append(a.backwards, fmt.Sprintf("%s from %d to %d", u.GetName(), a.seen[u.GetName()], n))
	}
	a.seen[u.GetName()], a.revision[u.GetName()] = n, rev
}

func value(u *unstructured.Unstructured) int {
	s, _, _ := unstructured.NestedString(u.Object, "data", "n")
	n, _ := strconv.Atoi(s)
	return n
}

// write creates and updates ConfigMaps, some 50 a second: a control plane at work.
func (a *apiLoad) write(ctx context.Context) {
	r := a.client.Resource(configMaps).Namespace(namespace)
	for i := 1; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("demo-%d", i%50)
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{"app": "demo"}},
			"data":     map[string]any{"n": strconv.Itoa(i)}}}
		var err error
		op := context.WithoutCancel(ctx)
		if a.has(name) {
			_, err = r.Update(op, u, metav1.UpdateOptions{})
		} else {
			_, err = r.Create(op, u, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) { // an earlier create that failed for us and worked
				_, err = r.Update(op, u, metav1.UpdateOptions{})
			}
		}
		if err != nil {
			a.failed("writer", err)
		} else {
			a.mu.Lock()
			a.acked[name] = i
			a.ok++
			a.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (a *apiLoad) has(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.acked[name]
	return ok
}

func (a *apiLoad) failed(who string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if isRetriable(err) {
		a.retriable[who+": "+err.Error()]++
	} else {
		a.errs[who+": "+err.Error()]++
	}
}

// isRetriable: what a client of Kubernetes retries anyway. A connection to etcd
// cut under a write becomes a plain 500, which is not among them.
func isRetriable(err error) bool {
	var ne net.Error
	switch {
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return true
	case errors.As(err, &ne) && ne.Timeout():
		return true
	}
	for _, s := range []string{"leader changed", "raft proposal dropped", "request timed out", "context deadline exceeded"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

// Stop ends writer and informer.
func (a *apiLoad) Stop() {
	a.stop()
	a.wg.Wait()
}

func (a *apiLoad) counts() (ok, errs, retriable int, texts []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for t, n := range a.errs {
		errs += n
		texts = append(texts, fmt.Sprintf("%d × %s", n, t))
	}
	for _, n := range a.retriable {
		retriable += n
	}
	for _, b := range a.backwards {
		errs++
		texts = append(texts, "the informer saw time run backwards: "+b)
	}
	return a.ok, errs, retriable, texts
}

// lost compares what was acknowledged with what a fresh list returns.
func (a *apiLoad) lost(ctx context.Context) ([]string, error) {
	a.mu.Lock()
	acked := maps.Clone(a.acked) // before the read: what is acknowledged after it may be newer
	a.mu.Unlock()
	l, err := a.client.Resource(configMaps).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=demo"})
	if err != nil {
		return nil, fmt.Errorf("list ConfigMaps: %w", err)
	}
	have := map[string]int{}
	for i := range l.Items {
		have[l.Items[i].GetName()] = value(&l.Items[i])
	}
	var out []string
	for name, n := range acked {
		if got, ok := have[name]; !ok || got < n {
			out = append(out, fmt.Sprintf("ConfigMap %s: acknowledged %d, found %d", name, n, got))
		}
	}
	return out, nil
}

package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
)

// Defaults of Config.
const (
	DefaultNamespace = "kube-system"
	DefaultSecret    = "etcd-selfhost-driver"
	DefaultLease     = "etcd-selfhost-operator"
	DefaultLookEvery = 5 * time.Second
)

// Pauses between turns.
const (
	whileWorking = time.Second            // a run is under way, or something is waited for
	whileAway    = 500 * time.Millisecond // the API did not answer, or another operator leads
	apiTimeout   = 5 * time.Second        // of one call; an apiserver without etcd hangs for a minute
)

// Config of an operator.
type Config struct {
	// REST reaches the API whose EtcdCluster objects are obeyed.
	REST *rest.Config
	// Namespace of the objects, the Lease, the Secret; DefaultNamespace.
	Namespace string
	// Name is who this is, for people and the Lease: unique per process.
	Name string
	// CertDir, when set, holds ca.crt, driver.crt and driver.key; the Secret is not read.
	CertDir string
	// Secret with ca.crt, tls.crt and tls.key of a driver; DefaultSecret.
	Secret string
	// AgentPort of every node, until an agent's spec says another.
	AgentPort int
	// LeaderElect: wait for the Lease. Safety does not rest on it (the agents' grants do).
	LeaderElect bool
	// MetricsAddress and HealthAddress to listen on; "0": not at all.
	MetricsAddress, HealthAddress string
	// LookEvery is the pause between turns when there is nothing to do.
	LookEvery time.Duration
	Logger    *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Operator turns objects into runs of a driver. Its turns are serial.
type Operator struct {
	cfg    Config
	log    *slog.Logger
	api    client.Client // reads what is, never a cache
	events recorder
	key    string // this process as a driver; its grants end with it

	leads    atomic.Bool   // this process holds the Lease, or needs none
	holder   func() string // of the Lease, as last seen; nil: there is none
	readAPI  atomic.Bool   // the API has answered once
	engines  map[types.UID]*engine
	renewNot time.Time // not to be renewed before
	awaySay  time.Time // when it was last said that the API is away
}

func (c *Config) setDefaults() error {
	if c.REST == nil || c.Name == "" {
		return errors.New("an operator needs a way to the API and a name")
	}
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	if c.Secret == "" {
		c.Secret = DefaultSecret
	}
	if c.LookEvery <= 0 {
		c.LookEvery = DefaultLookEvery
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// Scheme knows the types of ours and Kubernetes' own.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, v1alpha1.AddToScheme(s)
}

// Run works until ctx ends; then runs under way stop between two steps, and
// grants and Lease are given back. It returns an error only for what no waiting
// mends: a configuration that cannot be used, a port that is taken. An API that
// is away, at the start too, is waited for.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.setDefaults(); err != nil {
		return err
	}
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(cfg.REST, managerOptions(cfg, scheme))
	if err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	api, err := client.New(cfg.REST, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("client of the API: %w", err)
	}
	o := &Operator{cfg: cfg, log: cfg.Logger, api: api, key: driver.NewKey(), engines: map[types.UID]*engine{},
		events: recorder{to: mgr.GetEventRecorder("etcd-selfhost-operator")}}
	if err := o.watch(mgr); err != nil {
		return err
	}
	if err := o.checks(mgr); err != nil {
		return err
	}
	o.leads.Store(!cfg.LeaderElect)
	ended := func() {}
	if cfg.LeaderElect {
		if ended, err = o.elect(ctx); err != nil {
			return err
		}
	}
	err = mgr.Start(ctx)
	o.stopAll("the operator ends")
	ended()
	return err
}

func managerOptions(cfg Config, scheme *runtime.Scheme) ctrl.Options {
	return ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: cfg.MetricsAddress},
		// Losing a manager's own election ends the process; see elect.
		LeaderElection:         false,
		HealthProbeBindAddress: cfg.HealthAddress,
		// An API without our CRD, or away, is waited for; the default gives up.
		Controller: config.Controller{CacheSyncTimeout: 10 * 365 * 24 * time.Hour},
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.EtcdCluster{}: {Namespaces: map[string]cache.Config{cfg.Namespace: {}}},
		}},
	}
}

// watch makes every change that may matter a turn. All objects are one request:
// whether two of them ask for one node is seen only together.
func (o *Operator) watch(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	})
	// A Node is updated every few minutes by its kubelet; its addresses are read
	// at every turn anyway.
	nodes := predicate.And(predicate.Or(predicate.LabelChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
		}}))
	return builder.ControllerManagedBy(mgr).Named("etcdcluster").
		Watches(&v1alpha1.EtcdCluster{}, all, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Node{}, all, builder.OnlyMetadata, builder.WithPredicates(nodes)).
		Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: o.turnAll(ctx)}, nil
		}))
}

// yields: another process was seen holding the Lease.
func (o *Operator) yields() bool {
	if o.holder == nil || o.leads.Load() {
		return false
	}
	h := o.holder()
	return h != "" && h != o.cfg.Name
}

// checks: alive is a process that answers; ready is one that has read the API
// once. An API that goes away later makes neither fail: a restart mends nothing.
func (o *Operator) checks(mgr ctrl.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("api", func(*http.Request) error {
		if o.readAPI.Load() || o.yields() {
			return nil
		}
		return errors.New("the API has not answered yet")
	})
}

// identity of the driver as of now, and what tells one from the next.
type identity struct {
	tls  *tls.Config
	leaf *x509.Certificate
	mark string
}

func kubeClient(c *rest.Config) (kubernetes.Interface, error) {
	c = rest.CopyConfig(c)
	c.Timeout = apiTimeout
	return kubernetes.NewForConfig(c)
}

package operator

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Times of the Lease: Kubernetes' own for its control plane.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// elect stands for election until ctx ends, again and again: with the API away
// nobody can renew, and a process that ended over it would be restarted with
// growing backoff just while it is needed. ended waits until the Lease was given
// back, after ctx.
func (o *Operator) elect(ctx context.Context) (ended func(), err error) {
	kube, err := kubeClient(o.cfg.REST) // its calls are short: a hanging one would outlast the Lease
	if err != nil {
		return nil, fmt.Errorf("client for the election: %w", err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, o.cfg.Namespace, DefaultLease, kube.CoreV1(), kube.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: o.cfg.Name})
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	le, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: DefaultLease, ReleaseOnCancel: true,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				o.leads.Store(true)
				<-leading.Done()
				o.leads.Store(false)
				if ctx.Err() == nil {
					o.log.Warn("lease lost; standing for election again", "lease", DefaultLease)
				}
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      func(id string) { o.log.Info("leader", "lease", DefaultLease, "holder", id, "self", id == o.cfg.Name) },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	o.holder = le.GetLeader
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			le.Run(ctx)
		}
	}()
	return func() { <-done }, nil
}

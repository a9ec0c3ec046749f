package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
)

// Times of renewal: at half of a day, and at once where somebody put a
// certificate that lives longer than a day into the Secret.
const (
	renewBefore = pki.DriverLife / 2
	longLife    = pki.DriverLife + 2*pki.Backdate
	renewAgain  = time.Minute // after a try that failed
)

// due says whether the identity in use is to be renewed now.
func (o *Operator) due(id identity) bool {
	now := o.cfg.Now()
	if o.cfg.CertDir != "" || id.leaf == nil || now.Before(o.renewNot) {
		return false
	}
	return id.leaf.NotAfter.Sub(now) < renewBefore || id.leaf.NotAfter.Sub(id.leaf.NotBefore) > longLife
}

// renew has an agent sign a key made here and replaces the Secret's certificate,
// key and all. The old one stays good until then, so a failure is tried again.
func (o *Operator) renew(ctx context.Context, w *world) {
	if !o.due(w.id) {
		return
	}
	if err := o.renewOnce(ctx, w); err != nil {
		o.renewNot = o.cfg.Now().Add(renewAgain)
		o.log.Warn("driver certificate not renewed", "expires", w.id.leaf.NotAfter, "error", err)
		if w.id.leaf.NotAfter.Sub(o.cfg.Now()) < renewBefore/2 && len(w.clusters) > 0 {
			o.events.event(&w.clusters[0], "", corev1.EventTypeWarning, "CertificateNotRenewed", err.Error())
		}
		return
	}
	o.log.Info("driver certificate renewed", "secret", o.cfg.Secret)
}

func (o *Operator) renewOnce(ctx context.Context, w *world) error {
	ctx, cancel := context.WithTimeout(ctx, 2*apiTimeout)
	defer cancel()
	key, csr, err := pki.NewDriverRequest("operator")
	if err != nil {
		return err
	}
	cert, err := o.signed(ctx, w.id, csr)
	if err != nil {
		return err
	}
	var s corev1.Secret
	if err := o.api.Get(ctx, types.NamespacedName{Namespace: o.cfg.Namespace, Name: o.cfg.Secret}, &s); err != nil {
		return err
	}
	if _, _, err := pki.DriverConfigPEM(s.Data["ca.crt"], cert, key); err != nil {
		return fmt.Errorf("what the agent signed cannot be used: %w", err)
	}
	s.Data["tls.crt"], s.Data["tls.key"] = cert, key
	return o.api.Update(ctx, &s) // of the version that was read
}

// signed asks the agents of every object one after the other; not every node
// has the CA's key.
func (o *Operator) signed(ctx context.Context, id identity, csr []byte) ([]byte, error) {
	var errs []error
	for _, e := range o.engines {
		c := agentclient.NewClient(id.tls, e.ports.Agent)
		defer c.Close()
		for _, n := range e.stored {
			cert, err := c.CertDriver(ctx, n.Address, csr)
			if err == nil {
				return cert, nil
			}
			errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
		}
	}
	if len(errs) == 0 {
		return nil, errors.New("no agent is known yet")
	}
	return nil, errors.Join(errs...)
}

package operator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
)

// identity reads the driver certificate anew: from the folder, or from the
// Secret. One that is not a driver's, or not of the CA beside it, is an error
// that names it.
func (o *Operator) identity(ctx context.Context) (identity, error) {
	ca, cert, key, from, err := o.pems(ctx)
	if err != nil {
		return identity{}, err
	}
	conf, leaf, err := pki.DriverConfigPEM(ca, cert, key)
	if err != nil {
		return identity{}, fmt.Errorf("%s: %w", from, err)
	}
	if now := o.cfg.Now(); now.After(leaf.NotAfter) {
		return identity{}, fmt.Errorf("%s: the driver certificate expired at %s", from, leaf.NotAfter.UTC().Format("2006-01-02T15:04:05Z"))
	}
	return identity{tls: conf, leaf: leaf, mark: fmt.Sprintf("%s %x", from, leaf.SerialNumber)}, nil
}

func (o *Operator) pems(ctx context.Context) (ca, cert, key []byte, from string, err error) {
	if dir := o.cfg.CertDir; dir != "" {
		read := func(name string) []byte {
			if err != nil {
				return nil
			}
			var b []byte
			b, err = os.ReadFile(filepath.Join(dir, name))
			return b
		}
		ca, cert, key = read("ca.crt"), read("driver.crt"), read("driver.key")
		return ca, cert, key, dir, err
	}
	var s corev1.Secret
	from = "Secret " + o.cfg.Namespace + "/" + o.cfg.Secret
	if err := o.api.Get(ctx, types.NamespacedName{Namespace: o.cfg.Namespace, Name: o.cfg.Secret}, &s); err != nil {
		return nil, nil, nil, from, fmt.Errorf("%s: %w", from, err)
	}
	return s.Data["ca.crt"], s.Data["tls.crt"], s.Data["tls.key"], from, nil
}

package member

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/port"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// portWait is how long a port may still be another's: the process that held our
// lock frees its sockets in the same moment, not before it.
const portWait = time.Second

// ready refuses what etcd itself would end of, with words that say less: a
// certificate that does not load (CASES T3), a port that somebody holds. What
// only others would object to (dates, names) does not keep a member down (I9);
// the agent reports it.
func ready(ctx context.Context, id wire.Identity, args []string) error {
	if err := pki.Loadable(id.PKIDir, pki.Server, pki.Peer); err != nil {
		return &wire.Refusal{Name: RefusedCertificates, Node: id.Node.Name, Found: err.Error(),
			Want: "certificates and keys that belong together; nothing was started, and it is tried again", Cites: "CASES T3"}
	}
	for end := time.Now().Add(portWait); ; {
		err := port.Try(ctx, listens(args)...)
		var taken *port.Taken
		if !errors.As(err, &taken) {
			return err
		}
		if time.Now().After(end) {
			return &wire.Refusal{Name: RefusedPort, Node: id.Node.Name, Found: taken.Error(), Want: "its ports free"}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// listens are the addresses that etcd will listen on, from its arguments.
func listens(args []string) []string {
	var out []string
	flags := Flags(args)
	for _, name := range []string{"listen-peer-urls", "listen-client-urls", "listen-metrics-urls"} {
		for _, raw := range strings.Split(flags[name], ",") {
			if u, err := url.Parse(raw); err == nil && u.Host != "" {
				out = append(out, u.Host)
			}
		}
	}
	return out
}

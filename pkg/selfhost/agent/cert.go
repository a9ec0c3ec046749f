package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// certDriver signs a driver certificate for whoever is a driver already, where
// the CA's key is on this node. It needs no grant, since it changes nothing that
// drivers could be at odds about, and stands in the journal.
func (a *Agent) certDriver(_ context.Context, in wire.CertRequest) (wire.CertReply, error) {
	out := wire.CertReply{Reply: ok()}
	cert, err := pki.SignDriver(a.id.PKIDir, []byte(in.CSR), a.now())
	if errors.Is(err, pki.ErrNoCAKey) {
		return out, &wire.Refusal{Name: "NoCAKey", Node: a.id.Node.Name, Found: err.Error(), Want: "the agent of a node that has it"}
	}
	if err == nil {
		err = a.journal.Append(wire.JournalEntry{Step: "SignDriver", By: "agent", Outcome: "ok", Evidence: fmt.Sprintf("valid for %s", pki.DriverLife)})
	}
	out.Cert = string(cert)
	return out, err
}

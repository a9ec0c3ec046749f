package agent

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/port"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// forMembers are the certificates without which a member on this node could not
// be joined, served or looked at.
var forMembers = []pki.Name{pki.Server, pki.Peer, pki.HealthcheckClient}

// unfit says, in words, why a member (or seed) that starts here now would come to nothing:
// told before it is registered, since an entry that never starts helps nobody
// (CASES M1, T1, L5). A member that runs proves the contrary and is not asked about.
func (a *Agent) unfit(o *wire.Observation, slot wire.Slot) []string {
	var out []string
	for _, c := range o.Certs {
		for _, n := range forMembers {
			if c.Name == string(n) && c.Unusable {
				out = append(out, fmt.Sprintf("certificate %s: %s", c.Name, c.Problem))
			}
		}
	}
	if sl := o.SlotOf(slot); sl != nil && sl.Process.State == wire.ProcDown {
		out = append(out, a.portsTaken(slot)...)
		own, err := datadir.OwnMount(a.id, slot)
		switch {
		case err != nil:
			out = append(out, err.Error())
		case own:
			out = append(out, fmt.Sprintf("%s is a filesystem of its own and could not be renamed into the attic; mount it at %s (CASES L5)", a.id.SlotDir(slot), a.id.DataDir))
		}
	}
	if addr := net.JoinHostPort(a.id.Node.Proxy(), strconv.Itoa(a.id.Ports.Client)); o.Proxy == nil && port.Listened(addr) {
		// A proxy that cannot listen is up for a moment each time it is tried; what
		// counts is who listens.
		holders := port.Holders(addr)
		ours := func(p wire.Process) bool {
			return p.PID != 0 && slices.ContainsFunc(holders, func(h string) bool { return strings.Contains(h+" ", fmt.Sprintf("pid %d ", p.PID)) })
		}
		if p, err := a.rt.Process(NameProxy); err == nil && !ours(p) {
			out = append(out, "the proxy's port: "+(&port.Taken{Addr: addr, Holders: holders}).Error())
		}
	}
	return out
}

// portsTaken looks whether anybody listens where the member would. It opens no
// socket of its own: a look must not take a port from an etcd that starts.
func (a *Agent) portsTaken(slot wire.Slot) []string {
	var out []string
	client, peer, metrics := a.id.Ports.Of(slot)
	for _, p := range []int{client, peer, metrics} {
		if addr := a.id.Node.HostPort(p); port.Listened(addr) {
			out = append(out, (&port.Taken{Addr: addr, Holders: port.Holders(addr)}).Error())
		}
	}
	return out
}

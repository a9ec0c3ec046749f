package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// wantedIdentity is the identity that the settings describe. Its node has no
// address where none was given.
func wantedIdentity(s *config.Settings) (wire.Identity, error) {
	name := s.NodeName
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return wire.Identity{}, usagef("--node-name is needed, this host does not know its name: %v", err)
		}
		name = strings.ToLower(host)
		if err := config.NodeName(name); err != nil {
			return wire.Identity{}, usagef("--node-name is needed: this host's name will not do: %v", err)
		}
	}
	id := wire.Identity{V: wire.V, Node: wire.NodeRef{Name: name, ProxyAddress: s.ProxyAddress}, Ports: s.Ports,
		DataDir: s.DataDir, StateDir: s.StateDir, PKIDir: s.PKIDir,
		Runtime: wire.Runtime(s.Runtime), SeedRuntime: wire.Runtime(s.SeedRuntime)}
	if len(s.Addresses) > 0 {
		id.Node.Address = s.Addresses[0]
	}
	if len(s.Addresses) > 1 {
		id.Node.MoreAddresses = slices.Clone(s.Addresses[1:])
	}
	return id, nil
}

// fact is one part of an identity under its flag's name.
type fact struct{ flag, val string }

func facts(id wire.Identity) []fact {
	p := id.Ports
	f := []fact{
		{"node-name", id.Node.Name},
		{"address", strings.Join(append([]string{id.Node.Address}, id.Node.MoreAddresses...), ",")},
		{"proxy-address", id.Node.Proxy()},
		{"data-dir", id.DataDir}, {"state-dir", id.StateDir}, {"pki-dir", id.PKIDir},
		{"runtime", string(id.Runtime)}, {"seed-runtime", string(id.SeedRuntime)},
	}
	for _, x := range []struct {
		flag string
		port int
	}{{"client-port", p.Client}, {"peer-port", p.Peer}, {"metrics-port", p.Metrics}, {"agent-port", p.Agent},
		{"seed-client-port", p.SeedClient}, {"seed-peer-port", p.SeedPeer}, {"seed-metrics-port", p.SeedMetrics}} {
		f = append(f, fact{x.flag, fmt.Sprint(x.port)})
	}
	return f
}

// identityDiffers refuses what the identity on disk, written once, says
// otherwise; only flags for which asked is true are compared.
func identityDiffers(have, want wire.Identity, asked func(flag string) bool) *wire.Refusal {
	var found, wanted []string
	w := facts(want)
	for i, h := range facts(have) {
		if h.val != w[i].val && asked(h.flag) {
			found = append(found, "--"+h.flag+" "+h.val)
			wanted = append(wanted, "--"+h.flag+" "+w[i].val)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return &wire.Refusal{Name: "IdentityDiffers", Node: have.Node.Name,
		Found: strings.Join(found, ", ") + " in " + have.State(wire.FileIdentity),
		Want:  strings.Join(wanted, ", ") + " as asked; an identity is written once: use what is there, or another --state-dir"}
}

// runtimeSupported names what this release can run.
func runtimeSupported(id wire.Identity) *wire.Refusal {
	for _, r := range []struct {
		flag string
		val  wire.Runtime
	}{{"--runtime", id.Runtime}, {"--seed-runtime", id.SeedRuntime}} {
		if r.val != wire.RuntimeProcess {
			return &wire.Refusal{Name: "RuntimeNotSupported", Node: id.Node.Name, Found: r.flag + " " + string(r.val),
				Want: r.flag + " " + string(wire.RuntimeProcess) + ", the one runtime of this release: a child process of the agent, which outlives it"}
		}
	}
	return nil
}

package member

import (
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// The two initial cluster states.
const (
	StateNew      = "new"
	StateExisting = "existing"
)

// StartInfo is what the arguments depend on besides identity and spec.
type StartInfo struct {
	// Epoch names the seed (NODE-seed-EPOCH); unused for a member.
	Epoch uint64
	// State is StateNew for a seed that makes its cluster, StateExisting otherwise
	// (also empty). Only a first start looks at it.
	State string
	// InitialCluster is name=peerURL,… from the live member list, for a first start that
	// joins. Empty: a seed's own entry, or for a member nothing, so that its
	// arguments never go on naming a removed seed (LESSONS, bootkube#373).
	InitialCluster string
	// Token makes a new cluster's IDs unique (NewToken); only with StateNew.
	Token string
	// EtcdVersion is that of spec.EtcdBinary ("3.5.16"); empty: the embedded one's.
	EtcdVersion string
}

// NewToken makes a seed's cluster token, "epoch-N-" and 16 random hex digits
// read from random: every seed gets a new cluster and member ID (DESIGN "Epoch").
func NewToken(epoch uint64, random io.Reader) (string, error) {
	b := make([]byte, 8)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", fmt.Errorf("make a cluster token: %w", err)
	}
	return fmt.Sprintf("epoch-%d-%x", epoch, b), nil
}

// Name is the slot's etcd name.
func Name(id wire.Identity, slot wire.Slot, epoch uint64) string {
	if slot == wire.SlotSeed {
		return wire.SeedName(id.Node.Name, epoch)
	}
	return id.Node.Name
}

// PeerURL and ClientURL are the slot's advertised URLs; IPv6 is bracketed.
func PeerURL(n wire.NodeRef, p wire.Ports, slot wire.Slot) string {
	_, peer, _ := p.Of(slot)
	return "https://" + n.HostPort(peer)
}

// ClientURL is where the slot's etcd serves clients.
func ClientURL(n wire.NodeRef, p wire.Ports, slot wire.Slot) string {
	client, _, _ := p.Of(slot)
	return "https://" + n.HostPort(client)
}

// MetricsURL is where the slot's etcd serves metrics and health, in plain HTTP.
// On the node address, not loopback: several nodes may share a machine's
// loopback. It opens before the client URL.
func MetricsURL(n wire.NodeRef, p wire.Ports, slot wire.Slot) string {
	_, _, metrics := p.Of(slot)
	return "http://" + n.HostPort(metrics)
}

// Args renders the slot's complete etcd arguments, each --name=value, in a
// fixed order. It reads nothing: equal input, equal output. What takes part in
// apply is one value on every member (I11). Errors: an initial cluster that
// LintCluster refuses, or a new cluster without token.
func Args(id wire.Identity, spec wire.Spec, slot wire.Slot, start StartInfo) ([]string, error) {
	name := Name(id, slot, start.Epoch)
	peer := PeerURL(id.Node, id.Ports, slot)
	client := ClientURL(id.Node, id.Ports, slot)
	pki := func(file string) string { return filepath.Join(id.PKIDir, file) }
	a := arguments{}
	a.add("name", name)
	a.add("data-dir", id.SlotDir(slot))
	a.add("listen-client-urls", client)
	a.add("advertise-client-urls", client)
	a.add("listen-peer-urls", peer)
	a.add("initial-advertise-peer-urls", peer)
	a.add("listen-metrics-urls", MetricsURL(id.Node, id.Ports, slot))
	if err := a.cluster(name, peer, start); err != nil {
		return nil, err
	}
	a.add("cert-file", pki("server.crt"))
	a.add("key-file", pki("server.key"))
	a.add("trusted-ca-file", pki("ca.crt"))
	a.add("client-cert-auth", "true")
	a.add("peer-cert-file", pki("peer.crt"))
	a.add("peer-key-file", pki("peer.key"))
	a.add("peer-trusted-ca-file", pki("ca.crt"))
	a.add("peer-client-cert-auth", "true")
	if atLeast36(start.EtcdVersion) {
		a.add("max-learners", strconv.Itoa(wire.MaxLearners)) // 3.5 does not know the flag
	}
	a.settings(spec.Settings)
	// Under systemd etcd would otherwise write to the journal past its supervisor.
	a.add("logger", "zap")
	a.add("log-outputs", "stderr")
	return a, nil
}

type arguments []string

func (a *arguments) add(name, value string) { *a = append(*a, "--"+name+"="+value) }

func (a *arguments) cluster(name, peer string, start StartInfo) error {
	cluster, state := start.InitialCluster, start.State
	if state == "" {
		state = StateExisting
	}
	if state == StateNew {
		if start.Token == "" {
			return fmt.Errorf("a new cluster of %s needs a token of its own, or its IDs could be another cluster's", name)
		}
		if cluster == "" {
			cluster = name + "=" + peer
		}
	}
	if cluster != "" {
		if err := LintCluster(cluster, name, peer); err != nil {
			return err
		}
		a.add("initial-cluster", cluster)
	}
	a.add("initial-cluster-state", state)
	if state == StateNew {
		a.add("initial-cluster-token", start.Token)
	}
	return nil
}

func (a *arguments) settings(s wire.Settings) {
	set := func(name string, v int64) {
		if v != 0 {
			a.add(name, strconv.FormatInt(v, 10))
		}
	}
	set("quota-backend-bytes", s.QuotaBytes)
	set("heartbeat-interval", int64(s.HeartbeatMillis))
	set("election-timeout", int64(s.ElectionMillis))
	set("snapshot-count", int64(s.SnapshotCount))
}

// atLeast36 reads "3.6.4" or "v3.6.4"; empty is the embedded etcd.
func atLeast36(version string) bool {
	if version == "" {
		return true
	}
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 3 || major == 3 && minor >= 6
}

// LintCluster checks an initial cluster before etcd sees it (CASES M13): no
// empty name or URL, no name and no URL twice, and self in it with peer. The
// error names both owners.
func LintCluster(cluster, self, peer string) error {
	names, urls := map[string]string{}, map[string]string{}
	for _, entry := range strings.Split(cluster, ",") {
		name, raw, ok := strings.Cut(entry, "=")
		u, err := url.Parse(raw)
		switch {
		case !ok || name == "":
			return fmt.Errorf("initial cluster %q: entry %q has no name; a member that never started has none and must be named by its node", cluster, entry)
		case err != nil || u.Host == "":
			return fmt.Errorf("initial cluster %q: %s has no usable peer URL: %q", cluster, name, raw)
		}
		key := strings.ToLower(strings.TrimSuffix(raw, "/"))
		if owner, twice := urls[key]; twice {
			return fmt.Errorf("initial cluster %q: peer URL %s belongs to both %s and %s", cluster, raw, owner, name)
		}
		if other, twice := names[name]; twice {
			return fmt.Errorf("initial cluster %q: name %s belongs to both %s and %s", cluster, name, other, raw)
		}
		names[name], urls[key] = raw, name
	}
	found, ok := names[self]
	if !ok {
		return fmt.Errorf("initial cluster %q does not name %s, which is to start with it", cluster, self)
	}
	if found != peer {
		return fmt.Errorf("initial cluster %q: %s is at %s, but this node advertises %s", cluster, self, found, peer)
	}
	return nil
}

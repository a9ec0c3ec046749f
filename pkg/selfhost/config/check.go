package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// check judges every value by itself; what a verb needs is the verb's to ask for.
func (s *Settings) check() error {
	if err := s.oneOf("log-level", s.LogLevel, "debug", "info", "warn", "error"); err != nil {
		return err
	}
	if err := s.oneOf("log-format", s.LogFormat, "text", "json"); err != nil {
		return err
	}
	if s.Timeout < 0 {
		return errorf(s.where("timeout"), "%s is negative", s.Timeout)
	}
	for _, r := range []struct{ flag, val string }{{"runtime", s.Runtime}, {"seed-runtime", s.SeedRuntime}} {
		if err := s.oneOf(r.flag, r.val, string(wire.RuntimeProcess), string(wire.RuntimeStaticPod), string(wire.RuntimeSystemd)); err != nil {
			return err
		}
	}
	if err := s.checkPaths(); err != nil {
		return err
	}
	if err := s.checkNode(); err != nil {
		return err
	}
	if err := s.checkPorts(); err != nil {
		return err
	}
	return s.checkEtcd()
}

// checkPaths makes directories absolute: agents start children elsewhere.
func (s *Settings) checkPaths() error {
	for _, p := range []struct {
		flag string
		val  *string
	}{{"state-dir", &s.StateDir}, {"data-dir", &s.DataDir}, {"pki-dir", &s.PKIDir}, {"etcd-binary", &s.EtcdBinary}} {
		if *p.val == "" {
			if p.flag == "etcd-binary" {
				continue
			}
			return errorf(s.where(p.flag), "is empty")
		}
		abs, err := filepath.Abs(*p.val)
		if err != nil {
			return errorf(s.where(p.flag), "%s: %v", *p.val, err)
		}
		*p.val = abs
	}
	return nil
}

func (s *Settings) checkNode() error {
	if s.NodeName != "" {
		if err := NodeName(s.NodeName); err != nil {
			return errorf(s.where("node-name"), "%v", err)
		}
	}
	for i, a := range s.Addresses {
		if err := Address(a); err != nil {
			return errorf(s.where("address"), "%v", err)
		}
		if slices.Contains(s.Addresses[:i], a) {
			return errorf(s.where("address"), "%s was given twice", a)
		}
	}
	if s.ProxyAddress != "" {
		if err := Address(s.ProxyAddress); err != nil {
			return errorf(s.where("proxy-address"), "%v", err)
		}
		if slices.Contains(s.Addresses, s.ProxyAddress) {
			return errorf(s.where("proxy-address"), "%s is an address of the node too: there the member takes the client port", s.ProxyAddress)
		}
	}
	return nil
}

// checkPorts: seed and member share the node's address, so all seven differ.
func (s *Settings) checkPorts() error {
	p := s.Ports
	seen := map[int]string{}
	for _, x := range []struct {
		flag string
		port int
	}{{"client-port", p.Client}, {"peer-port", p.Peer}, {"metrics-port", p.Metrics}, {"agent-port", p.Agent},
		{"seed-client-port", p.SeedClient}, {"seed-peer-port", p.SeedPeer}, {"seed-metrics-port", p.SeedMetrics}} {
		if x.port < 1 || x.port > 65535 {
			return errorf(s.where(x.flag), "%d is no port (1 to 65535)", x.port)
		}
		if other, ok := seen[x.port]; ok {
			return errorf(s.where(x.flag), "%d is --%s too; all of them are used on one address", x.port, other)
		}
		seen[x.port] = x.flag
	}
	return nil
}

func (s *Settings) checkEtcd() error {
	e := s.Etcd
	for _, x := range []struct {
		flag string
		val  int64
	}{{"quota-bytes", e.QuotaBytes}, {"heartbeat-interval", int64(e.HeartbeatMillis)},
		{"election-timeout", int64(e.ElectionMillis)}, {"snapshot-count", int64(e.SnapshotCount)}} {
		if x.val < 0 {
			return errorf(s.where(x.flag), "%d is negative", x.val)
		}
	}
	// etcd refuses to start otherwise (server/embed/config.go, Validate).
	heart, elect := e.HeartbeatMillis, e.ElectionMillis
	if heart == 0 {
		heart = 100
	}
	if elect == 0 {
		elect = 1000
	}
	if 5*heart > elect || elect > 50000 {
		return errorf(s.where("election-timeout"), "%d ms with a heartbeat of %d ms: etcd takes five heartbeats at least and 50000 ms at most", elect, heart)
	}
	return nil
}

func (s *Settings) oneOf(flag, val string, known ...string) error {
	if slices.Contains(known, val) {
		return nil
	}
	return errorf(s.where(flag), "%q is none of %s", val, strings.Join(known, ", "))
}

func (s *Settings) where(flag string) string {
	if g := s.given[flag]; g != "" {
		return g
	}
	return "--" + flag
}

// NodeName checks a node name: a DNS label or name in lower case, as
// Kubernetes asks of nodes. It is a SAN, a file name and an etcd name too.
func NodeName(name string) error {
	bad := len(name) > 253
	for label := range strings.SplitSeq(name, ".") {
		bad = bad || label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
	}
	if bad {
		return fmt.Errorf("%q is no node name: lower-case letters, digits, - and dots, as in cp-1", name)
	}
	return nil
}

// Address checks an IP that others can dial, in its one spelling: no name, no
// zone, not link-local, not 0.0.0.0.
func Address(addr string) error {
	a, err := netip.ParseAddr(addr)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not an IP address (names are not resolved: a node must start without DNS)", addr)
	case a.Zone() != "":
		return fmt.Errorf("%s has a zone, which no other node can dial", addr)
	case a.IsUnspecified() || a.IsMulticast():
		return fmt.Errorf("%s is not an address of one node", addr)
	case a.IsLinkLocalUnicast():
		return fmt.Errorf("%s is link-local: it means another host on each link, and cannot be dialled without a zone (CASES L8)", addr)
	case a.Unmap().String() != addr:
		return fmt.Errorf("%s is written %s: one address has one spelling, so that it is told from others", addr, a.Unmap())
	}
	return nil
}

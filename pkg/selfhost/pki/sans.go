package pki

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// sans are subject alternative names, without duplicates, in order of mention.
type sans struct {
	ips   []net.IP
	names []string
}

// add takes an IP (v4, v6) or a DNS name; empty is skipped.
func (s *sans) add(v string) error {
	if v == "" {
		return nil
	}
	if a, err := netip.ParseAddr(v); err == nil {
		if a.Zone() != "" {
			return fmt.Errorf("address %q has a zone, which no certificate can hold: give it without %%%s", v, a.Zone())
		}
		ip := net.IP(a.Unmap().AsSlice())
		if !slices.ContainsFunc(s.ips, ip.Equal) {
			s.ips = append(s.ips, ip)
		}
		return nil
	}
	if !dnsName(v) {
		return fmt.Errorf("%q is neither an IP address nor a DNS name", v)
	}
	if !slices.ContainsFunc(s.names, func(n string) bool { return strings.EqualFold(n, v) }) {
		s.names = append(s.names, v)
	}
	return nil
}

func (s *sans) addIP(what, v string) error {
	if v == "" {
		return nil
	}
	if _, err := netip.ParseAddr(v); err != nil {
		return fmt.Errorf("%s %q is not an IP address", what, v)
	}
	return s.add(v)
}

func dnsName(v string) bool {
	if len(v) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(v, "."), ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range label {
			if !(c == '-' || c == '_' || c == '*' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
				return false
			}
		}
	}
	return true
}

// nodeSANs are what every server certificate of node needs. Clients of one
// proxy may be shown any member's certificate, so the proxy address of every
// node is in (DESIGN "Proxy targets").
func nodeSANs(node wire.NodeRef, proxies []string) (*sans, error) {
	s := &sans{}
	if node.Name == "" {
		return nil, fmt.Errorf("the node has no name")
	}
	if node.Address == "" {
		return nil, fmt.Errorf("node %s has no address", node.Name)
	}
	if err := s.add(node.Name); err != nil {
		return nil, fmt.Errorf("node name: %w", err)
	}
	_ = s.add("localhost")
	for _, a := range append([]string{node.Address}, node.MoreAddresses...) {
		if err := s.addIP("node address", a); err != nil {
			return nil, err
		}
	}
	for _, a := range append([]string{node.Proxy(), "127.0.0.1", "::1"}, proxies...) {
		if err := s.addIP("proxy address", a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// ProxyAddresses lists the proxy address of every node, for Params and Inspect.
func ProxyAddresses(nodes []wire.NodeRef) []string {
	var out []string
	for _, n := range nodes {
		if a := n.Proxy(); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// HostAddresses lists the global unicast addresses of this host's interfaces:
// those it may dial from, for Params.DialAddresses. Loopback and link-local
// ones are left out.
func HostAddresses() ([]string, error) {
	as, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this host's addresses: %w", err)
	}
	var out []string
	for _, a := range as {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().IsGlobalUnicast() {
			continue
		}
		out = append(out, p.Addr().Unmap().WithZone("").String())
	}
	return out, nil
}

package pki

import (
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Inspect judges the CA and every leaf of node at now, in the order of Leaves
// after the CA. proxyIPs are the proxies of every node known; their absence
// from a server certificate is a problem, as is that of the node's own name
// and addresses. It reads files only; what cannot be read is that entry's
// Problem. Several problems are joined by "; "; none is an empty Problem.
// Unusable is told of leaves only.
func Inspect(pkiDir string, node wire.NodeRef, proxyIPs []string, now time.Time) []wire.CertStatus {
	ca, caErr := readCA(pkiDir)
	st := wire.CertStatus{Name: string(CA)}
	switch {
	case caErr != nil:
		st.Problem = caErr.Error()
	case len(ca.certs) == 0:
		st.Problem = CertFile(pkiDir, CA) + " is missing"
	default:
		st.NotAfter = ca.certs[0].NotAfter
		st.Problem = join(append(validity(ca.certs[0], now), openKey(KeyFile(pkiDir, CA))...))
	}
	out := []wire.CertStatus{st}
	want, sanErr := nodeSANs(node, proxyIPs)
	for _, k := range leaves {
		s := inspectLeaf(pkiDir, k, ca, want, now)
		if sanErr != nil && k.server {
			s.Problem = join([]string{s.Problem, "SANs not checked: " + sanErr.Error()})
		}
		out = append(out, s)
	}
	return out
}

func inspectLeaf(pkiDir string, k kind, ca authority, want *sans, now time.Time) wire.CertStatus {
	certFile, keyFile := CertFile(pkiDir, k.name), KeyFile(pkiDir, k.name)
	st := wire.CertStatus{Name: string(k.name), Unusable: true}
	p, err := readPair(certFile, keyFile)
	if err != nil {
		st.Problem = err.Error()
		return st
	}
	switch p.have {
	case none:
		st.Problem = certFile + " and its key are missing"
		return st
	case keyOnly:
		st.Problem = certFile + " is missing, its key is there"
		return st
	}
	c := p.certs[0]
	st.NotAfter = c.NotAfter
	problems := validity(c, now)
	switch {
	case p.have == certOnly:
		problems = append(problems, "key "+keyFile+" is missing")
	case !samePublic(c.PublicKey, p.key):
		problems = append(problems, "key does not match: "+keyFile+" belongs to another certificate")
	}
	if len(ca.certs) > 0 && !signedBy(c, p.certs[1:], ca.certs) {
		problems = append(problems, fmt.Sprintf("signed by another CA: issuer %q does not verify with %s", c.Issuer, CertFile(pkiDir, CA)))
	}
	problems = append(problems, wrongUse(c, k)...)
	problems = append(problems, wrongSANs(c, k, want)...)
	st.Unusable = len(problems) > 0
	st.Problem = join(append(problems, openKey(keyFile)...))
	return st
}

func validity(c *x509.Certificate, now time.Time) []string {
	switch {
	case now.Before(c.NotBefore):
		return []string{fmt.Sprintf("not yet valid: valid from %s, this clock says %s; check the clocks of this node and of the one that signed", stamp(c.NotBefore), stamp(now))}
	case now.After(c.NotAfter):
		return []string{fmt.Sprintf("expired on %s, this clock says %s", stamp(c.NotAfter), stamp(now))}
	}
	return nil
}

func wrongUse(c *x509.Certificate, k kind) []string {
	var out []string
	for u, name := range map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "server", x509.ExtKeyUsageClientAuth: "client"} {
		if slices.Contains(k.usages(), u) && !slices.Contains(c.ExtKeyUsage, u) && !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny) {
			out = append(out, "wrong extended key usage: "+name+" authentication is missing")
		}
	}
	slices.Sort(out)
	if k.org != "" && !slices.Equal(c.Subject.Organization, []string{k.org}) {
		out = append(out, fmt.Sprintf("organization is %q, agents expect %q", c.Subject.Organization, k.org))
	}
	return out
}

func wrongSANs(c *x509.Certificate, k kind, want *sans) []string {
	if !k.server {
		if len(c.IPAddresses)+len(c.DNSNames) > 0 {
			return []string{"carries SANs: etcd would check the source address of its user against them"}
		}
		return nil
	}
	if want == nil {
		return nil
	}
	var missing []string
	for _, ip := range want.ips {
		if !slices.ContainsFunc(c.IPAddresses, func(h net.IP) bool { return h.Equal(ip) }) {
			missing = append(missing, ip.String())
		}
	}
	for _, n := range want.names {
		// By VerifyHostname, so that a wildcard counts.
		if c.VerifyHostname(n) != nil {
			missing = append(missing, n)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []string{"missing SAN: " + strings.Join(missing, ", ")}
}

func openKey(keyFile string) []string {
	if st, err := os.Stat(keyFile); err == nil && st.Mode().Perm()&0o007 != 0 {
		return []string{fmt.Sprintf("%s has mode %04o: every user of this host may use it; chmod 600", keyFile, st.Mode().Perm())}
	}
	return nil
}

func join(ps []string) string {
	return strings.Join(slices.DeleteFunc(ps, func(s string) bool { return s == "" }), "; ")
}

// Loadable says whether the process that uses these certificates could load
// them: both halves there, whole, and of one pair. The error names the file.
func Loadable(pkiDir string, names ...Name) error {
	for _, n := range names {
		if _, err := loadPair(CertFile(pkiDir, n), KeyFile(pkiDir, n)); err != nil {
			return err
		}
	}
	_, err := caPool(pkiDir)
	return err
}

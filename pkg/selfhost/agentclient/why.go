package agentclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
)

// Why says in words, for people, why an agent gave no answer: what was met and,
// where it is known, what to look at. It never says what that means for the
// node's etcd, since silence means nothing (I4).
func Why(err error) string {
	var u *url.Error
	if err == nil {
		return "no answer"
	}
	if !errors.As(err, &u) {
		return err.Error()
	}
	where := u.URL
	if at, perr := url.Parse(u.URL); perr == nil {
		where = at.Host
	}
	var alert tls.AlertError
	var other x509.UnknownAuthorityError
	var bad x509.CertificateInvalidError
	var host x509.HostnameError
	var dns *net.OpError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nobody listens on %s (connection refused): its agent is down, or the port is another", where)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Sprintf("no way to %s: %v", where, errors.Unwrap(u.Err))
	case u.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer from %s in time", where)
	case errors.As(err, &other):
		return fmt.Sprintf("what answers on %s has a certificate of another CA than the one used here: another cluster's agent, or the wrong --identity", where)
	case errors.As(err, &bad) && bad.Reason == x509.Expired:
		return fmt.Sprintf("the certificate of %s is not valid now: %s; renew it, or set the clock that is wrong", where, strings.TrimPrefix(bad.Detail, "x509: "))
	case errors.As(err, &host):
		return fmt.Sprintf("the certificate of %s is for other addresses: %v", where, host)
	case errors.As(err, &alert):
		return fmt.Sprintf("%s refuses the certificate shown to it (%s): it may be of another CA, expired, or not yet valid there", where, strings.TrimPrefix(alert.Error(), "tls: "))
	case errors.As(err, &dns) && dns.Op == "remote error":
		return fmt.Sprintf("%s refuses the certificate shown to it (%v): it may be of another CA, expired, or not yet valid there", where, dns.Err)
	}
	return u.Err.Error()
}

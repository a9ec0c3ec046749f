//go:build cases || sweep

package cases

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// made makes certificates for node n beside the lab's, with the lab's CA unless
// other, changed as change says.
func made(t *testing.T, l *rig.Lab, n *lab.Node, otherCA bool, change func(*pki.Params)) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "pki", "etcd")
	rig.Must(t, os.MkdirAll(dir, 0o700))
	if !otherCA {
		for _, f := range []func(string, pki.Name) string{pki.CertFile, pki.KeyFile} {
			put(t, f(l.Nodes[0].PKIDir(), pki.CA), f(dir, pki.CA))
		}
	}
	p := pki.Params{PKIDir: dir, Node: n.Ref, DialAddresses: []string{"127.0.0.1"}}
	for _, o := range l.Nodes {
		p.ProxyAddresses = append(p.ProxyAddresses, o.Ref.Proxy())
	}
	if change != nil {
		change(&p)
	}
	_, _, err := pki.EnsureNode(p)
	rig.Must(t, err)
	return dir
}

// put replaces a file as a careful hand does: whole, by rename.
func put(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	rig.Must(t, err)
	rig.Must(t, os.WriteFile(to+".new", b, 0o600))
	rig.Must(t, os.Rename(to+".new", to))
}

// swap puts names' pairs from dir in the node's place and returns the way back.
// half leaves the old key.
func swap(t *testing.T, n *lab.Node, dir string, half bool, names ...pki.Name) (back func()) {
	t.Helper()
	keep := t.TempDir()
	var files [][2]string
	for _, name := range names {
		files = append(files, [2]string{pki.CertFile(dir, name), pki.CertFile(n.PKIDir(), name)})
		if !half {
			files = append(files, [2]string{pki.KeyFile(dir, name), pki.KeyFile(n.PKIDir(), name)})
		}
	}
	for _, f := range files {
		put(t, f[1], filepath.Join(keep, filepath.Base(f[1])))
		put(t, f[0], f[1])
	}
	return func() {
		for _, f := range files {
			put(t, filepath.Join(keep, filepath.Base(f[1])), f[1])
		}
	}
}

// badCertificates are the ways a pair can be wrong, and the words for each.
type badCertificate struct {
	name  string
	other bool
	half  bool
	dials bool // on loopback every node dials from 127.0.0.1, which is in it
	make  func(*pki.Params)
	says  string
}

var badCertificates = []badCertificate{
	{name: "of another CA", other: true, says: "signed by another CA"},
	{name: "expired", make: func(p *pki.Params) {
		p.Now, p.LeafLife = func() time.Time { return time.Now().Add(-20 * time.Minute) }, 10*time.Minute
	}, says: "expired on"},
	{name: "not yet valid", make: func(p *pki.Params) { p.Now = func() time.Time { return time.Now().Add(3 * time.Hour) } }, says: "not yet valid: valid from"},
	{name: "of another node (T1)", dials: true, make: func(p *pki.Params) { p.Node = wire.NodeRef{Name: "cp-9", Address: "10.9.9.9"} }, says: "missing SAN"},
	{name: "half-written pair (T3)", half: true, says: "belongs to another certificate"},
}

// Certificates that cannot work: before a join they are refused by name; under
// a member they cost that member alone, and status tells; whole again, it goes on.
func TestCertificates(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 5*time.Minute)
	n := l.Nodes[1]
	for _, c := range badCertificates {
		t.Run("joiner, "+c.name, func(t *testing.T) {
			back := swap(t, n, made(t, l, n, c.other, c.make), c.half, pki.Server, pki.Peer)
			pivotRefused(ctx, t, l, "NodeUnfit", "cp-2", "certificate server", "certificate peer", c.says)
			statusSays(t, l, "cp-2: certificate peer: ", c.says)
			back()
		})
	}
	w, err := lab.StartWriters(ctx, l.Nodes[0], 4, "/load")
	rig.Must(t, err)
	defer w.Stop()
	if r := l.Run(l.PivotArgs(0)...); r.Code != 0 {
		t.Fatal(r)
	}
	l.CheckPivoted(ctx)

	for _, c := range badCertificates {
		t.Run("member restarted, "+c.name, func(t *testing.T) {
			back := swap(t, n, made(t, l, n, c.other, c.make), c.half, pki.Peer)
			w.Gap()
			old := must(datadir.HolderPID(n.Identity().SlotLock(wire.SlotMember)))
			rig.Must(t, n.Kill("member"))
			want := []string{"cp-2: certificate peer: ", c.says}
			if !c.dials {
				want = append(want, "quorum held 2/3")
			}
			if c.half {
				want = append(want, "CertificateUnusable", "peer.key")
			} else { // etcd takes it, its peers do not: it runs, alone
				running(ctx, t, l, n, old)
			}
			statusSays(t, l, want...)
			writes(ctx, t, l, 0)
			writes(ctx, t, l, 1) // its own proxy goes to the others
			back()
			serving(ctx, t, l, n, wire.SlotMember) // without anybody's help
			if gap := w.Gap(); gap > 5*time.Second {
				t.Errorf("the others were disturbed: no write acknowledged for %s", gap)
			}
		})
	}
	agentCertificates(ctx, t, l, n)
	w.Stop()
	noneLost(ctx, t, l, w)
}

// agentCertificates: the agent's own pair. One that runs stays with what was
// whole; one that starts refuses what does not fit together, and leaves the
// processes it would adopt alone.
func agentCertificates(ctx context.Context, t *testing.T, l *rig.Lab, n *lab.Node) {
	t.Run("agent, half-written pair (T3)", func(t *testing.T) {
		back := swap(t, n, made(t, l, n, false, nil), true, pki.Agent)
		statusSays(t, l, "cp-2: certificate agent: ", "belongs to another certificate") // it answers
		rig.Must(t, n.Kill("agent"))
		r := l.Run("agent", "--state-dir", n.StateDir())
		if r.Code != 1 || !strings.Contains(r.Stderr, "agent.crt") || !strings.Contains(r.Stderr, "agent.key") || !strings.Contains(r.Stderr, "does not match") {
			t.Errorf("want exit 1 naming both files: %s", r)
		}
		writes(ctx, t, l, 1)
		back()
		rig.Must(t, n.StartAgent())
		rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	})
	for _, c := range badCertificates[:4] {
		t.Run("agent, "+c.name, func(t *testing.T) {
			back := swap(t, n, made(t, l, n, c.other, c.make), c.half, pki.Agent)
			say := map[string]string{"of another CA": "another CA", "expired": "is not valid now", "not yet valid": "is not valid now", "of another node (T1)": "for other addresses"}[c.name]
			statusSays(t, l, "cp-2 at "+n.Ref.Address+" is silent", say)
			writes(ctx, t, l, 1)
			back()
			rig.Must(t, l.AwaitAgents(ctx, l.Nodes...)) // it reads the files again by itself
		})
	}
}

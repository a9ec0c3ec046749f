//go:build cases || sweep

package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// What others put into the member list, on one cluster that grows from two
// nodes to three to four meanwhile: a wrong peer URL, a late node (M15), a
// foreign member that runs, a voter that never started.
func TestStrangersInTheList(t *testing.T) {
	t.Parallel()
	l := rig.Up(t, 4)
	ctx := rig.Context(t, 5*time.Minute)
	w := load(ctx, t, l)
	c := l.Client(0)
	cluster := l.Look(ctx).Epoch.ClusterID
	pivot := func(nodes int, more ...string) rig.Ran {
		return l.Run(append([]string{"pivot", "--state-dir", l.Nodes[0].StateDir(), "--log-level", "warn", l.NodesFlag(nodes)}, more...)...)
	}
	refused := func(t *testing.T, r rig.Ran, want ...string) {
		t.Helper()
		for _, s := range want {
			if r.Code != 3 || !strings.Contains(r.Stderr, s) {
				t.Fatalf("want exit 3 and %q: %s", s, r)
			}
		}
	}
	members := func(t *testing.T, want int) {
		t.Helper()
		if v := l.Look(ctx); len(v.Members) != want || v.Epoch.ClusterID != cluster {
			t.Fatalf("want %d members of cluster %s: %+v", want, cluster, v.Members)
		}
	}

	t.Run("a learner with a wrong peer URL", func(t *testing.T) {
		url := "https://" + l.Nodes[1].Ref.HostPort(2390)
		r, err := c.MemberAddAsLearner(ctx, []string{url})
		rig.Must(t, err)
		id := wire.ID(r.Member.ID).String()
		refused(t, pivot(2), "ForeignMember", id, url, "never started", "--forget-learner "+id)
		members(t, 2)
		if r := pivot(2, "--forget-learner", id); r.Code != 0 || !strings.Contains(r.Stdout, "RemoveMember "+id) {
			t.Fatal(r)
		}
		members(t, 2) // cp-1 and cp-2
	})

	t.Run("M15 a late node joins the cluster there is", func(t *testing.T) {
		n := l.Nodes[2]
		if sl := l.Look(ctx).Node("cp-3").Obs.SlotOf(wire.SlotMember); sl.Class != wire.ClassAbsent || sl.Process.State != wire.ProcDown {
			t.Fatalf("it did something by itself: %+v", sl)
		}
		if r := pivot(3); r.Code != 0 {
			t.Fatal(r)
		}
		members(t, 3)
		loseDirectory(t, l, n)
		l.Eventually(30*time.Second, "cp-3 to say why it does not start", func() (bool, string) {
			obs := l.Look(ctx).Node("cp-3").Obs
			if obs == nil {
				return false, "silent"
			}
			p := obs.SlotOf(wire.SlotMember).Process
			return p.State == wire.ProcDown && strings.Contains(p.LastExit, "EmptyButRecorded"), p.LastExit
		})
		refused(t, pivot(3), "LostDirectory", "cp-3")
		members(t, 3)
		lost, err := filepath.Glob(filepath.Join(n.Dir, "lost-*"))
		if err != nil || len(lost) != 1 {
			t.Fatal(lost, err)
		}
		rig.Must(t, os.Rename(lost[0], n.Identity().SlotDir(wire.SlotMember)))
		if r := pivot(3); r.Code != 0 { // it is found, and starts
			t.Fatal(r)
		}
		members(t, 3)
	})

	t.Run("a foreign member that runs", func(t *testing.T) {
		n := l.Nodes[3]
		url := "https://" + n.Ref.HostPort(2380)
		added := byHand(l, func() (uint64, error) {
			return idOf(c.MemberAddAsLearner(ctx, []string{url}))
		})
		id := wire.ID(added)
		etcd := foreignEtcd(ctx, t, l, n)
		l.Eventually(30*time.Second, "the foreign etcd to have its name in the list", func() (bool, string) {
			m := memberOf(l.Look(ctx).Members, n)
			return m.Name != "", m.Name
		})
		refused(t, pivot(3), "ForeignMember", id.String(), url)
		refused(t, pivot(3, "--forget-learner", id.String()), "ForeignMember", id.String())
		_, err := c.MemberPromote(ctx, added)
		rig.Must(t, err)
		refused(t, pivot(3), "ForeignMember", "voter "+id.String(), url)
		members(t, 4)
		if err := etcd.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the foreign etcd was ended: %v", err)
		}
		byHand(l, func() (uint64, error) {
			_, err := c.MemberRemove(ctx, added)
			return added, err
		})
		if r := pivot(3); r.Code != 0 || !strings.Contains(r.Stdout, "nothing to do") {
			t.Fatal(r)
		}
	})

	t.Run("a voter that never started", func(t *testing.T) {
		url := "https://" + l.Block.IP(99) + ":2380"
		id := byHand(l, func() (uint64, error) {
			return idOf(c.MemberAdd(ctx, []string{url}))
		})
		refused(t, pivot(3), "ForeignMember", "voter "+wire.ID(id).String(), url, "never started")
		members(t, 4)
		w.Gap()
		_, err := c.MemberRemove(ctx, id)
		rig.Must(t, err)
		if r := pivot(3); r.Code != 0 || !strings.Contains(r.Stdout, "nothing to do") {
			t.Fatal(r)
		}
	})
	finish(ctx, t, l, w) // and cp-4 joins
}

// byHand makes a membership call as a person would; etcd refuses it for 5 s
// after a voter came.
func byHand(l *rig.Lab, call func() (uint64, error)) (id uint64) {
	l.Eventually(20*time.Second, "a membership call by hand", func() (bool, string) {
		var err error
		id, err = call()
		return err == nil, fmt.Sprint(err)
	})
	return id
}

func idOf(r *clientv3.MemberAddResponse, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	return r.Member.ID, nil
}

// foreignEtcd runs an etcd of nobody's at the address of n, with certificates
// of the same CA, until the test ends.
func foreignEtcd(ctx context.Context, t *testing.T, l *rig.Lab, n *lab.Node) *exec.Cmd {
	t.Helper()
	cluster := "stranger=https://" + n.Ref.HostPort(2380)
	for _, m := range l.Look(ctx).Members {
		if m.Name != "" {
			cluster += "," + m.Name + "=" + m.PeerURLs[0]
		}
	}
	pki := func(f string) string { return filepath.Join(n.PKIDir(), f) }
	client, peer := "https://"+n.Ref.HostPort(2379), "https://"+n.Ref.HostPort(2380)
	etcd := exec.Command(rig.Etcd(t, "v3.7.3", "etcd"), "--name=stranger", "--data-dir="+filepath.Join(t.TempDir(), "stranger"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster="+cluster, "--initial-cluster-state=existing", "--max-learners=8",
		"--cert-file="+pki("server.crt"), "--key-file="+pki("server.key"), "--trusted-ca-file="+pki("ca.crt"), "--client-cert-auth",
		"--peer-cert-file="+pki("peer.crt"), "--peer-key-file="+pki("peer.key"), "--peer-trusted-ca-file="+pki("ca.crt"), "--peer-client-cert-auth")
	rig.Must(t, etcd.Start())
	t.Cleanup(func() {
		_ = etcd.Process.Kill() // it may have ended: it was removed
		_ = etcd.Wait()
	})
	return etcd
}

// M16: nodes without data and without a cluster to join start nothing, by name,
// and never turn "existing" into "new" by themselves.
func TestM16NothingToJoin(t *testing.T) {
	t.Parallel()
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 3*time.Minute)
	w := load(ctx, t, l)
	first, second := l.Nodes[0], l.Nodes[1]
	// The etcd itself, told to join members none of which is there.
	v := l.Look(ctx)
	cluster := "cp-2=https://" + second.Ref.HostPort(2380) + ",cp-3=https://" + l.Nodes[2].Ref.HostPort(2380)
	url := func(port int) string { return "https://" + second.Ref.HostPort(port) }
	pki := func(f string) string { return filepath.Join(second.PKIDir(), f) }
	w.Stop()
	rig.Must(t, first.Kill("agent"))
	rig.Must(t, first.Kill("all"))
	r := l.Run("etcd", "--state-dir", second.StateDir(), "--slot", "member", "--", "--name=cp-2", "--data-dir="+second.Identity().SlotDir(wire.SlotMember),
		"--listen-client-urls="+url(2379), "--advertise-client-urls="+url(2379), "--listen-peer-urls="+url(2380), "--initial-advertise-peer-urls="+url(2380),
		"--initial-cluster="+cluster, "--initial-cluster-state=existing",
		"--cert-file="+pki("server.crt"), "--key-file="+pki("server.key"), "--trusted-ca-file="+pki("ca.crt"), "--client-cert-auth=true",
		"--peer-cert-file="+pki("peer.crt"), "--peer-key-file="+pki("peer.key"), "--peer-trusted-ca-file="+pki("ca.crt"), "--peer-client-cert-auth=true", "--max-learners=8")
	if r.Code == 0 || !strings.Contains(r.Stderr, "cannot fetch cluster info from peer urls") {
		t.Errorf("an etcd with nothing to join: %s", r)
	}
	// And our own driver, from a node that has a bundle and nothing else.
	nodes := "--nodes=cp-2=" + second.Ref.Address + ",cp-3=" + l.Nodes[2].Ref.Address
	r = l.Run("pivot", "--state-dir", second.StateDir(), "--log-level", "warn", nodes)
	for _, want := range []string{"NoLeader", "no member runs, and no directory may start"} {
		if r.Code != 3 || !strings.Contains(r.Stderr, want) {
			t.Errorf("want exit 3 and %q: %s", want, r)
		}
	}
	now := l.LookFrom(ctx, 1)
	for _, name := range []string{"cp-2", "cp-3"} {
		o := now.Node(name).Obs
		if sl := o.SlotOf(wire.SlotMember); sl.Process.State != wire.ProcDown || (sl.Class != wire.ClassAbsent && sl.Class != wire.ClassEmpty) || sl.Recorded || o.Epoch.Number != 0 {
			t.Errorf("%s: epoch %+v, slot %+v", name, o.Epoch, sl)
		}
	}
	// The first node comes back: the three join its cluster.
	rig.Must(t, first.StartAgent())
	rig.Must(t, l.AwaitSeed(ctx))
	finish(ctx, t, l, w)
	if got := l.Look(ctx).Epoch.ClusterID; got != v.Epoch.ClusterID {
		t.Errorf("cluster %s, want %s", got, v.Epoch.ClusterID)
	}
}

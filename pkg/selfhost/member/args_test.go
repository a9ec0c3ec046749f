package member_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func identity(name, address string) wire.Identity {
	return wire.Identity{V: wire.V, Node: wire.NodeRef{Name: name, Address: address}, Ports: wire.DefaultPorts,
		DataDir: "/var/lib/etcd", StateDir: "/var/lib/etcd-selfhost", PKIDir: "/etc/kubernetes/pki/etcd"}
}

var goldenArgs = []struct {
	name  string
	id    wire.Identity
	spec  wire.Spec
	slot  wire.Slot
	start member.StartInfo
}{
	{"seed", identity("cp-1", "10.0.0.11"), wire.Spec{}, wire.SlotSeed,
		member.StartInfo{Epoch: 3, State: member.StateNew, Token: "epoch-3-0011223344556677"}},
	{"member-joins-ipv6", identity("cp-2", "fd00::12"), wire.Spec{Settings: wire.Settings{HeartbeatMillis: 50, ElectionMillis: 500, QuotaBytes: 8 << 30, SnapshotCount: 20000}}, wire.SlotMember,
		member.StartInfo{InitialCluster: "cp-1-seed-1=https://[fd00::11]:12380,cp-2=https://[fd00::12]:2380"}},
	{"seed-joins", identity("cp-1", "10.0.0.11"), wire.Spec{}, wire.SlotSeed,
		member.StartInfo{Epoch: 1, State: member.StateExisting, InitialCluster: "cp-1=https://10.0.0.11:2380,cp-2=https://10.0.0.12:2380,cp-1-seed-1=https://10.0.0.11:12380"}},
	{"member-restarts", identity("cp-1", "10.0.0.11"), wire.Spec{}, wire.SlotMember, member.StartInfo{}},
	{"member-3.5", identity("cp-1", "10.0.0.11"), wire.Spec{EtcdBinary: "/opt/etcd"}, wire.SlotMember, member.StartInfo{EtcdVersion: "3.5.16"}},
	{"member-3.6", identity("cp-1", "10.0.0.11"), wire.Spec{EtcdBinary: "/opt/etcd"}, wire.SlotMember, member.StartInfo{EtcdVersion: "v3.6.16"}},
}

// UPDATE_GOLDEN=1 writes testdata anew; read the difference before committing it.
func TestArgsGolden(t *testing.T) {
	for _, c := range goldenArgs {
		t.Run(c.name, func(t *testing.T) {
			args, err := member.Args(c.id, c.spec, c.slot, c.start)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(args, "\n") + "\n"
			path := filepath.Join("testdata", "args-"+c.name+".txt")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read(t, path), got); diff != "" {
				t.Errorf("arguments changed (-want +got):\n%s", diff)
			}
		})
	}
}

// The embedded etcd must take every argument that a stock one does, with the same meaning.
func TestArgsReachTheEmbeddedEtcd(t *testing.T) {
	id := goldenArgs[1].id
	args, err := member.Args(id, goldenArgs[1].spec, wire.SlotMember, goldenArgs[1].start)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := member.Config(args)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{
		"name": cfg.Name, "dir": cfg.Dir, "state": cfg.ClusterState, "cluster": cfg.InitialCluster, "strict": cfg.StrictReconfigCheck,
		"learners": cfg.MaxLearners, "tick": cfg.TickMs, "election": cfg.ElectionMs, "quota": cfg.QuotaBackendBytes, "snapshots": cfg.SnapshotCount,
		"client": cfg.ListenClientUrls[0].String() + cfg.AdvertiseClientUrls[0].String(), "peer": cfg.ListenPeerUrls[0].String() + cfg.AdvertisePeerUrls[0].String(),
		"metrics": cfg.ListenMetricsUrls[0].String(), "clientTLS": cfg.ClientTLSInfo.CertFile + cfg.ClientTLSInfo.KeyFile + cfg.ClientTLSInfo.TrustedCAFile,
		"peerTLS": cfg.PeerTLSInfo.CertFile + cfg.PeerTLSInfo.KeyFile + cfg.PeerTLSInfo.TrustedCAFile, "auth": cfg.ClientTLSInfo.ClientCertAuth && cfg.PeerTLSInfo.ClientCertAuth,
		"streams": cfg.MaxConcurrentStreams, "outputs": strings.Join(cfg.LogOutputs, ","),
	}
	pki := "/etc/kubernetes/pki/etcd/"
	want := map[string]any{
		"name": "cp-2", "dir": "/var/lib/etcd/data", "state": "existing", "cluster": goldenArgs[1].start.InitialCluster, "strict": true,
		"learners": 8, "tick": uint(50), "election": uint(500), "quota": int64(8 << 30), "snapshots": uint64(20000),
		"client": "https://[fd00::12]:2379https://[fd00::12]:2379", "peer": "https://[fd00::12]:2380https://[fd00::12]:2380",
		"metrics": "http://[fd00::12]:2381", "clientTLS": pki + "server.crt" + pki + "server.key" + pki + "ca.crt",
		"peerTLS": pki + "peer.crt" + pki + "peer.key" + pki + "ca.crt", "auth": true,
		"streams": ^uint32(0), "outputs": "stderr",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range [][]string{{"--no-such-flag=1"}, {"word"}, {"--initial-cluster-state=maybe"}} {
		if _, err := member.Config(bad); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}

func TestSeedNeedsAToken(t *testing.T) {
	if args, err := member.Args(identity("cp-1", "10.0.0.11"), wire.Spec{}, wire.SlotSeed, member.StartInfo{Epoch: 1, State: member.StateNew}); err == nil {
		t.Errorf("a new cluster without token: %v", args)
	}
	token, err := member.NewToken(2, bytes.NewReader([]byte{1, 2, 3, 4, 5, 6, 7, 8}))
	if err != nil || token != "epoch-2-0102030405060708" {
		t.Errorf("token %q, %v", token, err)
	}
}

// CASES M13: refused, naming both owners.
func TestLintCluster(t *testing.T) {
	const a, b, x = "https://10.0.0.1:2380", "https://10.0.0.2:2380", "https://10.0.0.3:2380"
	for _, c := range []struct {
		cluster string
		says    []string // none: accepted
	}{
		{"n1=" + a, nil},
		{"n1=" + a + ",n2=" + b, nil},
		{"n1=" + a + ",n1=" + b, []string{"name n1 belongs to both", a, b}},
		{"n1=" + a + ",n2=" + a, []string{"belongs to both n1 and n2"}},
		{"n1=" + a + ",n2=" + a + "/", []string{"belongs to both n1 and n2"}},
		{"n1=" + a + ",n2=" + strings.ToUpper(a), []string{"belongs to both n1 and n2"}},
		{"=" + x + ",n1=" + a, []string{"has no name", x}},
		{x + ",n1=" + a, []string{"has no name", x}},
		{"n1=" + a + ",n2=", []string{"n2 has no usable peer URL"}},
		{"n2=" + b, []string{"does not name n1"}},
		{"n1=" + b, []string{"n1 is at " + b, "advertises " + a}},
	} {
		err := member.LintCluster(c.cluster, "n1", a)
		if (err == nil) != (c.says == nil) {
			t.Errorf("%s: %v", c.cluster, err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not say %q", c.cluster, err, s)
			}
		}
	}
}

func TestFlags(t *testing.T) {
	got := member.Flags([]string{"--a=1", "-b", "2", "--c", "--d=x=y", "stray", "--e"})
	want := map[string]string{"a": "1", "b": "2", "c": "true", "d": "x=y", "e": "true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCleanEnv(t *testing.T) {
	got := member.CleanEnv([]string{"PATH=/bin", "ETCD_NAME=x", "ETCD_SELFHOST_CACHE=y", "ETCDCTL_API=3", "HOME=/"})
	if diff := cmp.Diff([]string{"PATH=/bin", "ETCDCTL_API=3", "HOME=/"}, got); diff != "" {
		t.Error(diff)
	}
}

package member_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// A seed's life, embedded: first start, lock, stop, start again, power cut, disk away.
func TestSeedEmbedded(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	args := n.seedArgs("")
	p := n.start(wire.SlotSeed, "", args...)
	n.put(wire.SlotSeed, "a")
	lockedBy(t, n, p)

	// CASES L6: a second process on the directory ends and names the first.
	code, log := n.start(wire.SlotSeed, "", args...).exit(5 * time.Second)
	if code != 3 || !strings.Contains(log, "Locked") || !strings.Contains(log, fmt.Sprintf("pid %d", p.Process.Pid)) {
		t.Errorf("second process: exit %d, want 3 naming pid %d:\n%s", code, p.Process.Pid, log)
	}
	if code, log := p.term(); code != 0 {
		t.Fatalf("SIGTERM: exit %d:\n%s", code, log)
	}
	info, err := datadir.Read(n.id.SlotDir(wire.SlotSeed))
	if err != nil || info.Class != wire.ClassWhole {
		t.Fatalf("after SIGTERM: %+v, %v", info, err)
	}
	flags := member.Flags(args)
	id, cluster, err := member.NewIDs(flags["name"], flags["initial-cluster"], flags["initial-cluster-token"])
	if err != nil || id != info.MemberID || cluster != info.ClusterID {
		t.Fatalf("computed member %s of cluster %s (%v), made %s of %s", id, cluster, err, info.MemberID, info.ClusterID)
	}

	// Nobody recorded the IDs yet (the agent died): the same arguments may go on, others may not.
	p = n.start(wire.SlotSeed, "", args...)
	n.put(wire.SlotSeed, "b")
	if !n.has(wire.SlotSeed, "a") {
		t.Error("a is lost")
	}
	p.Process.Kill()
	p.exit(time.Second)
	refused(t, n.start(wire.SlotSeed, "", n.seedArgs("")...), member.RefusedForeignDir, info.MemberID.String())

	gate := wire.GateFile{Epoch: wire.Epoch{Number: 1}, Assigned: id, ClusterID: cluster, Recorded: true}
	write := func(change func(*wire.GateFile)) {
		g := gate
		change(&g)
		if err := member.WriteGate(n.id, wire.SlotSeed, g); err != nil {
			t.Fatal(err)
		}
	}
	write(func(g *wire.GateFile) { g.Parked = "pivot done" })
	refused(t, n.start(wire.SlotSeed, "", args...), member.RefusedParked, "pivot done")
	write(func(*wire.GateFile) {})
	p = n.start(wire.SlotSeed, "", args...)
	n.put(wire.SlotSeed, "c")
	if code, log := p.term(); code != 0 {
		t.Fatalf("SIGTERM: exit %d:\n%s", code, log)
	}

	// CASES L4: the disk is not mounted; only the agent's copy of the gate is left.
	if err := os.Rename(n.id.DataDir, n.id.DataDir+".away"); err != nil {
		t.Fatal(err)
	}
	refused(t, n.start(wire.SlotSeed, "", args...), member.RefusedEmptyRecorded, fmt.Sprintf("data dir absent but node was member %s of cluster %s", id, cluster))
	if _, err := os.Stat(n.id.DataDir); err == nil {
		t.Error("the refusal made the directory")
	}
}

// A stock etcd keeps lock and pid of the process that it was exec'd from.
func TestSeedStock(t *testing.T) {
	for _, version := range []string{"v3.5.16", "v3.6.16", "v3.7.3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			binary := stockEtcd(t, version)
			got, err := member.BinaryVersion(context.Background(), binary)
			if err != nil || "v"+got != version {
				t.Fatalf("version %q, %v", got, err)
			}
			n := newNode(t)
			args := n.seedArgs(got)
			p := n.start(wire.SlotSeed, binary, args...)
			n.put(wire.SlotSeed, "a")
			lockedBy(t, n, p)
			want := binary + "\x00" + strings.Join(args, "\x00") + "\x00"
			if got := read(t, fmt.Sprintf("/proc/%d/cmdline", p.Process.Pid)); got != want {
				t.Errorf("the process is %q, want %q", got, want)
			}
			if env := read(t, fmt.Sprintf("/proc/%d/environ", p.Process.Pid)); strings.Contains(env, "ETCD_") {
				t.Errorf("environment not cleared: %q", env)
			}
			code, log := n.start(wire.SlotSeed, binary, args...).exit(5 * time.Second)
			if code != 3 || !strings.Contains(log, fmt.Sprintf("pid %d (%s", p.Process.Pid, binary)) {
				t.Errorf("second process: exit %d:\n%s", code, log)
			}
			p.Process.Kill()
			p.exit(time.Second)
			if pid, err := datadir.HolderPID(n.id.SlotLock(wire.SlotSeed)); pid != 0 || err != nil {
				t.Errorf("after kill -9 the lock is held by %d, %v", pid, err)
			}
			info, err := datadir.Classify(context.Background(), "", n.id, wire.SlotSeed)
			if err != nil || info.Class != wire.ClassWhole || info.MemberID == 0 {
				t.Errorf("directory of %s: %+v, %v", version, info, err)
			}
			n.start(wire.SlotSeed, binary, args...)
			n.put(wire.SlotSeed, "b")
			if !n.has(wire.SlotSeed, "a") {
				t.Error("a is lost")
			}
		})
	}
}

// A join whose peers do not answer leaves etcd's skeleton, which must be able to start again.
func TestJoinWithoutPeers(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	peer := member.PeerURL(n.id.Node, n.id.Ports, wire.SlotMember)
	args, err := member.Args(n.id, settings, wire.SlotMember, member.StartInfo{InitialCluster: "cp-1=" + peer + ",cp-2=https://" + freeAddress(t) + ":2380"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		code, log := n.start(wire.SlotMember, "", args...).exit(20 * time.Second)
		if code != 1 || !strings.Contains(log, "cannot fetch cluster info") {
			t.Fatalf("exit %d, want etcd's own failure:\n%s", code, log)
		}
		info, err := datadir.Read(n.id.SlotDir(wire.SlotMember))
		if err != nil || info.Class != wire.ClassEmpty || !strings.Contains(info.Reason, "first start") {
			t.Fatalf("%+v, %v; want empty: nothing was written", info, err)
		}
	}
}

// Told to stop while it waits for peers, it ends at once.
func TestStopWhileJoining(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	silent, err := net.Listen("tcp", freeAddress(t)+":2380")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	peer := member.PeerURL(n.id.Node, n.id.Ports, wire.SlotMember)
	args, err := member.Args(n.id, settings, wire.SlotMember, member.StartInfo{InitialCluster: "cp-1=" + peer + ",cp-2=https://" + silent.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	p := n.start(wire.SlotMember, "", args...)
	c, err := silent.Accept() // it asks its peer, and gets no answer
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	begin := time.Now()
	if code, log := p.term(); code != 1 || !strings.Contains(log, "told to stop") || time.Since(begin) > 2*time.Second {
		t.Errorf("exit %d after %s:\n%s", code, time.Since(begin), log)
	}
}

// SIGTERM under writes: no call fails and nothing acknowledged is lost.
func TestStopFailsNoCallInFlight(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	args := n.seedArgs("")
	p := n.start(wire.SlotSeed, "", args...)
	n.put(wire.SlotSeed, "ready")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	writing, stopWriting := context.WithCancel(ctx)
	defer stopWriting()
	const writers = 8
	acked := make(chan int, writers)
	var begun sync.WaitGroup
	begun.Add(writers)
	for w := range writers {
		c := n.client(wire.SlotSeed)
		go func() {
			for i := 0; ; i++ {
				_, err := c.Put(writing, fmt.Sprintf("w%d-%d", w, i), "v")
				if i == 0 {
					begun.Done()
				}
				if err != nil {
					// After GOAWAY the client keeps new calls until it finds a server; one that was
					// sent and cut fails, since a write is not repeated.
					if writing.Err() == nil {
						t.Errorf("writer %d, call %d: %v", w, i, err)
					}
					acked <- i
					return
				}
			}
		}()
	}
	begun.Wait()
	if code, log := p.term(); code != 0 {
		t.Fatalf("exit %d:\n%s", code, log)
	}
	stopWriting()
	var want int64
	for range writers {
		want += int64(<-acked)
	}
	n.start(wire.SlotSeed, "", args...)
	n.put(wire.SlotSeed, "again")
	r, err := n.client(wire.SlotSeed).Get(ctx, "w", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	if r.Count < want || want == 0 {
		t.Errorf("%d writes left of %d acknowledged", r.Count, want)
	}
}

func TestRunRefusesArguments(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	args := n.seedArgs("")
	for extra, name := range map[string]string{
		"--force-new-cluster":             "ForbiddenArgument",
		"--force-new-cluster=true":        "ForbiddenArgument",
		"--config-file=/etc/x":            "ForbiddenArgument",
		"--wal-dir=/x":                    "ForbiddenArgument",
		"--data-dir=/var/lib/other":       "OtherDataDir",
		"--data-dir=" + n.id.SlotDir("x"): "OtherDataDir",
	} {
		refused(t, n.start(wire.SlotSeed, "", append(append([]string(nil), args...), extra)...), name, "")
	}
	if entries, err := os.ReadDir(filepath.Dir(n.id.DataDir)); err != nil || len(entries) != 2 {
		t.Errorf("a refusal left something: %v, %v", entries, err)
	}
}

func lockedBy(t *testing.T, n *node, p *process) {
	t.Helper()
	if pid, err := datadir.HolderPID(n.id.SlotLock(wire.SlotSeed)); err != nil || pid != p.Process.Pid {
		t.Errorf("lock held by %d, %v; want %d", pid, err, p.Process.Pid)
	}
}

func refused(t *testing.T, p *process, name, says string) {
	t.Helper()
	code, log := p.exit(5 * time.Second)
	if code != 3 || !strings.Contains(log, name) || !strings.Contains(log, says) {
		t.Errorf("exit %d, want 3, %s, …%s…:\n%s", code, name, says, log)
	}
}

package datadir_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"golang.org/x/sys/unix"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
)

// The test binary is also its own children: the reader, an etcd, lock holders.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case datadir.ChildVerb:
			os.Exit(datadir.ChildMain(os.Args[2:], os.Stdout))
		case "test-etcd":
			etcd(os.Args[2], os.Args[3], os.Args[4])
		case "test-hold":
			hold(os.Args[2])
		case "test-hold-exec":
			holdExec(os.Args[2])
		}
	}
	code := m.Run()
	for _, dir := range fixtures {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// etcd serves a one-member cluster at address until it is killed or, on SIGTERM, stops cleanly.
func etcd(dir, address, snapshotCount string) {
	wal.SegmentSizeBytes = 256 * 1024
	peer := url.URL{Scheme: "http", Host: address + ":2380"}
	client := url.URL{Scheme: "http", Host: address + ":2379"}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.LogLevel, cfg.LogOutputs = "cp-1", dir, "panic", []string{"stderr"}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.InitialCluster = "cp-1=" + peer.String()
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.SnapshotCount, _ = strconv.ParseUint(snapshotCount, 10, 64)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-e.Server.ReadyNotify()
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	e.Close()
	os.Exit(0)
}

func hold(path string) {
	if _, err := datadir.TryLock(path); err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

func holdExec(path string) {
	l, err := datadir.TryLock(path)
	if err == nil {
		_, err = unix.FcntlInt(l.File().Fd(), unix.F_SETFD, 0)
	}
	if err == nil {
		cat, _ := exec.LookPath("cat")
		fmt.Println("ready")
		err = syscall.Exec(cat, []string{cat}, nil)
	}
	fmt.Println(err)
	os.Exit(3)
}

package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

const envIdentity = "PROXY_TEST_IDENTITY"

// TestMain runs a proxy instead of the tests where an identity is given.
func TestMain(m *testing.M) {
	s := os.Getenv(envIdentity)
	if s == "" {
		os.Exit(m.Run())
	}
	var id wire.Identity
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := json.Unmarshal([]byte(s), &id)
	if err == nil {
		err = Run(ctx, Config{Identity: id})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A proxy process takes the listener that systemd passes (its socket outlives
// the process: a connection made in between is served by the next one), a
// second one is refused with its pid, a killed one leaves nothing in the way.
func TestSocketActivationAndKill(t *testing.T) {
	r := newRig(t)
	f := r.fake(0, nil)
	r.targets(f.target(wire.Serve, true))
	ln, err := net.Listen("tcp", r.proxyAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	id, err := json.Marshal(r.id)
	if err != nil {
		t.Fatal(err)
	}
	start := func() *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), envIdentity+"="+string(id))
		cmd.ExtraFiles = []*os.File{file}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		r.await("the process answers", func() bool {
			s, err := r.client.Status(context.Background())
			return err == nil && s.PID == cmd.Process.Pid && s.Listen == r.proxyAddr()
		})
		return cmd
	}
	first := start()
	if _, name := r.who(); name != f.name {
		t.Errorf("served by %q", name)
	}
	err = Run(context.Background(), Config{Identity: r.id})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("pid ", first.Process.Pid)) {
		t.Errorf("second proxy: %v", err)
	}
	first.Process.Kill()
	first.Wait()
	waiting := r.dial()
	waiting.Write([]byte("\n"))
	second := start()
	b := make([]byte, len(f.name))
	if _, err := waiting.Read(b); err != nil || string(b) != f.name {
		t.Errorf("connection from between the two: %q, %v", b, err)
	}
	second.Process.Signal(syscall.SIGTERM)
	done := make(chan error, 1)
	go func() { done <- second.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	case <-time.After(patience):
		t.Error("does not end on SIGTERM")
	}
}

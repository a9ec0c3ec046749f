package datadir_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// child is the test binary in one of TestMain's roles, ended with the test.
type child struct {
	*exec.Cmd
	stdin io.WriteCloser
}

func startChild(t testing.TB, args ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0], args...)}
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.stdin, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if strings.TrimSpace(line) != "ready" {
		t.Fatalf("child %v: %q, %v", args, line, err)
	}
	return c
}

func (c *child) kill() { _ = c.Process.Kill(); _ = c.Wait() }
func (c *child) stop() { _ = c.stdin.Close(); _ = c.Wait() }

// freeAddress finds a loopback address whose etcd ports nobody uses.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		a := fmt.Sprintf("127.%d.%d.1", 1+rand.IntN(250), 1+rand.IntN(250))
		l, err := net.Listen("tcp", a+":2380")
		if err != nil {
			continue
		}
		l.Close()
		return a
	}
	t.Fatal("no free loopback address")
	return ""
}

// fixture is a data directory that a real etcd left behind; tests copy it.
type fixture struct {
	once sync.Once
	dir  string
	// snapshotCount and puts shape it; clean: stopped, not killed.
	snapshotCount string
	puts          int
	clean         bool
}

var (
	killed   = &fixture{snapshotCount: "10000", puts: 20}
	stopped  = &fixture{snapshotCount: "10000", puts: 20, clean: true}
	snapshot = &fixture{snapshotCount: "20", puts: 150, clean: true} // with raft snapshots and several log files
)

// copyOf makes the fixture on first use and returns a private copy.
func copyOf(t *testing.T, f *fixture) string {
	t.Helper()
	f.once.Do(func() {
		root, err := os.MkdirTemp("", "datadir-fixture-")
		if err != nil {
			t.Fatal(err)
		}
		fixtures = append(fixtures, root)
		dir := filepath.Join(root, "data")
		address := freeAddress(t)
		c := startChild(t, "test-etcd", dir, address, f.snapshotCount)
		put(t, address, f.puts)
		if f.clean {
			c.stop()
		} else {
			c.kill()
		}
		f.dir = dir
	})
	if f.dir == "" {
		t.Skip("its fixture could not be made; see the first test that uses it")
	}
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(f.dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

var fixtures []string

func client(t testing.TB, address string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + address + ":2379"}, DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func put(t testing.TB, address string, n int) {
	t.Helper()
	c := client(t, address)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i := range n {
		if _, err := c.Put(ctx, fmt.Sprintf("k%04d", i), strings.Repeat("v", 5000)); err != nil {
			t.Fatal(err)
		}
	}
}

// startsWith proves that etcd itself starts on dir and has n keys.
func startsWith(t *testing.T, dir string, n int64) {
	t.Helper()
	address := freeAddress(t)
	startChild(t, "test-etcd", dir, address, "10000")
	c := client(t, address)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := c.Get(ctx, "k", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	if r.Count != n {
		t.Fatalf("etcd started with %d keys, want %d", r.Count, n)
	}
}

// listing is every file below dir with size and modification time.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path, st.Mode(), st.Size(), st.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

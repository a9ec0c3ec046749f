package child

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// The test binary is also the fake child: it holds a lock until a signal.
// argv: BINARY fakechild LOCK MODE, MODE one of serve, stubborn, exit N.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "fakechild" {
		os.Exit(fakeChild(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

func fakeChild(lock string, mode []string) int {
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGTERM)
	l, err := datadir.TryLock(lock)
	if err != nil {
		fmt.Println("lock:", err)
		return 4
	}
	defer l.Close()
	fmt.Println("ready", os.Getenv("ETCD_NAME"))
	switch mode[0] {
	case "exit":
		n, _ := strconv.Atoi(mode[1])
		fmt.Println("leaving because of the test")
		return n
	case "stubborn":
		select {}
	}
	<-sig
	fmt.Println("asked to end")
	return 0
}

type world struct {
	t    *testing.T
	spec Spec
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	return &world{t, Spec{Name: "member", Lock: filepath.Join(dir, "data.lock"), Log: filepath.Join(dir, "logs", "member.log")}}
}

func (w *world) argv(mode ...string) []string {
	return append([]string{os.Args[0], "fakechild", w.spec.Lock}, mode...)
}

// agent is one life of a supervisor; the returned end leaves the process alone.
func (w *world) agent() (c *Child, end func()) {
	c = New(w.spec, slog.New(slog.DiscardHandler), time.Now)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { c.Run(stop); close(done) }()
	var once bool
	end = func() {
		if !once {
			once = true
			close(stop)
			<-done
		}
	}
	w.t.Cleanup(func() {
		end()
		if pid, _ := datadir.HolderPID(w.spec.Lock); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return c, end
}

func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b, _ := os.ReadFile(w.spec.Log)
			w.t.Fatalf("%s: not within 10 s; log:\n%s", what, b)
		}
	}
}

func (w *world) holder() int {
	pid, err := datadir.HolderPID(w.spec.Lock)
	if err != nil {
		w.t.Fatal(err)
	}
	return pid
}

func process(t *testing.T, c *Child) Process {
	t.Helper()
	p, err := c.Process()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A child outlives its agent, in a session of its own and with a clean
// environment; the next agent adopts it as it is, sees it die by the lock, says
// what is known, and starts it again.
func TestAdopt(t *testing.T) {
	t.Setenv("ETCD_NAME", "leaked")
	w := newWorld(t)
	c, end := w.agent()
	if err := c.Want(w.argv("serve")); err != nil {
		t.Fatal(err)
	}
	w.await("lock held", func() bool { return w.holder() != 0 })
	first := process(t, c)
	if first.State != wire.ProcUp || first.Adopted || first.PID != w.holder() {
		t.Fatalf("%+v, lock held by %d", first, w.holder())
	}
	if sid, _ := syscall.Getpgid(first.PID); sid != first.PID {
		t.Errorf("process group %d of %d: not a session of its own", sid, first.PID)
	}
	if b, _ := os.ReadFile(w.spec.Log); strings.Contains(string(b), "leaked") {
		t.Error("ETCD_NAME reached the child")
	}
	end()
	if w.holder() != first.PID {
		t.Fatal("the child ended with its agent")
	}

	c, _ = w.agent()
	if err := c.Want(w.argv("serve")); err != nil {
		t.Fatal(err)
	}
	got := process(t, c)
	if !got.Adopted || got.PID != first.PID || got.Restarts != 0 {
		t.Fatalf("%+v, want pid %d adopted", got, first.PID)
	}
	if d := got.StartedAt.Sub(first.StartedAt); d < -2*time.Second || d > 2*time.Second {
		t.Errorf("started %s, adopted as %s", first.StartedAt, got.StartedAt)
	}
	if a := Args(got.PID); len(a) != 4 || a[3] != "serve" {
		t.Errorf("args %q", a)
	}
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.await("started again", func() bool { p := w.holder(); return p != 0 && p != first.PID })
	got = process(t, c)
	if got.Restarts != 1 || got.Deaths != 1 || !strings.HasPrefix(got.LastExit, "exit status unknown; end of its log: ready") {
		t.Errorf("%+v", got)
	}
}

func TestStop(t *testing.T) {
	for _, tc := range []struct {
		mode    string
		adopted bool
		want    string
	}{
		{"serve", false, "exit status 0; end of its log: asked to end"},
		{"stubborn", false, "signal: killed; end of its log: ready"},
		{"serve", true, "exit status unknown; end of its log: asked to end"},
		{"stubborn", true, "exit status unknown; end of its log: ready"},
	} {
		t.Run(fmt.Sprintf("%s adopted=%t", tc.mode, tc.adopted), func(t *testing.T) {
			w := newWorld(t)
			c, end := w.agent()
			if err := c.Want(w.argv(tc.mode)); err != nil {
				t.Fatal(err)
			}
			w.await("lock held", func() bool { return w.holder() != 0 })
			if tc.adopted {
				end()
				c, _ = w.agent()
			}
			pid := w.holder()
			grace := Grace
			if tc.mode == "stubborn" {
				grace = 300 * time.Millisecond
			}
			if err := c.Stop(grace); err != nil {
				t.Fatal(err)
			}
			w.await("down", func() bool { d, err := c.Down(); return d && err == nil })
			time.Sleep(3 * Poll) // long enough for a wrong restart (backoff 100 ms)
			p := process(t, c)
			if w.holder() != 0 || p.State != wire.ProcDown || p.LastExit != tc.want || p.Restarts != 0 {
				t.Errorf("after the stop of %d: %+v", pid, p)
			}
			if err := c.Want(w.argv("serve")); err != nil {
				t.Fatal(err)
			}
			w.await("up again", func() bool { return w.holder() != 0 })
		})
	}
}

// Deaths are followed by longer and longer waits; a refusal of the gate by the longest.
func TestBackoff(t *testing.T) {
	for n, want := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond, 7: 6400 * time.Millisecond, 8: 10 * time.Second, 1000: 10 * time.Second} {
		if got := Backoff(n); got != want {
			t.Errorf("Backoff(%d) = %s, want %s", n, got, want)
		}
	}
	w := newWorld(t)
	now := time.Now()
	c := New(w.spec, slog.New(slog.DiscardHandler), func() time.Time { return now })
	cycle := func(mode ...string) Process {
		t.Helper()
		c.mu.Lock()
		c.argv = w.argv(mode...)
		c.mu.Unlock()
		w.await("ended", func() bool { d, _ := c.Down(); return d })
		return process(t, c)
	}
	step := func() { c.mu.Lock(); defer c.mu.Unlock(); _ = c.step() }
	if err := c.Want(w.argv("exit", "7")); err != nil {
		t.Fatal(err)
	}
	p := cycle("exit", "7")
	if p.LastExit != "exit status 7; end of its log: leaving because of the test" {
		t.Errorf("%+v", p)
	}
	step()
	if d, _ := c.Down(); !d {
		t.Fatal("started again without waiting")
	}
	now = now.Add(BackoffMin)
	step()
	if d, _ := c.Down(); d && c.restarts < 2 {
		t.Fatal("not started after the wait")
	}
	cycle("exit", "3")
	now = now.Add(2 * BackoffMin)
	step()
	p = cycle("exit", "3")
	if !strings.HasPrefix(p.LastExit, "refused by its gate") || c.notBefore.Sub(now) != BackoffMax {
		t.Errorf("%+v, next start in %s", p, c.notBefore.Sub(now))
	}
	now = now.Add(BackoffMax)
	c.argv = w.argv("serve")
	step()
	w.await("up", func() bool { return w.holder() != 0 })
	now = now.Add(UpReset)
	step()
	if c.deaths != 0 {
		t.Errorf("%d deaths remembered after %s up", c.deaths, UpReset)
	}
	if err := c.Stop(Grace); err != nil {
		t.Fatal(err)
	}
	w.await("down", func() bool { d, _ := c.Down(); return d })
}

func TestLogIsBounded(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Dir(w.spec.Log), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.spec.Log, make([]byte, MaxLog+1), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ := w.agent()
	if err := c.Want(w.argv("serve")); err != nil {
		t.Fatal(err)
	}
	w.await("lock held", func() bool { return w.holder() != 0 })
	small := func() bool { st, err := os.Stat(w.spec.Log); return err == nil && st.Size() < 100 }
	if old, err := os.Stat(w.spec.Log + ".1"); err != nil || old.Size() != MaxLog+1 || !small() {
		t.Fatalf("not rotated at the start: %v", err)
	}
	if err := os.Truncate(w.spec.Log, MaxLog+1); err != nil {
		t.Fatal(err)
	}
	w.await("bounded while running", small)
	if err := c.Stop(Grace); err != nil {
		t.Fatal(err)
	}
	w.await("goes on in the same file", func() bool {
		b, _ := os.ReadFile(w.spec.Log)
		return string(b) == "asked to end\n"
	})
}

func TestMissingProgram(t *testing.T) {
	w := newWorld(t)
	c, _ := w.agent()
	if err := c.Want([]string{"/nonexistent/program"}); err == nil {
		t.Fatal("no error")
	}
	if p := process(t, c); p.State != wire.ProcDown || !strings.HasPrefix(p.LastExit, "not started: ") {
		t.Errorf("%+v", p)
	}
}

func TestLastWords(t *testing.T) {
	stack := "\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:1 +0x1"
	for text, want := range map[string]string{
		"":                           "",
		"a\nb\n":                     "b",
		"a\npanic: p" + stack + "\n": "panic: p",
		"level=ERROR error=\"no space\"\npanic: p" + stack + "\n":        "level=ERROR error=\"no space\"; panic: p",
		"{\"level\":\"panic\",\"error\":\"x\"}\npanic: p" + stack + "\n": "{\"level\":\"panic\",\"error\":\"x\"}; panic: p",
		"panic: old" + stack + "\nstarted again\nended":                  "ended",
		"goroutine 1 [running]:\n\t/x/main.go:1":                         "/x/main.go:1",
	} {
		if got := lastWords(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

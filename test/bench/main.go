// Command bench measures, always as a ratio against the alternative in the same
// run. Results are JSON lines in bench/results/, one file per subject and run;
// `bench table` writes docs/benchmarks.md from the newest of each.
//
//	go run ./test/bench [--sizes-mb 10,100,1000] [pivot|proxy|table]
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/version"
)

// row is one JSON line: what was measured, under which conditions.
type row struct {
	V       int                `json:"v"`
	Subject string             `json:"subject"` // pivot, proxy
	Case    string             `json:"case"`    // "100 MB", "put, 32 connections"
	Who     string             `json:"who"`     // ours, or the alternative
	Figures map[string]float64 `json:"figures"`
	Note    string             `json:"note,omitempty"`
	Machine string             `json:"machine"`
	Etcd    string             `json:"etcd"`
	Version string             `json:"version"`
	Time    time.Time          `json:"time"`
}

// bench is a run of one subject.
type bench struct {
	ctx     context.Context
	root    string // of the repository
	bin     string // bootstrap
	subject string
	sizes   []int // MB, for pivot
	out     *os.File
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var subjects = map[string]func(*bench) error{"pivot": benchPivot, "proxy": benchProxy}

func run(ctx context.Context, args []string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return fmt.Errorf("run it from the repository's root: %w", err)
	}
	flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	sizes := flags.IntSlice("sizes-mb", []int{10, 100, 1000}, "sizes of the database for pivot, in `MB`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if args = flags.Args(); len(args) == 0 {
		args = []string{"pivot", "proxy", "table"}
	}
	for _, a := range args {
		if a == "table" {
			if err := writeTable(root); err != nil {
				return err
			}
			continue
		}
		f := subjects[a]
		if f == nil {
			return fmt.Errorf("no subject %q; there are pivot, proxy and table", a)
		}
		if err := measure(ctx, root, a, *sizes, f); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	return nil
}

func measure(ctx context.Context, root, subject string, sizes []int, f func(*bench) error) error {
	dir := filepath.Join(root, "bench", "results")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Written beside it and renamed at the end: an interrupted run replaces nothing.
	part := filepath.Join(dir, "."+subject+".part")
	out, err := os.Create(part)
	if err != nil {
		return err
	}
	defer out.Close()
	b := &bench{ctx: ctx, root: root, bin: filepath.Join(root, "bin", "bootstrap"), subject: subject, sizes: sizes, out: out}
	if err := f(b); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(dir, subject+".jsonl"))
}

// add writes one row, and says it.
func (b *bench) add(r row) error {
	r.V, r.Subject, r.Machine, r.Etcd, r.Version, r.Time = 1, b.subject, machine(), version.Etcd, ourVersion(b.bin), time.Now().UTC()
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s | %s | %v %s\n", r.Case, r.Who, r.Figures, r.Note)
	_, err = b.out.Write(append(line, '\n'))
	return err
}

func ourVersion(bin string) string {
	out, err := exec.Command(bin, "version", "-o", "json").Output()
	if err != nil {
		return "unknown"
	}
	var v struct{ Version string }
	if json.Unmarshal(out, &v) != nil {
		return "unknown"
	}
	return v.Version
}

// machine is its shape: processors, memory, kernel.
func machine() string {
	mem := ""
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int
		if _, err := fmt.Sscanf(string(bytes.SplitN(b, []byte("\n"), 2)[0]), "MemTotal: %d kB", &kb); err == nil {
			mem = fmt.Sprintf(", %d GiB", (kb+1<<19)>>20)
		}
	}
	var uts syscall.Utsname
	kernel := ""
	if syscall.Uname(&uts) == nil {
		var s strings.Builder
		for _, c := range uts.Release {
			if c == 0 {
				break
			}
			s.WriteByte(byte(c))
		}
		kernel, _, _ = strings.Cut(s.String(), "-")
		kernel = ", Linux " + kernel
	}
	return fmt.Sprintf("%d cores%s%s, %s", runtime.NumCPU(), mem, kernel, runtime.GOARCH)
}

// ensure is the folder of binaries built from source.
func (b *bench) ensure(args ...string) (string, error) {
	cmd := exec.CommandContext(b.ctx, filepath.Join(b.root, "test", "kube", "ensure"), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.TrimSpace(string(out)), nil
}

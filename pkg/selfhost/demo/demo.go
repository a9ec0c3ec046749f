// Package demo tells the product's story on one machine, with real etcds and,
// where it is at hand, a real kube-apiserver: a seed, the pivot to managed
// members under load, a power cycle. It narrates, measures, and fails when
// anything is lost.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
)

// Options of a demo.
type Options struct {
	// Dir takes everything; empty: a temporary folder.
	Dir   string
	Nodes int // 1 to 5
	// SizeMB of values written before the pivot.
	SizeMB int
	// Report is the file for the figures; empty: none.
	Report string
	Keep   bool
	// KubeAPIServer is the binary; empty: the demo goes without.
	KubeAPIServer string
	// Only these chapters (with what they stand on); empty: all.
	Only   []string
	Binary string
	Out    io.Writer
	Logger *slog.Logger
}

// Chapter is one part of the story.
type Chapter struct {
	Name string
	What string
	run  func(context.Context, *story) error
}

// Chapters in the order they are told; each stands on the one before.
var Chapters = []Chapter{
	{"pivot", "a seed becomes managed members under load", pivotChapter},
	{"power-cycle", "everything is killed at once and comes back", powerChapter},
}

// story is a demo under way.
type story struct {
	Options
	lab     *lab.Lab
	kube    *lab.Kube
	writers *lab.Writers
	api     *apiLoad
	report  *Report
}

// Run tells the chapters. The error says what was lost or failed; the table and
// the report are written as far as the story came.
func Run(ctx context.Context, o Options) (err error) {
	if o.Nodes < 1 || o.Nodes > 5 {
		return fmt.Errorf("%d nodes: the demo has addresses for 1 to 5", o.Nodes)
	}
	last, err := lastChapter(o.Only)
	if err != nil {
		return err
	}
	made := false
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "etcd-selfhost-demo-"); err != nil {
			return err
		}
		made = true
	} else if err := emptyDir(o.Dir); err != nil {
		return err
	}
	s := &story{Options: o, report: newReport(o)}
	defer func() { err = errors.Join(err, s.end(made, err)) }()
	if err := s.begin(ctx); err != nil {
		return err
	}
	for _, c := range Chapters[:last+1] {
		s.say("\n== %s: %s ==", c.Name, c.What)
		if err := c.run(ctx, s); err != nil {
			return fmt.Errorf("chapter %s: %w", c.Name, err)
		}
	}
	s.report.table(o.Out)
	if o.Report != "" {
		if err := s.report.write(o.Report); err != nil {
			return err
		}
	}
	if p := s.report.problems(); len(p) > 0 {
		return errors.New(strings.Join(p, "; "))
	}
	return nil
}

func lastChapter(only []string) (int, error) {
	if len(only) == 0 {
		return len(Chapters) - 1, nil
	}
	last := -1
	for _, name := range only {
		i := slices.IndexFunc(Chapters, func(c Chapter) bool { return c.Name == name })
		if i < 0 {
			return 0, fmt.Errorf("no chapter %q; there are %s", name, strings.Join(ChapterNames(), ", "))
		}
		last = max(last, i)
	}
	return last, nil
}

// ChapterNames lists them.
func ChapterNames() []string {
	var out []string
	for _, c := range Chapters {
		out = append(out, c.Name)
	}
	return out
}

func emptyDir(dir string) error {
	es, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return os.MkdirAll(dir, 0o700)
	}
	if err == nil && len(es) > 0 {
		return fmt.Errorf("%s is not empty; the demo writes only into an empty or new folder", dir)
	}
	return err
}

func (s *story) say(format string, a ...any) { fmt.Fprintf(s.Out, format+"\n", a...) }

// begin: seed, agents, and the apiserver on the seed.
func (s *story) begin(ctx context.Context) error {
	var err error
	s.lab, err = lab.New(lab.Options{Dir: s.Dir, Binary: s.Binary, Nodes: s.Nodes, Logger: s.Logger,
		Flags: []string{"--quota-bytes", fmt.Sprint(int64(s.SizeMB)*4<<20 + 2<<30)}})
	if err != nil {
		return err
	}
	first := s.lab.Nodes[0]
	s.say("Everything happens in %s, on addresses %s to %s.", s.Dir, first.Ref.Address, s.lab.Block.Proxy(s.Nodes-1))
	start := time.Now()
	if err := s.lab.Init(ctx); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := s.lab.AwaitSeed(wait); err != nil {
		return err
	}
	s.say("%s has a seed: one etcd, no API in sight. It took writes through the proxy %.1f s after `bootstrap init`.", first.Name, time.Since(start).Seconds())
	for _, n := range s.lab.Nodes[1:] {
		if err := s.lab.Join(n); err != nil {
			return err
		}
	}
	if err := s.lab.AwaitAgents(wait, s.lab.Nodes...); err != nil {
		return err
	}
	if s.Nodes > 1 {
		s.say("%d more nodes run an agent and a proxy, and no etcd yet.", s.Nodes-1)
	}
	return s.startKube(ctx)
}

func (s *story) startKube(ctx context.Context) error {
	if s.KubeAPIServer == "" {
		return nil
	}
	var err error
	if s.kube, err = s.lab.NewKube(s.lab.Nodes[0], s.KubeAPIServer); err != nil {
		return err
	}
	start := time.Now()
	if err := s.kube.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	if err := s.kube.AwaitReady(ctx); err != nil {
		return err
	}
	s.say("A real kube-apiserver is ready on it after %.1f s. Its only etcd is the proxy: --etcd-servers=%s.", time.Since(start).Seconds(), s.kube.EtcdServers)
	return nil
}

// end stops everything and removes what was made, unless asked to keep it or
// something failed.
func (s *story) end(made bool, failed error) error {
	if s.api != nil {
		s.api.Stop()
	}
	if s.writers != nil {
		s.writers.Stop()
	}
	if s.lab == nil {
		return nil
	}
	if s.Keep {
		s.say("\nKept running, as asked: %s. Look with `%s status --state-dir %s`; end it by killing the processes that run with that folder, agents first, since they restart what dies.", s.Dir, s.Binary, s.lab.Nodes[0].StateDir())
		return nil
	}
	if s.kube != nil {
		s.kube.Kill()
	}
	err := s.lab.Close()
	if failed != nil || err != nil {
		s.say("The folder stays for a look at its logs: %s", s.Dir)
		return err
	}
	if made {
		return os.RemoveAll(s.Dir)
	}
	return nil
}

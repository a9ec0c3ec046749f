package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/demo"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
)

const writers = 8

// benchPivot: a seed with so much data (10 MB, 100 MB, 1 GB) under 8 writers, pivoted by us
// and by the plain manual order with etcdctl, one after the other.
func benchPivot(b *bench) error {
	for _, mb := range b.sizes {
		for range 3 {
			if err := ourPivot(b, mb); err != nil {
				return fmt.Errorf("ours at %d MB: %w", mb, err)
			}
			if err := manualPivot(b, mb); err != nil {
				return fmt.Errorf("manual at %d MB: %w", mb, err)
			}
			if mb == 1000 {
				break // minutes each; the ratio is what counts
			}
		}
	}
	return nil
}

func caseOf(mb int) string {
	if mb >= 1000 {
		return strconv.Itoa(mb/1000) + " GB"
	}
	return strconv.Itoa(mb) + " MB"
}

// ourPivot is the demo's chapter, which is what `bootstrap pivot` does.
func ourPivot(b *bench, mb int) error {
	dir, err := os.MkdirTemp("", "bench-pivot-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	report := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(b.ctx, b.bin, "demo", "--no-apiserver", "--only", "pivot", "--size-mb", strconv.Itoa(mb),
		"--dir", filepath.Join(dir, "d"), "--report", report, "--log-level", "error")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	raw, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	var r demo.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	p := r.Pivot
	f := map[string]float64{"voters_s": p.SecondsToVoters, "serving_s": p.SecondsToServing, "total_s": p.SecondsTotal,
		"gap_ms": p.WriteGapMax, "gap_growth_ms": p.WriteGapGrowth, "gap_routing_ms": p.WriteGapRouting,
		"writes_ok": float64(p.WritesOK), "writes_failed": float64(p.WritesFailed)}
	for step, s := range p.StepSeconds {
		f["step_"+step+"_s"] = s
	}
	return b.add(row{Case: caseOf(mb), Who: "bootstrap pivot", Figures: f})
}

// manual is a control plane's etcd run by hand: stock etcd and etcdctl.
type manual struct {
	b     *bench
	lab   *lab.Lab
	bins  string
	procs map[string]*exec.Cmd
}

// manualPivot does what the documentation of etcd says, one member after the
// other: add learner, start, wait until it is healthy, promote; then hand over
// and remove the seed. The writers know all endpoints from the start.
func manualPivot(b *bench, mb int) error {
	bins, err := b.ensure("etcd", "v3.7.3")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-manual-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := lab.New(lab.Options{Dir: dir, Binary: b.bin, Nodes: 3})
	if err != nil {
		return err
	}
	defer l.Close()
	m := &manual{b: b, lab: l, bins: bins, procs: map[string]*exec.Cmd{}}
	defer m.kill()
	if err := m.certificates(); err != nil {
		return err
	}
	seed := "seed=https://" + m.addr(0, 12380)
	if err := m.start("seed", 0, 12379, 12380, seed, "new", mb); err != nil {
		return err
	}
	if err := m.healthy(m.addr(0, 12379)); err != nil {
		return err
	}
	c, err := l.Nodes[0].Client(m.addr(0, 12379))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := lab.Fill(b.ctx, c, "/demo/fill", mb); err != nil {
		return err
	}
	w, err := lab.StartWritersAt(b.ctx, l.Nodes[0], writers, "/demo/load", []string{m.addr(0, 12379), m.addr(0, 2379), m.addr(1, 2379), m.addr(2, 2379)})
	if err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	w.Gap()
	f, err := m.grow(c, seed, mb)
	if err != nil {
		w.Stop()
		return err
	}
	f["gap_ms"] = float64(w.Gap().Microseconds()) / 1000
	w.Stop()
	ok, failed, errs := w.Counts()
	f["writes_ok"], f["writes_failed"] = float64(ok), float64(failed)
	return b.add(row{Case: caseOf(mb), Who: "etcdctl by hand", Figures: f, Note: firstKey(errs)})
}

func firstKey(m map[string]int) string {
	for k := range m {
		return "for example: " + k
	}
	return ""
}

func (m *manual) addr(i, port int) string { return m.lab.Nodes[i].Ref.HostPort(port) }

func (m *manual) certificates() error {
	for i, n := range m.lab.Nodes {
		p := pki.Params{PKIDir: n.PKIDir(), Node: n.Ref, DialAddresses: []string{"127.0.0.1"}}
		if i > 0 { // the same CA
			first := m.lab.Nodes[0].PKIDir()
			if err := os.MkdirAll(n.PKIDir(), 0o700); err != nil {
				return err
			}
			for _, f := range []string{"ca.crt", "ca.key"} {
				raw, err := os.ReadFile(filepath.Join(first, f))
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(n.PKIDir(), f), raw, 0o600); err != nil {
					return err
				}
			}
		}
		if _, _, err := pki.EnsureNode(p); err != nil {
			return err
		}
	}
	return nil
}

func (m *manual) start(name string, i, client, peer int, cluster, state string, mb int) error {
	n := m.lab.Nodes[i]
	cu, pu := "https://"+m.addr(i, client), "https://"+m.addr(i, peer)
	d := n.PKIDir()
	cmd := exec.Command(filepath.Join(m.bins, "etcd"), "--name", name, "--data-dir", filepath.Join(n.Dir, name),
		"--listen-client-urls", cu, "--advertise-client-urls", cu, "--listen-peer-urls", pu, "--initial-advertise-peer-urls", pu,
		"--initial-cluster", cluster, "--initial-cluster-state", state, "--quota-backend-bytes", strconv.Itoa(mb*4<<20+2<<30),
		"--cert-file", pki.CertFile(d, pki.Server), "--key-file", pki.KeyFile(d, pki.Server), "--client-cert-auth", "--trusted-ca-file", pki.CertFile(d, pki.CA),
		"--peer-cert-file", pki.CertFile(d, pki.Peer), "--peer-key-file", pki.KeyFile(d, pki.Peer), "--peer-client-cert-auth", "--peer-trusted-ca-file", pki.CertFile(d, pki.CA))
	log, err := os.Create(filepath.Join(n.Dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	m.procs[name] = cmd
	return nil
}

func (m *manual) kill() {
	for _, p := range m.procs {
		_ = p.Process.Kill() // gone already is what we want
		_ = p.Wait()
	}
}

// ctl is etcdctl against the seed or another endpoint.
func (m *manual) ctl(endpoint string, args ...string) (string, error) {
	d := m.lab.Nodes[0].PKIDir()
	full := append([]string{"--endpoints", "https://" + endpoint, "--cacert", pki.CertFile(d, pki.CA),
		"--cert", pki.CertFile(d, pki.HealthcheckClient), "--key", pki.KeyFile(d, pki.HealthcheckClient)}, args...)
	cmd := exec.CommandContext(m.b.ctx, filepath.Join(m.bins, "etcdctl"), full...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("etcdctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func (m *manual) healthy(endpoint string) error {
	return m.retry(func() error { _, err := m.ctl(endpoint, "endpoint", "health"); return err })
}

func (m *manual) retry(f func() error) error {
	end := time.Now().Add(3 * time.Minute)
	for {
		err := f()
		if err == nil || time.Now().After(end) || m.b.ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// grow is the manual order, timed.
func (m *manual) grow(c *clientv3.Client, cluster string, mb int) (map[string]float64, error) {
	start, f := time.Now(), map[string]float64{}
	seed := m.addr(0, 12379)
	for i := range m.lab.Nodes {
		name := m.lab.Nodes[i].Name
		peer := "https://" + m.addr(i, 2380)
		out := ""
		err := m.retry(func() (err error) {
			out, err = m.ctl(seed, "member", "add", name, "--learner", "--peer-urls", peer)
			return err
		})
		if err != nil {
			return nil, err
		}
		id := strings.Fields(strings.TrimPrefix(out, "Member "))[0]
		cluster += "," + name + "=" + peer
		if err := m.start(name, i, 2379, 2380, cluster, "existing", mb); err != nil {
			return nil, err
		}
		if err := m.retry(func() error { _, err := m.ctl(m.addr(i, 2379), "endpoint", "status"); return err }); err != nil {
			return nil, err
		}
		if err := m.retry(func() error { _, err := m.ctl(seed, "member", "promote", id); return err }); err != nil {
			return nil, err
		}
	}
	f["voters_s"] = time.Since(start).Seconds()
	for i := range m.lab.Nodes {
		if err := m.healthy(m.addr(i, 2379)); err != nil {
			return nil, err
		}
	}
	f["serving_s"] = time.Since(start).Seconds()
	if err := m.handOver(c, seed); err != nil {
		return nil, err
	}
	f["total_s"] = time.Since(start).Seconds()
	return f, nil
}

func (m *manual) handOver(c *clientv3.Client, seed string) error {
	ctx, cancel := context.WithTimeout(m.b.ctx, time.Minute)
	defer cancel()
	l, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	ids := map[string]string{}
	for _, x := range l.Members {
		ids[x.Name] = strconv.FormatUint(x.ID, 16)
	}
	first := m.lab.Nodes[0].Name
	if err := m.retry(func() error { _, err := m.ctl(seed, "move-leader", ids[first]); return err }); err != nil {
		return err
	}
	if err := m.retry(func() error { _, err := m.ctl(m.addr(0, 2379), "member", "remove", ids["seed"]); return err }); err != nil {
		return err
	}
	return m.procs["seed"].Process.Signal(syscall.SIGTERM)
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

const (
	etcdWriters = 8
	fillPrefix  = "/demo/fill"
	loadPrefix  = "/demo/load"
)

// pivotChapter: 8 writers on etcd and a writer and an informer on the API work
// the whole time.
func pivotChapter(ctx context.Context, s *story) error {
	first := s.lab.Nodes[0]
	c, err := first.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	if s.SizeMB > 0 {
		start := time.Now()
		if err := lab.Fill(ctx, c, fillPrefix, s.SizeMB); err != nil {
			return err
		}
		s.say("%d MiB of values were written in %.1f s.", s.SizeMB, time.Since(start).Seconds())
	}
	if s.kube != nil {
		if s.api, err = startAPILoad(ctx, s.kube.Config()); err != nil {
			return err
		}
		s.say("A writer and an informer work through the API from now on.")
	}
	if s.writers, err = lab.StartWriters(ctx, first, etcdWriters, loadPrefix); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond) // a steady load before the figures count
	s.say("%d writers write to etcd through the proxy of %s without pause.", etcdWriters, first.Name)
	before, err := lab.Take(ctx, c, "/")
	if err != nil {
		return err
	}
	r := &PivotReport{ObjectsBefore: len(before), StepSeconds: map[string]float64{}, StepGap: map[string]float64{}}
	s.report.Pivot = r
	if err := s.pivot(ctx, r); err != nil {
		return err
	}
	return s.afterPivot(ctx, r, before)
}

func (s *story) pivot(ctx context.Context, r *PivotReport) error {
	s.say("The pivot begins, as `bootstrap pivot` would run it:")
	s.writers.Gap()
	gap := &r.WriteGapGrowth
	events := func(e driver.Event) {
		// The longest gap since the last event, kept by what was under way.
		g := ms(s.writers.Gap())
		*gap = max(*gap, g)
		switch e.Kind {
		case driver.EventStep:
			if e.Step.Kind == pivot.RouteProxies {
				gap = &r.WriteGapRouting
			}
		case driver.EventDone:
			r.StepSeconds[string(e.Step.Kind)] += e.Took.Seconds()
			r.StepGap[string(e.Step.Kind)] = max(r.StepGap[string(e.Step.Kind)], g)
			s.say("  %-34s %6.0f ms  %s", e.Step.String(), ms(e.Took), e.Step.Why)
		case driver.EventFailed:
			s.say("  %-34s %6.0f ms  looked again: %v", e.Step.String(), ms(e.Took), e.Err)
		case driver.EventWait:
			for _, w := range e.Refusals {
				s.say("  … %s %s: %s", w.Name, w.Node, w.Found)
			}
		}
	}
	d, release, err := s.lab.Nodes[0].Driver("demo pivot", driver.Config{Events: events, Nodes: s.lab.Refs(), Timeout: 2 * time.Minute})
	if err != nil {
		return err
	}
	defer release()
	res, err := d.Run(ctx, wire.Spec{Target: wire.TargetMembers, Nodes: s.lab.Refs()}, nil)
	if err != nil {
		return err
	}
	*gap = max(*gap, ms(s.writers.Gap()))
	r.WriteGapMax = max(r.WriteGapGrowth, r.WriteGapRouting)
	r.SecondsToVoters, r.SecondsToServing, r.SecondsTotal = res.SecondsToVoters, res.SecondsToServing, res.Seconds
	s.say("Done after %.2f s: %d managed members, no seed.", res.Seconds, s.Nodes)
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// afterPivot compares everything, while the load still works.
func (s *story) afterPivot(ctx context.Context, r *PivotReport, before lab.Inventory) error {
	first := s.lab.Nodes[0]
	c, err := first.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	time.Sleep(500 * time.Millisecond)
	after, err := lab.Take(ctx, c, "/")
	if err != nil {
		return err
	}
	missing := before.Missing(after)
	r.ObjectsAfter = r.ObjectsBefore - len(missing)
	var endpoints []string
	for _, n := range s.lab.Nodes {
		endpoints = append(endpoints, n.Ref.Address+":2379")
	}
	equal, words, err := first.HashKV(ctx, endpoints)
	if err != nil {
		return err
	}
	r.HashEqual = equal
	s.say("HashKV at one revision: %s.", words)
	var texts map[string]int
	r.WritesOK, r.WritesFailed, texts = s.writers.Counts()
	for _, t := range counted(texts) {
		s.say("A write to etcd failed: %s", t)
	}
	if s.api != nil {
		var errs []string
		r.APIWrites, r.APIErrors, r.APIRetriable, errs = s.api.counts()
		for _, e := range errs {
			s.say("API error: %s", e)
		}
	}
	lost, err := s.lost(ctx)
	if err != nil {
		return err
	}
	if n := len(lost) + len(missing); n > 0 {
		return fmt.Errorf("%d acknowledged objects are gone: %s", n, strings.Join(append(lost, missing...)[:min(n, 5)], ", "))
	}
	s.say("Every key, every acknowledged write and every acknowledged object is there.")
	return nil
}

func counted(m map[string]int) []string {
	var out []string
	for k, n := range m {
		out = append(out, fmt.Sprintf("%d × %s", n, k))
	}
	sort.Strings(out)
	return out
}

// lost lists acknowledged writes that are not there.
func (s *story) lost(ctx context.Context) ([]string, error) {
	c, err := s.lab.Nodes[0].Client()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	lost, err := s.writers.Lost(ctx, c)
	if err != nil || s.api == nil {
		return lost, err
	}
	more, err := s.api.lost(ctx)
	return append(lost, more...), err
}

// powerChapter: SIGKILL to everything but the disks, in the middle of writes,
// then back. Power on is starting the agents.
func powerChapter(ctx context.Context, s *story) error {
	s.say("SIGKILL to every agent, proxy, member%s, in the middle of writes.", map[bool]string{true: " and the apiserver"}[s.kube != nil])
	err := s.lab.PowerOff()
	if s.kube != nil {
		s.kube.Kill()
	}
	if err != nil {
		return err
	}
	if s.api != nil {
		s.api.Stop()
	}
	s.writers.Stop()
	r := &PowerReport{}
	s.report.PowerCycle = r
	start := time.Now()
	if err := s.lab.PowerOn(); err != nil {
		return err
	}
	if s.kube != nil {
		if err := s.kube.Start(); err != nil {
			return err
		}
	}
	wait, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := s.lab.Nodes[0].AwaitWritable(wait); err != nil {
		return err
	}
	r.SecondsToWritable = time.Since(start).Seconds()
	s.say("Power on: writable again after %.2f s; nobody was asked, no API, no driver.", r.SecondsToWritable)
	if s.kube != nil {
		if err := s.kube.AwaitReady(wait); err != nil {
			return err
		}
		r.SecondsToReady = time.Since(start).Seconds()
		s.say("The apiserver is ready after %.2f s.", r.SecondsToReady)
	}
	lost, err := s.lost(ctx)
	if err != nil {
		return err
	}
	r.ObjectsLost = len(lost)
	if len(lost) > 0 {
		return errors.New("lost: " + strings.Join(lost[:min(len(lost), 5)], ", "))
	}
	s.say("Nothing that was acknowledged is lost.")
	return nil
}

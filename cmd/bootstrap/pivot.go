package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

type pivotFlags struct {
	nodes, forget []string
	dry           bool
}

func (a *app) pivotCmd() *cobra.Command {
	var f pivotFlags
	cmd := &cobra.Command{
		Use:   "pivot [--nodes cp-1=IP,cp-2=IP,…]",
		Short: "Carry everything from the seed onto one managed member per node",
		Long: `pivot drives the agents, step by step, until every named node runs a voter that
serves and the seed is gone. Each step is decided anew from what the agents say.
It may be stopped (Ctrl-C) or killed anywhere: the same command goes on. When
there is nothing to do it says so. --dry-run prints the whole route with reasons
and changes nothing.`,
		Args: noArgs,
	}
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error {
		if cmd.Flags().Changed("nodes") && len(f.nodes) == 0 {
			return usagef("--nodes names nobody; leave it out for the nodes of the stored spec")
		}
		return a.pivot(ctx, f)
	})
	cmd.Flags().StringSliceVar(&f.nodes, "nodes", nil, "the nodes that are to have a member, `NAME=IP,…` (needed for the first pivot; then by default those of the stored spec)")
	cmd.Flags().StringSliceVar(&f.forget, "forget-learner", nil, "member `ID` of a learner that never started and never will: it is removed")
	cmd.Flags().BoolVar(&f.dry, "dry-run", false, "print the route, step by step, and do nothing")
	a.completeNodes(cmd, "nodes", func(n wire.NodeRef) string { return n.Name + "=" + n.Address })
	a.clientFlags(cmd)
	return cmd
}

// want is the spec asked for; the driver completes it from the stored one.
func (f *pivotFlags) want() (want wire.Spec, forget []wire.ID, err error) {
	want.Target = wire.TargetMembers
	seen := map[string]bool{}
	for _, s := range f.nodes {
		name, addr, ok := strings.Cut(s, "=")
		if !ok {
			return want, nil, usagef("--nodes %s: expected NAME=IP", s)
		}
		if err := config.NodeName(name); err != nil {
			return want, nil, usagef("--nodes: %v", err)
		}
		if err := config.Address(addr); err != nil {
			return want, nil, usagef("--nodes: %v", err)
		}
		if seen[name] || seen[addr] {
			return want, nil, usagef("--nodes %s: name or address was given before", s)
		}
		seen[name], seen[addr] = true, true
		want.Nodes = append(want.Nodes, wire.NodeRef{Name: name, Address: addr})
	}
	for _, s := range f.forget {
		id, err := strconv.ParseUint(s, 16, 64)
		if err != nil || id == 0 {
			return want, nil, usagef("--forget-learner %s: expected a member ID as status prints it", s)
		}
		forget = append(forget, wire.ID(id))
	}
	return want, forget, nil
}

func (a *app) pivot(ctx context.Context, f pivotFlags) error {
	want, forget, err := f.want()
	if err != nil {
		return err
	}
	return a.drive(ctx, journey{verb: "pivot", dry: f.dry, forget: forget, nothing: "every node has a voter that serves, and there is no seed",
		want: func(ctx context.Context, d *driver.Driver) (wire.Spec, error) {
			err := needSpec(ctx, d, &want)
			return want, err
		}})
}

// journey is what pivot and unpivot share: where to, and what to say.
type journey struct {
	verb string
	// want completes what is asked for by a look.
	want   func(context.Context, *driver.Driver) (wire.Spec, error)
	forget []wire.ID
	dry    bool
	// nothing says what it means that there is nothing to do.
	nothing string
}

// drive drives to the journey's end, or with dry prints the way.
func (a *app) drive(ctx context.Context, j journey) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if j.dry {
		return a.plan(ctx, c, j)
	}
	cfg := c.config(a)
	release, err := a.holder(j.verb, c, &cfg)
	if err != nil {
		return err
	}
	defer release()
	p := newPivotPrinter(a.stdout, time.Now)
	cfg.Events = p.event
	d := driver.New(cfg)
	defer d.Close()
	want, err := j.want(ctx, d)
	if err != nil {
		return err
	}
	go p.run()
	res, err := d.Run(ctx, want, j.forget)
	p.close()
	return a.driven(res, err, ctx, j)
}

// holder gives the driver the key of the state directory, so that the same
// command, started again, takes its own grant over; elsewhere a key of its own.
func (a *app) holder(verb string, c *client, cfg *driver.Config) (release func(), err error) {
	where := c.node
	if !c.local {
		if where, err = os.Hostname(); err != nil {
			where = "an unnamed host"
		}
	}
	cfg.Name = fmt.Sprintf("%s on %s, pid %d", verb, where, os.Getpid())
	if !c.local {
		cfg.Key = driver.NewKey()
		return func() {}, nil
	}
	cfg.Key, release, err = driver.Key(a.set.StateDir)
	return release, err
}

// needSpec makes sure that the nodes are named by somebody before anything is
// driven: no answer must never read as "no nodes wanted".
func needSpec(ctx context.Context, d *driver.Driver, want *wire.Spec) error {
	if len(want.Nodes) > 0 {
		return nil
	}
	v, err := d.Look(ctx)
	if err != nil {
		return err
	}
	if v.Spec == nil {
		if silent := silentNodes(v); len(silent) == len(v.Nodes) {
			return noAnswer(silent)
		}
		return &wire.Refusal{Name: "NoSpec", Cites: "I10", Found: "no agent that answers stores a desired spec", Want: "`bootstrap init` on the first node, or --nodes"}
	}
	if v.Spec.Target == wire.TargetSeed && len(v.Spec.Nodes) == 1 {
		first := v.Spec.Nodes[0]
		return usagef("the first pivot names its nodes, so that nobody makes one of a single node by mistake: --nodes %s=%s,NAME=IP,… (or that one alone)", first.Name, first.Address)
	}
	want.Nodes = v.Spec.Nodes
	return nil
}

func (a *app) driven(res driver.Result, err error, ctx context.Context, j journey) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return &goOn{text: fmt.Sprintf("stopped after %d steps; what was done stays done: run the same command again to go on", res.Steps), err: err}
	case err != nil:
		return err
	case res.Steps == 0:
		a.printf("nothing to do: %s\n", j.nothing)
		return nil
	}
	a.printf("done: %d steps in %.1f s\n", res.Steps, res.Seconds)
	return nil
}

// plan is --dry-run.
func (a *app) plan(ctx context.Context, c *client, j journey) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	d := driver.New(c.config(a))
	defer d.Close()
	want, err := j.want(ctx, d)
	if err != nil {
		return err
	}
	route, v, err := d.Plan(ctx, want, j.forget)
	if err != nil {
		return err
	}
	a.printf("the route as it looks now; nothing is done, and each real step looks again first\n\n")
	return a.printRoute(route, v)
}

func (a *app) printRoute(route []pivot.RouteEntry, v *driver.View) error {
	step := 0
	named := func(s pivot.Step) pivot.Step {
		if v.State.Member(s.ID) == nil {
			s.ID = 0 // a learner that is still to be registered: etcd gives it its ID
		}
		return s
	}
	for _, e := range route {
		switch s := e.Decision.Step; {
		case s != nil && s.Kind == pivot.Done && step == 0:
			a.printf("nothing to do: %s\n", s.Why)
			return nil
		case s != nil && s.Kind == pivot.Done:
			a.printf("     done: %s\n", s.Why)
			return nil
		case s != nil:
			step++
			a.printf("%3d. %s\n%s\n", step, named(*s), wrap(s.Why, 5))
		case e.Settled:
			for _, r := range e.Decision.Refusals {
				a.printf("     %s\n", oneLine(r.String()))
			}
		default:
			return &driver.RefusedError{Refusals: e.Decision.Refusals}
		}
	}
	return errors.New("the route does not end; please report this, with the output of `bootstrap status -o json`")
}

func silentNodes(v *driver.View) []silentNode {
	var out []silentNode
	for _, n := range v.Nodes {
		if n.Obs == nil {
			out = append(out, silentNode{Node: n.Ref.Name, Address: n.Ref.Address, Why: reason(n.Err)})
		}
	}
	return out
}

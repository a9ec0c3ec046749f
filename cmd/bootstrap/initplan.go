package main

import (
	"fmt"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// initPlan is `init --dry-run`: everything init and then the agent would write
// and run, and what would be refused, as warnings.
func (a *app) initPlan(n *node, refusals []error) error {
	id := n.id
	a.printf("dry run: nothing is written, nothing is started\n\nfiles:\n")
	create, use, err := pki.Plan(n.pki)
	if err != nil {
		create = pkiFiles(id.PKIDir) // the refusal is among the warnings
	}
	for _, f := range use {
		a.printf("  use     %s\n", f)
	}
	for _, f := range create {
		a.printf("  create  %s\n", f)
	}
	for _, f := range n.initial.FilesOf() {
		verb := "create"
		if n.made {
			verb = "keep"
		}
		a.printf("  %-6s  %s\n", verb, f)
	}
	a.printf("\nunits:\n  none: with the process runtime the agent starts the rest; start the agent\n  itself from a unit of your own\n")
	a.printf("\ncommands, after init:\n")
	args, err := n.seedArgs()
	if err != nil {
		return err
	}
	agentLine := []string{"bootstrap", "agent", "--state-dir", id.StateDir}
	proxyLine := []string{"bootstrap", "proxy", "--state-dir", id.StateDir}
	seedLine := []string{"bootstrap", "etcd", "--state-dir", id.StateDir, "--slot", string(wire.SlotSeed)}
	if b := n.initial.Spec.EtcdBinary; b != "" {
		seedLine = append(seedLine, "--etcd-binary", b)
	}
	a.printf("  you:\n")
	a.command(agentLine, nil)
	a.printf("  the agent:\n")
	a.command(proxyLine, nil)
	a.command(append(seedLine, "--"), args)
	if len(refusals) == 0 {
		a.printf("\nnothing would be refused\n")
		return nil
	}
	a.printf("\nwarnings: init would be refused\n")
	for _, r := range refusals {
		a.printf("  %v\n", r)
	}
	return nil
}

// seedArgs are etcd's arguments for the seed's first start; its token is random.
func (n *node) seedArgs() ([]string, error) {
	return member.Args(n.id, n.initial.Spec, wire.SlotSeed,
		member.StartInfo{Epoch: 1, State: member.StateNew, Token: "epoch-1-RANDOM", EtcdVersion: n.initial.EtcdVersion})
}

// command prints one command line, its further words one a line.
func (a *app) command(line, more []string) {
	s := "   "
	for _, w := range line {
		s += " " + w
	}
	for _, w := range more {
		s += fmt.Sprintf(" \\\n        %s", w)
	}
	a.printf("%s\n", s)
}

func pkiFiles(dir string) []string {
	out := []string{pki.KeyFile(dir, pki.CA), pki.CertFile(dir, pki.CA)}
	for _, l := range pki.Leaves() {
		out = append(out, pki.KeyFile(dir, l), pki.CertFile(dir, l))
	}
	return out
}

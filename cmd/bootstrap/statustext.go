package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// text is the report for people, at most 80 columns wide.
func (r *statusReport) text() string {
	var b strings.Builder
	target := string(r.Target)
	if target == "" {
		target = "unknown"
	}
	fmt.Fprintf(&b, "%s\n", wrap(fmt.Sprintf("%s; %s; epoch %d, cluster %s; wanted: %s on %s", r.Quorum.Text, r.leaderText(),
		r.Epoch.Number, idText(r.Epoch.ClusterID), target, strings.Join(r.Wanted, ", ")), 0))
	r.memberTable(&b)
	r.nodeTable(&b)
	b.WriteString("\n")
	for _, c := range r.Conditions {
		fmt.Fprintf(&b, "%-17s %-8s%s\n", c.Type, c.Status, strings.TrimLeft(wrap(oneLine(c.Text), 26), " "))
	}
	if c := r.Certificate; c != nil {
		fmt.Fprintf(&b, "\n%s\n", wrap(fmt.Sprintf("first certificate to expire: %s of %s, on %s (%d days)",
			c.Name, c.Node, c.NotAfter.Format(time.DateOnly), int(c.NotAfter.Sub(r.Time).Hours()/24)), 0))
	}
	b.WriteString("\n" + r.Next.text())
	return b.String()
}

func (r *statusReport) leaderText() string {
	for _, m := range r.Members {
		if m.Leader {
			return "leader " + place(m, func(s string) string { return s }, 1000)
		}
	}
	return "no leader known"
}

func (r *statusReport) memberTable(b *strings.Builder) {
	if r.ListFrom != "" {
		fmt.Fprintf(b, "\nno leader answers; this is the list as %s last knew it", r.ListFrom)
	}
	const row = "%-16s %-15s %-7s %-9s %5s %9s %6s %6s\n"
	name := r.shortNames()
	fmt.Fprintf(b, "\n"+row, "MEMBER", "ON", "ROLE", "HEALTH", "TERM", "INDEX", "LAG", "DB")
	for _, m := range r.Members {
		role := m.Role
		if m.Leader {
			role = "leader"
		}
		term, index, lag, db := "-", "-", "-", "-"
		if m.Term != 0 {
			term, index = figure(m.Term, 5), figure(m.Index, 9)
		}
		if m.LagKnown {
			lag = figure(m.Lag, 6)
		}
		if m.DBSize != 0 {
			db = bytesText(m.DBSize)
		}
		fmt.Fprintf(b, row, m.ID, place(m, name, 15), role, m.Health, term, index, lag, db)
	}
	if len(r.Members) == 0 {
		b.WriteString("(none could be read)\n")
	}
}

// place is the node in at most n runes, and the slot where it is a seed.
func place(m memberStatus, name func(string) string, n int) string {
	const seed = "/seed"
	switch {
	case m.Node == "":
		return cut(m.URL, n)
	case m.Slot == wire.SlotSeed:
		return cut(name(m.Node), n-len(seed)) + seed
	}
	return cut(name(m.Node), n)
}

// shortNames makes a node's name fit a table: up to its first dot, where that
// tells the nodes apart.
func (r *statusReport) shortNames() func(string) string {
	short := func(s string) string {
		if net.ParseIP(s) == nil { // a node that was asked by address, and is silent
			s, _, _ = strings.Cut(s, ".")
		}
		return s
	}
	seen := map[string]bool{}
	for _, n := range r.Nodes {
		if seen[short(n.Name)] {
			return func(s string) string { return s }
		}
		seen[short(n.Name)] = true
	}
	return short
}

// figure is n in at most width columns; a longer one is rounded, never cut off.
func figure(n uint64, width int) string {
	if s := strconv.FormatUint(n, 10); len(s) <= width {
		return s
	}
	return fmt.Sprintf("%.*e", max(0, width-6), float64(n))
}

func (r *statusReport) nodeTable(b *strings.Builder) {
	const row = "%-15s %-15s %-7s %-12s %-12s %-s\n"
	name := r.shortNames()
	fmt.Fprintf(b, "\n"+row, "NODE", "ADDRESS", "AGENT", "SEED", "MEMBER", "PROXY")
	for _, n := range r.Nodes {
		line := fmt.Sprintf(row, cut(name(n.Name), 15), cut(n.Address, 15), n.Agent, cut(n.Seed, 12), cut(n.Member, 12), cut(n.Proxy, 14))
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
		if n.Driver != "" {
			fmt.Fprintf(b, "%s\n", wrap("driven by "+n.Driver, 16))
		}
	}
}

func (n next) text() string {
	switch {
	case n.Step == string(pivot.Done):
		return wrap("next: nothing; "+n.Why, 0) + "\n"
	case n.Step != "":
		return wrap("next: "+n.Step+", because "+n.Why, 0) + "\n"
	case n.Waits:
		return "next: wait; it passes by itself\n" + n.refusals()
	}
	return "next: nothing can be done until somebody acts\n" + n.refusals()
}

func (n next) refusals() string {
	s := ""
	for _, r := range n.Refusals {
		s += wrap(r, 2) + "\n"
	}
	return s
}

func idText(id wire.ID) string {
	if id == 0 {
		return "unknown"
	}
	return id.String()
}

// bytesText is a size in at most six columns: "987B", "1.2M", "105M", "2.0G".
func bytesText(n int64) string {
	const units = "BKMGTPE"
	f, u := float64(n), 0
	for f >= 999.5 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	if u == 0 || f >= 99.95 {
		return fmt.Sprintf("%.0f%c", f, units[u])
	}
	return fmt.Sprintf("%.1f%c", f, units[u])
}

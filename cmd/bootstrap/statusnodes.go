package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// What is told as a condition before it hurts.
const (
	expirySoon = 30 * 24 * time.Hour
	diskLow    = 10 // percent free
)

func newNodeStatus(n driver.NodeView) nodeStatus {
	out := nodeStatus{Name: n.Ref.Name, Address: n.Ref.Address, Agent: "answers"}
	if n.Obs == nil {
		out.Agent, out.Why = "silent", reason(n.Err)
		return out
	}
	o := n.Obs
	out.Version, out.FreeBytes, out.Problems = o.Version, o.Disk.FreeBytes, slices.Clone(o.Problems)
	out.Seed, out.Member = slotWords(o.SlotOf(wire.SlotSeed)), slotWords(o.SlotOf(wire.SlotMember))
	out.Proxy = proxyWords(o.Proxy)
	if o.Fence.LeftMillis > 0 {
		out.Driver = o.Fence.HolderName
	}
	for _, c := range o.Certs {
		if c.Problem != "" {
			out.Problems = append(out.Problems, "certificate "+c.Name+": "+c.Problem)
		}
		if !c.NotAfter.IsZero() && (out.Certificate == nil || c.NotAfter.Before(out.Certificate.NotAfter)) {
			out.Certificate = &certStatus{Node: n.Ref.Name, Name: c.Name, NotAfter: c.NotAfter.UTC()}
		}
	}
	for _, u := range o.Unfit {
		if !strings.HasPrefix(u, "certificate ") { // told above
			out.Problems = append(out.Problems, "no member can start here: "+u)
		}
	}
	for _, sl := range o.Slots {
		switch {
		case sl.Class == wire.ClassPart, sl.Class == wire.ClassForeign, sl.Class == wire.ClassUnknown && sl.Reason != "":
			out.Problems = append(out.Problems, fmt.Sprintf("%s directory: %s", sl.Slot, slotReason(sl)))
		case sl.Wanted && sl.Process.State == wire.ProcDown && sl.Process.LastExit != "":
			out.Problems = append(out.Problems, fmt.Sprintf("%s is down: %s", sl.Slot, sl.Process.LastExit))
		case sl.Wanted && sl.Process.State == wire.ProcUp && sl.Process.Deaths > 0 && !sl.Process.PeerUp:
			out.Problems = append(out.Problems, fmt.Sprintf("%s ended %d times in a row: %s", sl.Slot, sl.Process.Deaths, sl.Process.LastExit))
		}
	}
	return out
}

func slotReason(sl wire.SlotStatus) string {
	class := string(sl.Class)
	if class == "" {
		class = "unknown"
	}
	if sl.Reason == "" {
		return class
	}
	return class + ", " + sl.Reason
}

// slotWords is a slot in a few words: "running", "whole, parked", "absent".
func slotWords(sl *wire.SlotStatus) string {
	if sl == nil {
		return ""
	}
	words := []string{string(sl.Class)}
	if sl.Class == wire.ClassUnknown {
		words[0] = "unknown"
	}
	if sl.Parked && sl.Class != wire.ClassAbsent {
		words = append(words, "parked")
	}
	if sl.Process.Restarts > 0 {
		words = append(words, fmt.Sprintf("restarted %d times", sl.Process.Restarts))
	}
	return strings.Join(words, ", ")
}

// proxyWords says where a proxy sends clients.
func proxyWords(p *wire.ProxyStatus) string {
	if p == nil {
		return "no answer"
	}
	seed, members := false, 0
	for _, t := range p.Targets {
		if t.Admitted && t.Mode == wire.Serve {
			if t.Slot == wire.SlotSeed {
				seed = true
			} else {
				members++
			}
		}
	}
	var out string
	switch {
	case members > 0 && seed:
		out = fmt.Sprintf("to seed and %d", members)
	case members == 1:
		out = "to 1 member"
	case members > 0:
		out = fmt.Sprintf("to %d members", members)
	case seed:
		out = "to seed"
	default:
		out = "no target"
	}
	if p.Held > 0 {
		out += fmt.Sprintf(", %d held", p.Held)
	}
	return out
}

// newConditions says what is well and what is not, each in one line. What is
// well and needs no word (no alarm, room on disks) is left out.
func newConditions(r *statusReport, v *driver.View) []condition {
	held := condition{"QuorumHeld", "False", r.Quorum.Text}
	switch {
	case r.Quorum.State == pivot.QuorumHeld.String():
		held.Status = "True"
	case !v.State.ListKnown || r.anySilent():
		held.Status = "Unknown"
	}
	out := []condition{held, r.pivoted(v)}
	for _, n := range r.Nodes {
		if n.Agent == "silent" {
			out = append(out, condition{"AgentAnswers", "Unknown", fmt.Sprintf("%s at %s is silent: %s", n.Name, n.Address, n.Why)})
		}
		if n.Agent != "silent" && (n.Proxy == "no answer" || strings.HasPrefix(n.Proxy, "no target")) {
			out = append(out, condition{"ProxyServes", "False", fmt.Sprintf("proxy of %s: %s", n.Name, n.Proxy)})
		}
		for _, p := range n.Problems {
			out = append(out, condition{"NodeHealthy", "False", n.Name + ": " + p})
		}
	}
	for _, m := range r.Members {
		for _, al := range m.Alarms {
			out = append(out, condition{"NoAlarm", "False", fmt.Sprintf("%s/%s raised %s", m.Node, m.Slot, al)})
		}
	}
	for _, n := range v.Nodes {
		if n.Obs != nil && n.Obs.Disk.TotalBytes > 0 && n.Obs.Disk.FreeBytes*100/n.Obs.Disk.TotalBytes < diskLow {
			out = append(out, condition{"DiskHasRoom", "False", fmt.Sprintf("%s has %s free of %s", n.Ref.Name, bytesText(n.Obs.Disk.FreeBytes), bytesText(n.Obs.Disk.TotalBytes))})
		}
	}
	if c := r.Certificate; c != nil && c.NotAfter.Sub(r.Time) < expirySoon {
		out = append(out, condition{"CertificatesValid", "False", fmt.Sprintf("%s of %s expires on %s", c.Name, c.Node, c.NotAfter.Format(time.DateOnly))})
	}
	return out
}

func (r *statusReport) anySilent() bool {
	return slices.ContainsFunc(r.Nodes, func(n nodeStatus) bool { return n.Agent == "silent" })
}

func first(names []string) string {
	if len(names) == 0 {
		return "no node"
	}
	return names[0]
}

// pivoted is the condition of being where the spec wants it.
func (r *statusReport) pivoted(v *driver.View) condition {
	c := condition{Type: "Pivoted", Status: "Unknown", Text: "no member list could be read"}
	if !v.State.ListKnown {
		return c
	}
	seed := v.State.SeedMember()
	switch members := len(v.State.Voters()); {
	case r.Target == wire.TargetSeed && (seed == nil || len(v.State.Members) > 1):
		if seed != nil && seed.Role == pivot.Voter {
			members--
		}
		c.Status, c.Text = "False", fmt.Sprintf("under way back to one seed on %s: %d voters besides it; `bootstrap unpivot` goes on, `bootstrap pivot` turns round", first(r.Wanted), members)
	case seed != nil && r.Target == wire.TargetSeed:
		c.Status, c.Text = "False", "one seed on "+seed.Node+"; `bootstrap pivot` makes managed members of it"
	case seed != nil:
		c.Status, c.Text = "False", "under way: the seed on "+seed.Node+" is still a member"
	default:
		c.Status, c.Text = "True", "managed members only, no seed"
	}
	return c
}

package main

import (
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agentclient"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// width of what is printed for people.
const width = 80

// oneLine joins what an error may have spread over lines.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// wrap breaks s at blanks into lines of at most width, each indented; a word
// that is longer stands alone.
func wrap(s string, indent int) string {
	in := strings.Repeat(" ", indent)
	var lines []string
	line := ""
	for _, w := range strings.Fields(s) {
		if line != "" && indent+runes(line)+1+runes(w) > width {
			lines, line = append(lines, in+line), ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return strings.Join(append(lines, in+line), "\n")
}

func runes(s string) int { return len([]rune(s)) }

// cut shortens s to n runes, with an ellipsis.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// reason is why an agent did not answer, in words.
func reason(err error) string { return agentclient.Why(err) }

func slotOf(m pivot.Member) wire.Slot { return wire.Slot(m.Slot) }

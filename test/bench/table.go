package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// writeTable makes docs/benchmarks.md of bench/results/*.jsonl: medians, with
// the command, versions and machine they came from.
func writeTable(root string) error {
	var doc strings.Builder
	doc.WriteString("# Benchmarks\n\nMade by `go run ./test/bench table` from `bench/results/`; do not edit. Figures are medians over the runs given, each\n" +
		"against the alternative in the same run. Measure again with the command above each table.\n")
	for _, subject := range []string{"pivot", "proxy"} {
		rows, err := readRows(filepath.Join(root, "bench", "results", subject+".jsonl"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		last := rows[len(rows)-1]
		fmt.Fprintf(&doc, "\n## %s\n\n`make bench BENCH=%s`, %s, etcd %s, etcd-selfhost %s, %s.\n\n", subject, subject, last.Machine, last.Etcd, last.Version, last.Time.Format("2006-01-02"))
		subjectTable(&doc, rows)
		if notes, err := os.ReadFile(filepath.Join(root, "bench", "results", subject+".md")); err == nil {
			doc.WriteString("\n" + string(notes))
		}
	}
	return os.WriteFile(filepath.Join(root, "docs", "benchmarks.md"), []byte(doc.String()), 0o644)
}

func readRows(path string) ([]row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []row
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var r row
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if r.V != 1 {
			return nil, fmt.Errorf("%s: format version %d, this program reads 1", path, r.V)
		}
		out = append(out, r)
	}
	return out, sc.Err()
}

type group struct {
	name, who string
	runs      int
	figures   map[string][]float64
}

// subjectTable prints a table per set of figures; steps get one of their own.
func subjectTable(doc *strings.Builder, rows []row) {
	var groups []*group
	for _, r := range rows {
		var g *group
		for _, x := range groups {
			if x.name == r.Case && x.who == r.Who {
				g = x
			}
		}
		if g == nil {
			g = &group{name: r.Case, who: r.Who, figures: map[string][]float64{}}
			groups = append(groups, g)
		}
		g.runs++
		for k, v := range r.Figures {
			g.figures[k] = append(g.figures[k], v)
		}
	}
	steps := func(k string) bool { return strings.HasPrefix(k, "step_") }
	print(doc, groups, func(k string) bool { return !steps(k) })
	var with []*group
	for _, g := range groups {
		for k := range g.figures {
			if steps(k) {
				with = append(with, g)
				break
			}
		}
	}
	if len(with) > 0 {
		doc.WriteString("\nWhere each second goes (seconds by step, steps of one name together; the rest is waiting for learners and looking):\n\n")
		transposed(doc, with, steps)
	}
}

// print groups rows that have the same figures under one head.
func print(doc *strings.Builder, groups []*group, keep func(string) bool) {
	head := ""
	for _, g := range groups {
		var keys []string
		for k := range g.figures {
			if keep(k) {
				keys = append(keys, k)
			}
		}
		sort.Strings(keys)
		if h := strings.Join(keys, " "); h != head {
			if head != "" {
				doc.WriteString("\n")
			}
			head = h
			fmt.Fprintf(doc, "| case | who | runs | %s |\n|---|---|---|%s\n", strings.Join(keys, " | "), strings.Repeat("---|", len(keys)))
		}
		var cells []string
		for _, k := range keys {
			cells = append(cells, figure(median(g.figures[k])))
		}
		fmt.Fprintf(doc, "| %s | %s | %d | %s |\n", g.name, g.who, g.runs, strings.Join(cells, " | "))
	}
}

func transposed(doc *strings.Builder, groups []*group, keep func(string) bool) {
	keys := map[string]bool{}
	doc.WriteString("| step |")
	for _, g := range groups {
		fmt.Fprintf(doc, " %s |", g.name)
		for k := range g.figures {
			if keep(k) {
				keys[k] = true
			}
		}
	}
	doc.WriteString("\n|---|" + strings.Repeat("---|", len(groups)) + "\n")
	for _, k := range sorted(keys) {
		fmt.Fprintf(doc, "| %s |", strings.TrimSuffix(strings.TrimPrefix(k, "step_"), "_s"))
		for _, g := range groups {
			fmt.Fprintf(doc, " %s |", figure(median(g.figures[k])))
		}
		doc.WriteString("\n")
	}
}

func sorted(m map[string]bool) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

func figure(v float64) string {
	switch {
	case v == float64(int64(v)) || v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

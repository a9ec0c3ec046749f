package pivot

import (
	"fmt"
	"sort"
	"strings"
)

// walk visits every world that the brain's steps, time and a bounded number of
// accidents can reach, breadth first, and checks each edge.
//
// Safety: no step breaks an invariant (invariants_test.go), whatever happened
// before: accidents, a step whose driver heard an error or was killed within it.
// Liveness: the edges on which nothing fails make no circle, and where none is
// left the brain says Done, or a refusal that somebody must resolve.
type walk struct {
	n     int
	turns bool // a person may turn round at any point
	views []view
	next  func(State) Decision
	max   int // worlds; more is an error

	ids    map[key]int32
	keys   []key
	parent []int32
	succ   []uint32 // edges on which nothing fails, flat; the high bit marks our steps
	begin  []uint32 // of a world's edges in succ
	edges  int
	ends   map[string]int // what the last words were
	bad    *violation
}

type violation struct {
	why string
	at  int32
	do  string
}

const stepBit = 1 << 31

// orders of the nodes: the spec's order is a person's, so every order of the
// alike ones, the seed's first; and one with the seed's node last.
func views(n int) []view {
	var out []view
	var rest []int
	for i := 1; i < n; i++ {
		rest = append(rest, i)
	}
	permute(rest, 0, func(p []int) { out = append(out, newView(append([]int{0}, p...))) })
	if n > 1 {
		out = append(out, newView(append(append([]int{}, rest...), 0)))
	}
	if n > 3 { // the full number of orders is for three nodes
		out = []view{out[0], out[len(out)-1]}
	}
	return out
}

func permute(p []int, i int, f func([]int)) {
	if i >= len(p) {
		f(append([]int{}, p...))
		return
	}
	for j := i; j < len(p); j++ {
		p[i], p[j] = p[j], p[i]
		permute(p, i+1, f)
		p[i], p[j] = p[j], p[i]
	}
}

func newWalk(n int, next func(State) Decision) *walk {
	return &walk{n: n, views: views(n), next: next, max: 20e6, ids: map[key]int32{}, ends: map[string]int{}}
}

func (g *walk) add(w *world, from int32) int32 {
	k := w.key(g.n)
	id, ok := g.ids[k]
	if !ok {
		id = int32(len(g.keys))
		g.ids[k] = id
		g.keys = append(g.keys, k)
		g.parent = append(g.parent, from)
	}
	return id
}

// run walks from the roots until nothing is new or something is broken.
func (g *walk) run(roots []world) {
	for i := range roots {
		g.add(&roots[i], -1)
	}
	for i := int32(0); int(i) < len(g.keys) && g.bad == nil; i++ {
		if len(g.keys) > g.max {
			g.bad = &violation{why: fmt.Sprintf("more than %d worlds", g.max), at: i}
			return
		}
		w := g.keys[i].world(g.n)
		g.begin = append(g.begin, uint32(len(g.succ)))
		moved := false
		for _, e := range g.expand(&w, i) {
			id := g.add(&e.to, i)
			g.edges++
			if e.progress && id != i {
				moved = true
				bit := uint32(0)
				if e.step {
					bit = stepBit
				}
				g.succ = append(g.succ, uint32(id)|bit)
			}
		}
		if !moved && g.bad == nil {
			g.end(&w, i)
		}
	}
	g.begin = append(g.begin, uint32(len(g.succ)))
}

// expand lists every edge from a world and checks those that are ours.
func (g *walk) expand(w *world, at int32) []edge {
	out := w.progress(g.n)
	for vi, v := range g.views {
		d := g.next(v.observe(w))
		if d.Step == nil {
			if len(d.Refusals) == 0 {
				g.bad = &violation{why: "the brain says nothing", at: at}
			} else if name := w.idle(g.n); name != "" && d.Refusals[0].Name != "NoMajority" {
				g.bad = &violation{why: "liveness: " + name + " has a whole directory and is not started (I9)", at: at, do: d.String()}
			}
			continue
		}
		if d.Step.Kind == Done {
			if why := w.unfinished(g.n); why != "" {
				g.bad = &violation{why: "done, and " + why, at: at, do: d.String()}
			}
			continue
		}
		to := v.perform(*w, *d.Step)
		if why := v.broken(*w, to, *d.Step); why != "" {
			g.bad = &violation{why: why, at: at, do: d.String()}
		} else if to.key(g.n) == w.key(g.n) && d.Step.Kind != RouteProxies { // a proxy may be long in admitting
			g.bad = &violation{why: "liveness: a step without effect", at: at, do: d.String()}
		}
		label := d.Step.String()
		if vi > 0 {
			label += fmt.Sprintf(" (spec order %v)", v.order)
		}
		out = append(out, edge{label: label, to: to, progress: true, step: true},
			edge{label: d.Step.String() + ", the driver hears an error and is replaced", to: newDriver(to)})
		out = append(out, v.halves(*w, *d.Step)...)
	}
	out = append(out, edge{label: "the driver is replaced", to: newDriver(*w)})
	if g.turns {
		to := turn(*w, g.n)
		out = append(out, edge{label: "TURN to " + to.target().String(), to: to})
	}
	return append(out, w.accidents(g.n)...)
}

// end judges a world in which nothing moves any more.
func (g *walk) end(w *world, at int32) {
	for _, v := range g.views {
		s := v.observe(w)
		d := g.next(s)
		switch {
		case d.Step != nil && d.Step.Kind == Done:
			g.ends["Done"]++
		case d.Step != nil:
			g.bad = &violation{why: "liveness: the same step for ever", at: at, do: d.String()}
		case d.Waits() && w.canLead(g.n):
			g.bad = &violation{why: "liveness: waits for what will not come", at: at, do: d.String()}
		default:
			name := d.Refusals[0].Name
			if why := w.excuse(g.n); why == "" {
				g.bad = &violation{why: "liveness: refuses where nothing is wrong", at: at, do: d.String()}
			}
			if d.Waits() {
				name += " (no quorum can come back)"
			}
			g.ends[name]++
		}
	}
}

// excuse: what a person must put right; without one the end must be Done.
func (w *world) excuse(n int) string {
	if w.stray == strayLearner || w.stray == strayVoter {
		return "stray member"
	}
	why := ""
	w.each(n, func(ix int, e *wetcd) {
		if e.role == Voter && !(e.mine && e.dir == Whole) {
			why = etcdName(ix) + " lost its directory"
		}
		if e.dir == Foreign && w.back == (ix == seedIx) || ix == seedIx && !w.known && (e.dir == Part || e.dir == Older) {
			why = etcdName(ix) + " has a directory that is " + e.dir.String()
		}
	})
	return why
}

// trace is how a world came about, one line an edge.
func (g *walk) trace(at int32) []string {
	var path []int32
	for i := at; i >= 0; i = g.parent[i] {
		path = append(path, i)
	}
	root := g.keys[path[len(path)-1]].world(g.n)
	out := []string{strings.TrimSpace(g.views[0].observe(&root).String())}
	for p := len(path) - 2; p >= 0; p-- {
		out = append(out, "  "+g.label(path[p+1], path[p]))
	}
	return out
}

// label of the edge between two worlds, made again.
func (g *walk) label(from, to int32) string {
	w := g.keys[from].world(g.n)
	keep := g.bad
	defer func() { g.bad = keep }()
	for _, e := range g.expand(&w, from) {
		if e.to.key(g.n) == g.keys[to] {
			return e.label
		}
	}
	return "?"
}

// complaint is the violation with its trace and the last state.
func (g *walk) complaint() string {
	w := g.keys[g.bad.at].world(g.n)
	return fmt.Sprintf("%s\n%s\n  => %s\n%s", g.bad.why, strings.Join(g.trace(g.bad.at), "\n"), g.bad.do, g.views[0].observe(&w))
}

// longest is the route with the most steps of ours among all on which nothing
// fails; a circle among them is a violation.
func (g *walk) longest() []string {
	n := len(g.keys)
	indegree := make([]int32, n)
	for _, e := range g.succ {
		indegree[e&^stepBit]++
	}
	queue := make([]int32, 0, n)
	for i := range n {
		if indegree[i] == 0 {
			queue = append(queue, int32(i))
		}
	}
	best, from := make([]int32, n), make([]int32, n)
	for i := range from {
		from[i] = -1
	}
	last := int32(0)
	for h := 0; h < len(queue); h++ {
		i := queue[h]
		if best[i] > best[last] {
			last = i
		}
		for _, e := range g.succ[g.begin[i]:g.begin[i+1]] {
			to, length := int32(e&^stepBit), best[i]+int32(e>>31)
			if length > best[to] || from[to] < 0 {
				best[to], from[to] = length, i
			}
			if indegree[to]--; indegree[to] == 0 {
				queue = append(queue, to)
			}
		}
	}
	if len(queue) < n {
		g.circle(indegree)
		return nil
	}
	var rows []string
	for i := last; from[i] >= 0; i = from[i] {
		rows = append(rows, g.label(from[i], i))
	}
	for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
		rows[i], rows[j] = rows[j], rows[i]
	}
	return append(rows, fmt.Sprintf("%d steps", best[last]))
}

// circle reports one circle among the worlds that topological order left over.
func (g *walk) circle(indegree []int32) {
	prev := map[int32]int32{} // an edge into each left-over world from another
	for i := range g.keys {
		if indegree[i] == 0 {
			continue
		}
		for _, e := range g.succ[g.begin[i]:g.begin[i+1]] {
			prev[int32(e&^stepBit)] = int32(i)
		}
	}
	var at int32
	for at = range prev {
		break
	}
	seen := map[int32]bool{}
	for !seen[at] {
		seen[at] = true
		at = prev[at]
	}
	rows := []string{}
	for i := at; ; {
		rows = append([]string{g.label(prev[i], i)}, rows...)
		if i = prev[i]; i == at {
			break
		}
	}
	g.bad = &violation{why: "liveness: a circle: " + strings.Join(rows, " | "), at: at}
}

// report is the walk in three lines.
func (g *walk) report() string {
	var ends []string
	for k, c := range g.ends {
		ends = append(ends, fmt.Sprintf("%s %d", k, c))
	}
	sort.Strings(ends)
	return fmt.Sprintf("%d nodes, %d states, %d edges; ends: %s", g.n, len(g.keys), g.edges, strings.Join(ends, ", "))
}

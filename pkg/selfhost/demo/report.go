package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"text/tabwriter"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/version"
)

// Report is what --report writes: JSON, one object per chapter that ran.
type Report struct {
	V          int               `json:"v"`
	Versions   map[string]string `json:"versions"`
	SizeMB     int               `json:"size_mb"`
	Nodes      int               `json:"nodes"`
	APIServer  bool              `json:"apiserver"`
	Pivot      *PivotReport      `json:"pivot,omitempty"`
	PowerCycle *PowerReport      `json:"power_cycle,omitempty"`
}

// PivotReport: seconds from the start of the pivot; writes are those of 8
// writers on etcd through the first node's proxy.
type PivotReport struct {
	SecondsToVoters  float64 `json:"seconds_to_voters"`
	SecondsToServing float64 `json:"seconds_to_serving"`
	SecondsTotal     float64 `json:"seconds_total"`
	// WriteGapMax is the longest time between two acknowledged writes, in ms.
	WriteGapMax float64 `json:"write_gap_ms_max"`
	// WriteGapGrowth and WriteGapRouting split it: before RouteProxies, and from it on.
	WriteGapGrowth  float64 `json:"write_gap_ms_growth"`
	WriteGapRouting float64 `json:"write_gap_ms_routing"`
	WritesOK        int     `json:"writes_ok"`
	WritesFailed    int     `json:"writes_failed"`
	APIWrites       int     `json:"api_writes"`
	APIErrors       int     `json:"api_errors"`
	APIRetriable    int     `json:"api_retriable"`
	HashEqual       bool    `json:"hash_equal"`
	ObjectsBefore   int     `json:"objects_before"`
	ObjectsAfter    int     `json:"objects_after"`
	// StepSeconds and StepGap say, by the step's name, how long its steps took
	// together and the longest gap between two writes while one was done, in ms.
	StepSeconds map[string]float64 `json:"step_seconds"`
	StepGap     map[string]float64 `json:"step_gap_ms"`
}

// PowerReport of the power cycle.
type PowerReport struct {
	SecondsToWritable float64 `json:"seconds_to_writable"`
	SecondsToReady    float64 `json:"seconds_to_api_ready,omitempty"`
	ObjectsLost       int     `json:"objects_lost"`
}

func newReport(o Options) *Report {
	return &Report{V: 1, SizeMB: o.SizeMB, Nodes: o.Nodes, APIServer: o.KubeAPIServer != "",
		Versions: map[string]string{"etcd-selfhost": version.Version, "etcd": version.Etcd, "kubernetes": version.Kubernetes}}
}

// write stores the report at path.
func (r *Report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(b, '\n'), 0o644)
}

// table prints what a person wants to know at the end.
func (r *Report) table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	row := func(format string, a ...any) { fmt.Fprintf(t, format+"\n", a...) }
	row("\nchapter\twhat\tfigure")
	if p := r.Pivot; p != nil {
		row("pivot\tall members serve clients after\t%.2f s", p.SecondsToServing)
		row("pivot\tall members are voters after\t%.2f s", p.SecondsToVoters)
		row("pivot\twhole\t%.2f s", p.SecondsTotal)
		row("pivot\tlongest gap between two writes, growing\t%.0f ms", p.WriteGapGrowth)
		row("pivot\tlongest gap between two writes, from routing on\t%.0f ms", p.WriteGapRouting)
		row("pivot\twrites to etcd acknowledged / failed\t%d / %d", p.WritesOK, p.WritesFailed)
		if r.APIServer {
			row("pivot\tAPI writes / errors / retriable\t%d / %d / %d", p.APIWrites, p.APIErrors, p.APIRetriable)
		}
		row("pivot\tkeys before / of them after\t%d / %d", p.ObjectsBefore, p.ObjectsAfter)
		row("pivot\tHashKV equal on all members\t%t", p.HashEqual)
	}
	if p := r.PowerCycle; p != nil {
		row("power-cycle\twritable again after\t%.2f s", p.SecondsToWritable)
		if r.APIServer {
			row("power-cycle\tapiserver ready after\t%.2f s", p.SecondsToReady)
		}
		row("power-cycle\tacknowledged objects lost\t%d", p.ObjectsLost)
	}
}

// problems are figures that make the demo fail.
func (r *Report) problems() []string {
	var out []string
	if p := r.Pivot; p != nil {
		if !p.HashEqual {
			out = append(out, "hashes differ")
		}
		if p.APIErrors > 0 {
			out = append(out, fmt.Sprintf("%d API errors", p.APIErrors))
		}
		if p.ObjectsAfter != p.ObjectsBefore {
			out = append(out, fmt.Sprintf("%d of %d keys are there after the pivot", p.ObjectsAfter, p.ObjectsBefore))
		}
	}
	if p := r.PowerCycle; p != nil && p.ObjectsLost > 0 {
		out = append(out, fmt.Sprintf("%d objects lost in the power cycle", p.ObjectsLost))
	}
	sort.Strings(out)
	return out
}

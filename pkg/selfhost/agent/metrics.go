package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

const maxMetrics = 8 << 20

// fromMetrics is what the metrics port tells while the client port is shut: a
// learner opens that one only after its first publish, which is lost while it
// receives a database (LESSONS, "Pivot"). Leader and term are not told there.
func (c *etcdClient) fromMetrics(ctx context.Context) (*wire.EtcdStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, plainDeadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s/metrics: %s", c.metrics, resp.Status)
	}
	return parseMetrics(io.LimitReader(resp.Body, maxMetrics))
}

func parseMetrics(r io.Reader) (*wire.EtcdStatus, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	fams, err := p.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	if fams["etcd_server_proposals_committed_total"] == nil {
		return nil, fmt.Errorf("metrics of something that is not etcd, or has not started raft")
	}
	st := &wire.EtcdStatus{From: "metrics",
		Index:   uint64(sum(fams["etcd_server_proposals_committed_total"])),
		Applied: uint64(sum(fams["etcd_server_proposals_applied_total"])),
		Learner: sum(fams["etcd_server_is_learner"]) > 0,
		DBSize:  int64(sum(fams["etcd_mvcc_db_total_size_in_bytes"])),
		DBInUse: int64(sum(fams["etcd_mvcc_db_total_size_in_use_in_bytes"])),
		// Of the store, not of raft: what has been applied here.
		Revision: int64(sum(fams["etcd_debugging_mvcc_current_revision"])),
		Version:  label(fams["etcd_server_version"], "server_version"),
		SnapshotReceived: sum(fams["etcd_network_snapshot_receive_success"]) > 0 &&
			sum(fams["etcd_network_snapshot_receive_inflights_total"]) == 0 &&
			sum(fams["etcd_server_snapshot_apply_in_progress_total"]) == 0,
	}
	if id, err := strconv.ParseUint(label(fams["etcd_server_id"], "server_id"), 16, 64); err == nil {
		st.MemberID = wire.ID(id)
	}
	return st, nil
}

// sum adds the values of a counter or gauge over its labels; 0 without it.
func sum(f *dto.MetricFamily) float64 {
	var s float64
	for _, m := range f.GetMetric() {
		s += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
	}
	return s
}

// label is the value of a label of the series that is 1.
func label(f *dto.MetricFamily, name string) string {
	for _, m := range f.GetMetric() {
		if m.GetGauge().GetValue() != 1 {
			continue
		}
		for _, l := range m.GetLabel() {
			if l.GetName() == name {
				return l.GetValue()
			}
		}
	}
	return ""
}

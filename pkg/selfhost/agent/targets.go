package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/proxy"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// setTargets writes the proxy's targets; the same again changes nothing. A
// driver's grant of this epoch confirms the epoch for this boot.
func (a *Agent) setTargets(_ context.Context, in wire.TargetsRequest) (wire.Reply, error) {
	what := fmt.Sprintf("%d proxy targets", len(in.Targets))
	return ok(), a.act(in.Act, "RouteProxies", what, func(context.Context) error {
		epoch, _, _ := a.store.view()
		if in.ClusterID == 0 || differ(epoch.ClusterID, in.ClusterID) {
			return a.refusal("OtherCluster", "targets of cluster "+in.ClusterID.String(), "cluster "+epoch.ClusterID.String()+" of the epoch", "I1")
		}
		return a.writeTargets(in.ClusterID, in.Targets, proxy.BootID())
	})
}

// writeTargets replaces STATE/targets.json under the next serial, unless it
// says the same already. boot: the boot under which the epoch was confirmed.
func (a *Agent) writeTargets(cluster wire.ID, targets []wire.ProxyTarget, boot string) error {
	a.fileMu.Lock()
	defer a.fileMu.Unlock()
	epoch, _, _ := a.store.view()
	have, _, err := a.readTargets()
	if err != nil {
		return err
	}
	next := wire.Targets{V: wire.V, Serial: have.Serial, Epoch: epoch.Number, ClusterID: cluster, ConfirmedBoot: boot}
	for _, t := range targets {
		t.Local = t.Node == a.id.Node.Name
		next.Targets = append(next.Targets, t)
	}
	if sameJSON(have, next) {
		return nil
	}
	next.Serial++
	return durable.WriteJSON(a.id.State(wire.FileTargets), next)
}

func (a *Agent) readTargets() (t wire.Targets, found bool, err error) {
	err = durable.ReadJSON(a.id.State(wire.FileTargets), wire.V, &t)
	if errors.Is(err, fs.ErrNotExist) {
		return t, false, nil
	}
	return t, err == nil, err
}

// hold passes a hold on to the node's proxy. It takes no grant and writes no
// journal: it ends by itself after 200 ms, and 20 ms are all there is.
func (a *Agent) hold(ctx context.Context, in wire.HoldRequest) (wire.Reply, error) {
	return ok(), a.proxy.Hold(ctx, in)
}

// closeDrain closes what is still connected to drained targets.
func (a *Agent) closeDrain(_ context.Context, in wire.CloseDrainRequest) (wire.Reply, error) {
	return ok(), a.act(in.Act, "CloseDrain", "close connections to drained targets", func(ctx context.Context) error {
		return a.proxy.CloseDrain(ctx, in.MemberID)
	})
}

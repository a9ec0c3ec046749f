//go:build cases || sweep

package operatorcases

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/api/v1alpha1"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/operator"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

const slow = 3 * time.Minute // of a step of these stories, on a machine that does other things too

func sized(n int32) v1alpha1.EtcdClusterSpec { return v1alpha1.EtcdClusterSpec{Size: &n} }

func runs(n int32) func(*v1alpha1.EtcdCluster) bool {
	return func(c *v1alpha1.EtcdCluster) bool {
		return c.Status.Phase == v1alpha1.PhaseRunning && c.Status.Ready == n && c.Status.Size == n && c.Status.ObservedGeneration == c.Generation
	}
}

// says: a condition has status and reason, as of the object's own generation.
func says(kind string, status metav1.ConditionStatus, reason string) func(*v1alpha1.EtcdCluster) bool {
	return func(c *v1alpha1.EtcdCluster) bool {
		cond := meta.FindStatusCondition(c.Status.Conditions, kind)
		return c.Status.ObservedGeneration == c.Generation && cond != nil && cond.Status == status && cond.Reason == reason
	}
}

func voters(ctx context.Context, l *rig.Lab) int {
	n := 0
	for _, m := range l.Look(ctx).Members {
		if !m.Learner {
			n++
		}
	}
	return n
}

// steady asserts that for a while nothing changes the number of voters: what
// must not happen is waited for through several turns of the operator.
func steady(ctx context.Context, t *testing.T, l *rig.Lab, want int, why string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if n := len(l.Look(ctx).Members); n != want {
			t.Fatalf("%d members, want %d to stay: %s", n, want, why)
		}
	}
}

// Grow from 3 to 5 with the apiserver away in the middle, with two operators,
// with pauses; what is not possible is refused by name; deleting stops nothing.
func TestOperatorRidesOverItsAPI(t *testing.T) {
	l := rig.Up(t, 5)
	ctx := rig.Context(t, 15*time.Minute)
	k := l.StartKube(0)
	kubeconfig := k.Install()
	k.AddNodes(0, 5)
	one := k.StartOperator(1, kubeconfig)
	k.Cluster("etcd", sized(3))
	first := k.Await("etcd", slow, "three members", runs(3))
	if want := []string{"cp-4", "cp-5"}; !slices.Equal(first.Status.Spares, want) {
		t.Errorf("spares %v, want %v", first.Status.Spares, want)
	}
	two := k.StartOperator(2, kubeconfig)
	k.Lab.Eventually(slow, "the second operator to wait for the first", func() (bool, string) {
		return two.Said("self=false"), "see " + two.Log
	})

	k.Patch("etcd", `{"spec":{"size":5,"paused":true}}`)
	k.Await("etcd", slow, "the pause to be seen", says(v1alpha1.ConditionProgressing, "False", operator.ReasonPaused))
	steady(ctx, t, l, 3, "it is paused")

	// The apiserver goes away as soon as the growth has begun, for 20 s, with the
	// data still there: longer than a Lease lives.
	k.Patch("etcd", `{"spec":{"paused":false}}`)
	l.Eventually(slow, "the growth to begin", func() (bool, string) {
		n := len(l.Look(ctx).Members)
		return n > 3, fmt.Sprint(n, " members")
	})
	k.Kill()
	away := time.Now()
	l.Eventually(slow, "the run under way to go on without an API", func() (bool, string) {
		n := voters(ctx, l)
		return n == 5, fmt.Sprint(n, " voters")
	})
	t.Logf("five voters %s after the apiserver went", time.Since(away).Round(100*time.Millisecond))
	time.Sleep(time.Until(away.Add(20 * time.Second))) // the outage itself
	if one.Ended() || two.Ended() {
		t.Fatal("an operator ended because its API was away")
	}
	rig.Must(t, k.Start())
	rig.Must(t, k.AwaitReady(rig.Context(t, slow)))
	back := time.Now()
	k.Await("etcd", slow, "five members in the status", runs(5))
	t.Logf("status of five members %s after the apiserver was ready again", time.Since(back).Round(100*time.Millisecond))

	// The leader dies; the other goes on once the Lease has run out.
	one.Signal(syscall.SIGKILL)
	k.Patch("etcd", `{"spec":{"size":3}}`)
	down := k.Await("etcd", slow, "the second operator to take over, and to pass on the brain's refusal", says(v1alpha1.ConditionDegraded, "True", "MemberNotNamed"))
	if !says(v1alpha1.ConditionProgressing, "False", "MemberNotNamed")(down) || down.Status.Phase != v1alpha1.PhaseDegraded {
		t.Errorf("scaling down: phase %s, %+v", down.Status.Phase, down.Status.Conditions)
	}
	steady(ctx, t, l, 5, "scaling down is not built")

	deletedAndMadeAnew(ctx, t, l, k, first)
	impossible(ctx, t, l, k)
	if two.Ended() {
		t.Error("the second operator ended")
	}
}

// Deleting stops nothing; an object made anew adopts what is there.
func deletedAndMadeAnew(ctx context.Context, t *testing.T, l *rig.Lab, k *rig.Kube, first *v1alpha1.EtcdCluster) {
	t.Helper()
	if out, err := k.Kubectl("", "-n", "kube-system", "delete", "etcdcluster", "etcd", "--timeout=30s"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	steady(ctx, t, l, 5, "the object is deleted")
	k.Cluster("etcd", v1alpha1.EtcdClusterSpec{}) // every node with the control-plane label
	again := k.Await("etcd", slow, "the new object to adopt five members", runs(5))
	if again.UID == first.UID || again.Status.ClusterID != first.Status.ClusterID || again.Status.Epoch != first.Status.Epoch {
		t.Errorf("adopted cluster %s epoch %d, was %s epoch %d", again.Status.ClusterID, again.Status.Epoch, first.Status.ClusterID, first.Status.Epoch)
	}
}

// What cannot be is refused by a condition that says why, and the last good
// spec stays in force.
func impossible(ctx context.Context, t *testing.T, l *rig.Lab, k *rig.Kube) {
	t.Helper()
	k.Cluster("younger", sized(1))
	k.Await("younger", slow, "the younger object to be refused", says(v1alpha1.ConditionDegraded, "True", operator.ReasonNodesClaimed))
	k.Await("etcd", slow, "the older one to be left alone", runs(5))
	for _, c := range []struct{ patch, reason string }{
		{`{"spec":{"size":7}}`, operator.ReasonNotEnoughNodes},
		{`{"spec":{"size":5,"version":"3.6.16"}}`, operator.ReasonVersionNotRolled},
		{`{"spec":{"version":null,"settings":{"heartbeatMillis":250}}}`, operator.ReasonSettingsNotRolled},
		{`{"spec":{"settings":null,"recovery":{"quorumLoss":"Automatic"}}}`, operator.ReasonNotInThisRelease},
	} {
		k.Patch("etcd", c.patch)
		got := k.Await("etcd", slow, c.reason, says(v1alpha1.ConditionDegraded, "True", c.reason))
		if got.Status.Phase != v1alpha1.PhaseRefused || got.Status.Ready != 5 || !says(v1alpha1.ConditionAvailable, "True", operator.ReasonQuorumHeld)(got) {
			t.Errorf("%s: phase %s, ready %d", c.patch, got.Status.Phase, got.Status.Ready)
		}
	}
	k.Await("younger", slow, "the younger object to stay refused while the older one is", says(v1alpha1.ConditionDegraded, "True", operator.ReasonNodesClaimed))
	k.Patch("etcd", `{"spec":{"recovery":{"quorumLoss":"Manual"}}}`)
	k.Await("etcd", slow, "what is possible again", runs(5))
	steady(ctx, t, l, 5, "nothing of it was possible")
}

// The object travels back in time with the data, the agents' record does not.
func TestOperatorSpecFromThePast(t *testing.T) {
	l := rig.Up(t, 3)
	ctx := rig.Context(t, 10*time.Minute)
	k := l.StartKube(0)
	kubeconfig := k.Install()
	k.AddNodes(0, 3)
	k.StartOperator(1, kubeconfig)
	k.Cluster("etcd", sized(1))
	k.Await("etcd", slow, "one member", runs(1))
	const key = "/registry/etcd.selfhost.dev/etcdclusters/kube-system/etcd"
	etcd := l.Client(0)
	old, err := etcd.Get(ctx, key)
	rig.Must(t, err)
	if len(old.Kvs) != 1 {
		t.Fatalf("%s is not there", key)
	}
	k.Patch("etcd", `{"spec":{"paused":true}}`)
	k.Patch("etcd", `{"spec":{"size":3}}`)
	k.Patch("etcd", `{"spec":{"paused":false}}`) // generation 4 is what the agents are given
	k.Await("etcd", slow, "three members", runs(3))

	// What a restored snapshot does to this key.
	_, err = etcd.Put(ctx, key, string(old.Kvs[0].Value))
	rig.Must(t, err)
	past := k.Await("etcd", slow, "the object to be seen as of the past", says(v1alpha1.ConditionSpecFromThePast, "True", operator.ReasonSpecFromThePast))
	if past.Generation != 1 || past.Status.Phase != v1alpha1.PhaseRefused || past.Status.Ready != 3 {
		t.Errorf("generation %d, phase %s, ready %d", past.Generation, past.Status.Phase, past.Status.Ready)
	}
	t.Log(past.Status.Message, "\n", meta.FindStatusCondition(past.Status.Conditions, v1alpha1.ConditionSpecFromThePast).Message)
	steady(ctx, t, l, 3, "an object of the past asks for one member")

	// Confirmed as it is, it is obeyed: one member, which the brain refuses by name.
	k.Patch("etcd", `{"metadata":{"annotations":{"`+v1alpha1.AcceptSpecAnnotation+`":"1"}}}`)
	k.Await("etcd", slow, "the confirmed object to be obeyed", says(v1alpha1.ConditionDegraded, "True", "MemberNotNamed"))
	k.Patch("etcd", `{"metadata":{"annotations":{"`+v1alpha1.AcceptSpecAnnotation+`":null}}}`)
	k.Await("etcd", slow, "the confirmation to be taken back", says(v1alpha1.ConditionSpecFromThePast, "True", operator.ReasonSpecFromThePast))
	// Edited, at a generation still below the agents': obeyed as well.
	k.Patch("etcd", `{"spec":{"size":3}}`)
	edited := k.Await("etcd", slow, "the edited object to be obeyed", runs(3))
	if !says(v1alpha1.ConditionSpecFromThePast, "False", operator.ReasonAccepted)(edited) || edited.Generation != 2 {
		t.Errorf("generation %d, %+v", edited.Generation, edited.Status.Conditions)
	}
}

// A kubeconfig of one cluster with the driver certificate of another, both of
// which know their agents: refused before anything is done.
func TestOperatorOfAnotherCluster(t *testing.T) {
	a, b := rig.Up(t, 2), rig.Up(t, 1)
	ctx := rig.Context(t, 10*time.Minute)
	ka := a.StartKube(0)
	opA := ka.StartOperator(1, ka.Install())
	ka.AddNodes(0, 1)
	ka.Cluster("etcd", sized(1))
	ka.Await("etcd", slow, "one member", runs(1))
	if code := opA.Stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	ka.Kill()

	kb := b.StartKube(0)
	kubeconfig := kb.Install()
	kb.Identity(a.Nodes[0].PKIDir())
	for _, n := range a.Nodes {
		kb.AddNode(n.Name, n.Ref.Address)
	}
	kb.StartOperator(1, kubeconfig)
	kb.Cluster("etcd", sized(1))
	c := kb.Await("etcd", slow, "the other cluster's agents to be refused", says(v1alpha1.ConditionDegraded, "True", operator.ReasonOtherCluster))
	if len(c.Status.Members) != 0 || c.Status.ClusterID != "" {
		t.Errorf("the status speaks of another cluster: %+v", c.Status)
	}
	steady(ctx, t, a, 1, "the operator is of another cluster")
}

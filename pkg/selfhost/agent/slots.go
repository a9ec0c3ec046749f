package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent/child"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// endWait is how long a process may take to end: its grace, then SIGKILL.
const endWait = child.Grace + 5*time.Second

func (a *Agent) slotLocked(slot wire.Slot) (unlock func(), err error) {
	mu := a.slotMu[slot]
	if mu == nil {
		return nil, badRequest{fmt.Errorf("slot %q: there are %s and %s", slot, wire.SlotMember, wire.SlotSeed)}
	}
	mu.Lock()
	return mu.Unlock, nil
}

func (a *Agent) refusal(name, found, want, cites string) *wire.Refusal {
	return &wire.Refusal{Name: name, Node: a.id.Node.Name, Found: found, Want: want, Cites: cites}
}

func (a *Agent) argv(slot wire.Slot, r slotRecord) []string {
	return command(a.id, a.exe, Name(slot), r.Binary, r.Args)
}

// slotStart starts the slot's etcd under the identity the driver names; done
// again it changes nothing. It returns when the process was started.
func (a *Agent) slotStart(_ context.Context, in wire.StartRequest) (wire.Reply, error) {
	what := fmt.Sprintf("start %s as member %s", in.Slot, in.MemberID)
	return ok(), a.act(in.Act, "StartMember", what, func(ctx context.Context) error {
		unlock, err := a.slotLocked(in.Slot)
		if err != nil {
			return err
		}
		defer unlock()
		return a.start(ctx, in)
	})
}

func (a *Agent) start(ctx context.Context, in wire.StartRequest) error {
	if in.MemberID == 0 {
		return badRequest{errors.New("a start names the member")}
	}
	epoch, spec, _ := a.store.view()
	if differ(epoch.ClusterID, in.ClusterID) {
		return a.refusal("OtherCluster", "a start in cluster "+in.ClusterID.String(), "cluster "+epoch.ClusterID.String()+" of the epoch", "I1")
	}
	if t, dead := a.store.finalTomb(in.ClusterID, in.MemberID); dead {
		return a.refusal("Tombstoned", fmt.Sprintf("member %s was removed %s: %s", t.MemberID, wire.Now(t.Time), t.Why), "a member that was not removed", `DESIGN "Who may drive"`)
	}
	r := a.store.slot(in.Slot)
	p, err := a.rt.Process(Name(in.Slot))
	if err != nil {
		return err
	}
	if p.State != wire.ProcDown {
		return a.startRunning(in, r, p)
	}
	if r.Assigned != in.MemberID {
		r.LateRestarts = 0
	}
	if err := a.checkDirectory(ctx, in, &r); err != nil {
		return err
	}
	if spec == nil {
		return a.refusal("NoSpec", "no desired spec on this node", "one, written before anything is started", `DESIGN "Desired spec"`)
	}
	if err := a.render(ctx, *spec, epoch, in, &r); err != nil {
		return err
	}
	r.Wanted, r.Parked, r.Restart = true, "", nil
	r.Assigned, r.ClusterID = in.MemberID, in.ClusterID
	if err := a.store.setSlot(in.Slot, r); err != nil {
		return err
	}
	return a.rt.Start(Name(in.Slot), a.argv(in.Slot, r))
}

// startRunning is a start of what runs already: the same identity is done.
func (a *Agent) startRunning(in wire.StartRequest, r slotRecord, p wire.Process) error {
	found := fmt.Sprintf("pid %d runs as member %s", p.PID, r.Assigned)
	if r.Parked != "" {
		return a.refusal("StillStopping", found+" and was parked: "+r.Parked, "its end", `DESIGN "Lock and gate"`)
	}
	if r.Assigned != in.MemberID {
		return a.refusal("WrongIdentity", found, "member "+in.MemberID.String(), "CASES L6")
	}
	if r.Wanted {
		return nil
	}
	r.Wanted = true
	if err := a.store.setSlot(in.Slot, r); err != nil {
		return err
	}
	return a.rt.Start(Name(in.Slot), a.argv(in.Slot, r))
}

// checkDirectory lets only absent, empty and whole directories start, each
// under the identity it may have (DESIGN "Directory classes").
func (a *Agent) checkDirectory(ctx context.Context, in wire.StartRequest, r *slotRecord) error {
	info, err := a.classes.get(ctx, in.Slot)
	if err != nil {
		return err
	}
	found := info.Dir + ": " + info.Identity()
	switch info.Class {
	case wire.ClassWhole:
		if info.MemberID != in.MemberID || differ(info.ClusterID, in.ClusterID) {
			return a.refusal("WrongIdentity", found, fmt.Sprintf("member %s of cluster %s", in.MemberID, in.ClusterID), "CASES L3")
		}
		r.Recorded = true
		return nil
	case wire.ClassAbsent, wire.ClassEmpty:
		if r.Recorded && r.Assigned == in.MemberID {
			return a.refusal("EmptyButRecorded", fmt.Sprintf("data dir %s but node was member %s of cluster %s", info.Class, r.Assigned, r.ClusterID),
				"its filesystem mounted; if the data is truly gone, the member removed and the node added anew", "CASES L4")
		}
		if in.InitialCluster == "" {
			return a.refusal("NothingToStart", found, "a directory to go on with, or an initial cluster to join", "")
		}
		r.Recorded = false
		return a.enoughDisk(in.NeedsBytes)
	case wire.ClassRunning:
		return a.refusal("Locked", info.Reason, "no process on the directory", "CASES L6")
	case wire.ClassPart:
		return a.refusal("PartDirectory", found, "a whole directory, or none: retire this one first", `DESIGN "Directory classes"`)
	case wire.ClassForeign:
		return a.refusal("ForeignFiles", found, "an etcd data directory, or none", `DESIGN "Directory classes"`)
	}
	return fmt.Errorf("%s: class %q", info.Dir, info.Class)
}

func (a *Agent) render(ctx context.Context, spec wire.Spec, epoch wire.Epoch, in wire.StartRequest, r *slotRecord) error {
	start := member.StartInfo{Epoch: epoch.Number, State: member.StateExisting, InitialCluster: in.InitialCluster}
	if spec.EtcdBinary != "" {
		v, err := member.BinaryVersion(ctx, spec.EtcdBinary)
		if err != nil {
			return err
		}
		start.EtcdVersion = v
	}
	args, err := member.Args(a.id, spec, in.Slot, start)
	if err != nil {
		return a.refusal("BadInitialCluster", err.Error(), "every member once, by name and URL", "CASES M13")
	}
	r.Args, r.Binary = args, spec.EtcdBinary
	return nil
}

// sameMember refuses a request about another member than the slot's.
func (a *Agent) sameMember(in wire.SlotRequest, r slotRecord) error {
	if in.MemberID != 0 && in.MemberID == r.Assigned {
		return nil
	}
	return a.refusal("WrongIdentity", fmt.Sprintf("slot %s is member %s", in.Slot, r.Assigned), "member "+in.MemberID.String(), "LESSONS: members are IDs")
}

// slotStop parks the slot, then signals: SIGTERM now, SIGKILL after the grace.
// It returns right after the signal; whether others hold quorum is the driver's to know.
func (a *Agent) slotStop(_ context.Context, in wire.SlotRequest) (wire.Reply, error) {
	what := fmt.Sprintf("stop %s, member %s", in.Slot, in.MemberID)
	return ok(), a.act(in.Act, "StopMember", what, func(context.Context) error {
		unlock, err := a.slotLocked(in.Slot)
		if err != nil {
			return err
		}
		defer unlock()
		r := a.store.slot(in.Slot)
		if err := a.sameMember(in, r); err != nil {
			return err
		}
		if r.Parked == "" {
			r.Parked = fmt.Sprintf("stopped %s by %s: %s", wire.Now(a.now()), a.holderName(in.Act), in.Reason)
			r.Wanted, r.Restart = false, nil
			if err := a.store.setSlot(in.Slot, r); err != nil {
				return err
			}
		}
		return a.rt.Stop(Name(in.Slot))
	})
}

// slotRestart restarts a late member as it is, once: counted and intended
// durably before the signal, so that an agent that dies in between finishes
// the same restart. It returns when the new process was started.
func (a *Agent) slotRestart(_ context.Context, in wire.SlotRequest) (wire.Reply, error) {
	what := fmt.Sprintf("restart %s, member %s", in.Slot, in.MemberID)
	return ok(), a.act(in.Act, "RestartLateMember", what, func(context.Context) error {
		unlock, err := a.slotLocked(in.Slot)
		if err != nil {
			return err
		}
		defer unlock()
		r := a.store.slot(in.Slot)
		if err := a.sameMember(in, r); err != nil {
			return err
		}
		p, err := a.rt.Process(Name(in.Slot))
		if err != nil {
			return err
		}
		if !r.Wanted || p.State == wire.ProcDown {
			return a.refusal("NotRunning", fmt.Sprintf("slot %s wanted %t, process %s", in.Slot, r.Wanted, p.State), "a running member", "")
		}
		r.LateRestarts++
		r.Restart = intentFor(p.PID)
		if err := a.store.setSlot(in.Slot, r); err != nil {
			return err
		}
		return a.finishRestart(in.Slot)
	})
}

// finishRestart ends the process the intent names and starts the slot again;
// one that is another process already was restarted. Caller holds the slot.
func (a *Agent) finishRestart(slot wire.Slot) error {
	r := a.store.slot(slot)
	p, err := a.rt.Process(Name(slot))
	if err != nil {
		return err
	}
	if p.State != wire.ProcDown && r.Restart.names(p.PID) {
		if err := a.rt.Stop(Name(slot)); err != nil {
			return err
		}
		if err := a.awaitDown(slot); err != nil {
			return err
		}
	}
	r.Restart = nil
	return errors.Join(a.rt.Start(Name(slot), a.argv(slot, r)), a.store.setSlot(slot, r))
}

func (a *Agent) awaitDown(slot wire.Slot) error {
	for end := time.Now().Add(endWait); ; time.Sleep(5 * time.Millisecond) {
		down, err := a.rt.Down(Name(slot))
		if err == nil && down {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(err, fmt.Errorf("%s has not ended within %s", slot, endWait))
		}
	}
}

// slotRetire moves a stopped slot's directory to the attic, under its lock.
// The slot stays parked, with the reason, until a driver starts it anew.
func (a *Agent) slotRetire(_ context.Context, in wire.SlotRequest) (out wire.RetireReply, err error) {
	what := fmt.Sprintf("retire %s, member %s", in.Slot, in.MemberID)
	err = a.act(in.Act, "RetireDirectory", what, func(ctx context.Context) error {
		unlock, err := a.slotLocked(in.Slot)
		if err != nil {
			return err
		}
		defer unlock()
		out.Attic, err = a.retire(ctx, in)
		return err
	})
	out.Reply = ok()
	return out, err
}

func (a *Agent) retire(ctx context.Context, in wire.SlotRequest) (string, error) {
	r := a.store.slot(in.Slot)
	if down, err := a.rt.Down(Name(in.Slot)); err != nil {
		return "", err
	} else if r.Wanted && !down {
		return "", a.refusal("StillWanted", "slot "+string(in.Slot)+" is kept running", "a stopped slot", "I3")
	}
	key, err := fingerprint(a.id.SlotDir(in.Slot))
	if err != nil {
		return "", err
	}
	info, known := a.classes.get(ctx, in.Slot) // reading takes long; the last look has most likely done it
	lock, err := datadir.TryLock(a.id.SlotLock(in.Slot))
	var held *datadir.Held
	if errors.As(err, &held) {
		return "", a.refusal("StillRunning", held.Error(), "a free lock", "CASES L6")
	}
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if now, err := fingerprint(a.id.SlotDir(in.Slot)); err != nil || now != key || known != nil || info.Class == wire.ClassRunning {
		if info, err = datadir.ReadIsolated(ctx, a.exe, a.id.SlotDir(in.Slot)); err != nil {
			return "", err
		}
	}
	if info.Class == wire.ClassAbsent && info.MemberID == 0 {
		info.MemberID = in.MemberID // done before: find its entry
	}
	if info.MemberID != in.MemberID && !(info.MemberID == 0 && r.Assigned == in.MemberID) {
		return "", a.refusal("WrongIdentity", info.Dir+": "+info.Identity(), "member "+in.MemberID.String(), "I3")
	}
	if r.Wanted { // its process cannot start, or no longer; now nothing can start it
		r.Wanted, r.Restart, r.Parked = false, nil, fmt.Sprintf("retired %s: %s", wire.Now(a.now()), in.Reason)
		if err := errors.Join(a.store.setSlot(in.Slot, r), a.rt.Stop(Name(in.Slot))); err != nil {
			return "", err
		}
	}
	a.atticMu.Lock()
	defer a.atticMu.Unlock()
	attic, err := datadir.Retire(lock, a.id, in.Slot, info, in.Reason, a.now)
	if err != nil || r.Assigned != in.MemberID {
		return attic, err
	}
	next := slotRecord{Parked: fmt.Sprintf("retired %s to %s: %s", wire.Now(a.now()), attic, in.Reason)}
	return attic, a.store.setSlot(in.Slot, next)
}

// resume takes up what is wanted and what was begun; processes that run are adopted.
func (a *Agent) resume() {
	if err := a.rt.Start(NameProxy, command(a.id, a.exe, NameProxy, "", nil)); err != nil {
		a.log.Error("proxy not started", "error", err)
	}
	for _, slot := range bothSlots {
		r := a.store.slot(slot)
		p, err := a.rt.Process(Name(slot))
		switch {
		case err != nil:
		case r.Restart != nil:
			a.work.Go(func() {
				a.slotMu[slot].Lock()
				defer a.slotMu[slot].Unlock()
				if err := a.finishRestart(slot); err != nil {
					a.log.Error("restart begun earlier not finished", "slot", slot, "error", err)
				}
			})
		case r.Parked != "" && p.State != wire.ProcDown:
			err = a.rt.Stop(Name(slot)) // parked, and the agent died before its signal
		case r.Wanted:
			err = a.rt.Start(Name(slot), a.argv(slot, r))
		}
		if err != nil {
			a.log.Error("slot not taken up", "slot", slot, "error", err)
		}
	}
}

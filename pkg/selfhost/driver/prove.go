package driver

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/pivot"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// proveTries bounds how often "compacted" or "future revision" is answered by a
// new look; after that it is a difference, not a retry for ever.
const proveTries = 5

type hashed struct {
	node string
	slot wire.Slot
	wire.HashReply
	err error
}

// proveHashes compares HashKV of every serving voter at one revision: above the
// highest compacted, at or below the lowest current one (a learner refuses the
// call). Hashes of differently compacted members are not comparable, etcd
// hashes only what lies above the compaction (etcd server/storage/mvcc/hash.go).
func (d *Driver) proveHashes(ctx context.Context, v *View) error {
	who, rev := provers(v)
	if len(who) == 0 {
		return fmt.Errorf("no voter serves, so none can be proved")
	}
	var wg sync.WaitGroup
	for i := range who {
		wg.Go(func() {
			h := &who[i]
			h.HashReply, h.err = d.client.Hash(ctx, d.addr(v, h.node), wire.HashRequest{Slot: h.slot, Revision: rev})
		})
	}
	wg.Wait()
	differ, err := compare(who, rev)
	if err != nil {
		d.proveFails++
		if d.proveFails < proveTries {
			return err
		}
		differ = err.Error()
	}
	d.proveFails = 0
	p := pivot.Proof{Differ: differ}
	if differ == "" {
		for _, h := range who {
			p.Members = append(p.Members, pivot.MemberID(h.MemberID))
		}
		sort.Slice(p.Members, func(i, j int) bool { return p.Members[i] < p.Members[j] })
		d.log.Info("hashes are equal", "revision", rev, "members", len(who), "hash", who[0].Hash)
	}
	d.proof, d.proofEpoch = p, v.Epoch
	return nil
}

// provers are the serving voters, and the lowest revision among them.
func provers(v *View) (who []hashed, rev int64) {
	for _, m := range v.State.Voters() {
		nv, sl := v.SlotOfMember(wire.ID(m.ID))
		if nv == nil || sl.Etcd == nil || m.Serves != pivot.Yes {
			continue
		}
		who = append(who, hashed{node: nv.Ref.Name, slot: sl.Slot})
		if rev == 0 || sl.Etcd.Revision < rev {
			rev = sl.Etcd.Revision
		}
	}
	return who, rev
}

// compare returns what differs in words, or an error where the answers cannot be compared.
func compare(who []hashed, rev int64) (differ string, err error) {
	var rows []string
	for _, h := range who {
		switch {
		case h.err != nil:
			return "", fmt.Errorf("%s: %w", h.node, h.err)
		case !h.OK:
			return "", fmt.Errorf("%s cannot hash revision %d: %s", h.node, rev, h.Error)
		}
		rows = append(rows, fmt.Sprintf("%s/%s %08x", h.node, h.slot, h.Hash))
	}
	for _, h := range who[1:] {
		if h.CompactRevision != who[0].CompactRevision {
			return "", fmt.Errorf("%s is compacted at %d, %s at %d: hashes not comparable", h.node, h.CompactRevision, who[0].node, who[0].CompactRevision)
		}
	}
	for _, h := range who[1:] {
		if h.Hash != who[0].Hash {
			return fmt.Sprintf("HashKV at revision %d, compacted at %d: %s", rev, h.CompactRevision, strings.Join(rows, ", ")), nil
		}
	}
	return "", nil
}

// proofFor is the proof as far as it still speaks of this list and epoch.
func (d *Driver) proofFor(v *View) pivot.Proof {
	if d.proofEpoch.Number != v.Epoch.Number || d.proofEpoch.ClusterID != v.Epoch.ClusterID {
		return pivot.Proof{}
	}
	p := pivot.Proof{Differ: d.proof.Differ}
	for _, id := range d.proof.Members {
		for _, m := range v.Members {
			if m.ID == wire.ID(id) {
				p.Members = append(p.Members, id)
			}
		}
	}
	return p
}

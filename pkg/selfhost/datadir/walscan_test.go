package datadir

import (
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// writer writes a log as etcd's storage does, record by record.
type writer struct {
	t *testing.T
	w *wal.WAL
}

func (w writer) save(term, commit uint64, entries ...[2]uint64) {
	var es []*raftpb.Entry
	for _, e := range entries {
		es = append(es, &raftpb.Entry{Index: &e[0], Term: &e[1]})
	}
	if err := w.w.Save(&raftpb.HardState{Term: &term, Commit: &commit, Vote: proto.Uint64(1)}, es); err != nil {
		w.t.Fatal(err)
	}
}

func (w writer) snapshot(index, term uint64) {
	cs := &raftpb.ConfState{Voters: []uint64{1}}
	if err := w.w.SaveSnapshot(&walpb.Snapshot{Index: &index, Term: &term, ConfState: cs}); err != nil {
		w.t.Fatal(err)
	}
}

func TestTailOfALog(t *testing.T) {
	type want struct {
		first, index, term, snap uint64
		hole                     bool
	}
	for _, c := range []struct {
		name  string
		write func(writer)
		want  want
	}{
		{"plain", func(w writer) { w.save(1, 2, [2]uint64{1, 1}, [2]uint64{2, 1}, [2]uint64{3, 1}) }, want{first: 1, index: 3, term: 1}},
		{"uncommitted tail replaced by a new leader", func(w writer) {
			w.save(1, 1, [2]uint64{1, 1}, [2]uint64{2, 1}, [2]uint64{3, 1})
			w.save(2, 1, [2]uint64{2, 2})
		}, want{first: 1, index: 2, term: 2}},
		{"own snapshot changes nothing", func(w writer) {
			w.save(1, 3, [2]uint64{1, 1}, [2]uint64{2, 1}, [2]uint64{3, 1})
			w.snapshot(2, 1)
		}, want{first: 1, index: 3, term: 1, snap: 2}},
		{"received snapshot voids the stale entries above it", func(w writer) {
			w.save(1, 1, [2]uint64{1, 1}, [2]uint64{2, 1}, [2]uint64{3, 1}, [2]uint64{4, 1})
			w.snapshot(3, 2)
			w.save(2, 3)
		}, want{index: 3, term: 2, snap: 3}},
		{"entries after a received snapshot", func(w writer) {
			w.save(1, 1, [2]uint64{1, 1})
			w.snapshot(9, 2)
			w.save(2, 10, [2]uint64{10, 2}, [2]uint64{11, 2})
		}, want{first: 10, index: 11, term: 2, snap: 9}},
		{"snapshot received, killed before its commit was written", func(w writer) {
			w.save(1, 1, [2]uint64{1, 1}, [2]uint64{2, 1})
			w.snapshot(9, 2)
		}, want{first: 1, index: 2, term: 1}},
		{"hole", func(w writer) { w.save(1, 1, [2]uint64{1, 1}, [2]uint64{4, 1}) }, want{first: 1, index: 4, term: 1, hole: true}},
		{"hole below an own snapshot does not matter", func(w writer) {
			w.save(1, 5, [2]uint64{1, 1}, [2]uint64{4, 1}, [2]uint64{5, 1})
			w.snapshot(5, 1)
		}, want{first: 1, index: 5, term: 1, snap: 5}},
		{"hole after a snapshot", func(w writer) {
			w.snapshot(9, 2)
			w.save(2, 12, [2]uint64{12, 2})
		}, want{first: 12, index: 12, term: 2, snap: 9, hole: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "wal")
			md, _ := proto.Marshal(&etcdserverpb.Metadata{NodeID: proto.Uint64(1), ClusterID: proto.Uint64(2)})
			w, err := wal.Create(zap.NewNop(), dir, md)
			if err != nil {
				t.Fatal(err)
			}
			c.write(writer{t, w})
			w.Close()
			l, err := scanWAL(dir)
			if err != nil {
				t.Fatal(err)
			}
			snap := l.newest().GetIndex()
			got := want{l.tail.first, l.tail.index, l.tail.term, snap, l.tail.hole(snap) != ""}
			if got != c.want || l.member != 1 || l.cluster != 2 {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestParseLocks(t *testing.T) {
	const text = `1: FLOCK  ADVISORY  WRITE 11 fd:01:42 0 EOF
1: -> FLOCK  ADVISORY  WRITE 12 fd:01:43 0 EOF
2: POSIX  ADVISORY  WRITE 13 fd:01:43 0 EOF
3: FLOCK  ADVISORY  READ 14 fd:01:43 0 EOF
4: FLOCK  ADVISORY  WRITE 15 fd:01:43 0 EOF
`
	if got := parseLocks(text, "fd:01:43", "WRITE"); got != 15 {
		t.Errorf("writer %d, want 15", got)
	}
	if got := parseLocks(text, "fd:01:43", "READ"); got != 14 {
		t.Errorf("reader %d, want 14", got)
	}
	if got := parseLocks(text, "fd:01:44", "WRITE"); got != 0 {
		t.Errorf("nobody's: %d, want 0", got)
	}
}

// A reader's lock keeps an etcd from starting, but is no running etcd.
func TestReadersAreNoHolders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.lock")
	for range 2 {
		f, err := shareLock(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	if pid, err := HolderPID(path); pid != 0 || err != nil {
		t.Errorf("holder %d, %v; want none", pid, err)
	}
	if _, err := TryLock(path); err == nil {
		t.Error("an exclusive lock beside readers")
	}
}

package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// damage is an error that says the bytes are wrong, as opposed to unreadable.
type damage struct{ error }

func damaged(format string, args ...any) error { return damage{fmt.Errorf(format, args...)} }

// log is one pass over all records of a WAL.
type walLog struct {
	files     []string // *.wal, in order
	broken    []string // *.wal.broken, left by etcd's own repair
	metadata  []byte
	member    uint64
	cluster   uint64
	hard      raftpb.HardState
	snaps     []*walpb.Snapshot
	tail      tail
	undo      *tail           // the tail before the last received snapshot, should that turn out invalid
	selfAdded uint64          // index of the last entry that adds this member, 0 none
	added     map[uint64]bool // every member that an entry or a snapshot record ever named
	nameless  bool            // a snapshot record does not name its members (before etcd 3.5)
	torn      bool
	lastWrite time.Time
}

// tail is what of the entries counts: consecutive, from first to last.
type tail struct {
	first, index, term uint64
	runs               []run  // where terms begin, by index
	gapFrom, gapTo     uint64 // the last hole between entries, 0 none
}

type run struct{ from, term uint64 }

// termAt is the term of a kept entry, 0 where it is not in the tail.
func (t *tail) termAt(index uint64) uint64 {
	if t.first == 0 || index < t.first || index > t.index {
		return 0
	}
	n := sort.Search(len(t.runs), func(i int) bool { return t.runs[i].from > index })
	return t.runs[n-1].term
}

// append adds an entry; one at or below the last replaces it and all above, as in raft.
func (t *tail) append(index, term uint64) {
	switch {
	case t.first == 0 || index < t.first:
		t.first, t.runs = index, nil
	case index > t.index+1:
		t.gapFrom, t.gapTo = t.index+1, index-1
	}
	for len(t.runs) > 0 && t.runs[len(t.runs)-1].from >= index {
		t.runs = t.runs[:len(t.runs)-1]
	}
	if n := len(t.runs); n == 0 || t.runs[n-1].term != term {
		t.runs = append(t.runs, run{index, term})
	}
	t.index, t.term = index, term
}

// scanWAL reads a WAL directory to its end, read-only and without locks. A
// missing directory is a log without files. Errors: damage where the bytes
// are wrong, any other where they could not be read.
func scanWAL(dir string) (*walLog, error) {
	l := &walLog{added: map[uint64]bool{}}
	if err := l.list(dir); err != nil || len(l.files) == 0 {
		return l, err
	}
	readers := make([]fileutil.FileReader, 0, len(l.files))
	for _, name := range l.files {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return l, err
		}
		defer f.Close()
		readers = append(readers, fileutil.NewFileReader(f))
	}
	return l, l.decode(wal.NewDecoder(readers...))
}

func (l *walLog) list(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var next uint64
	for _, e := range entries { // sorted by name, hence by sequence
		name := e.Name()
		if strings.HasSuffix(name, ".broken") {
			l.broken = append(l.broken, name)
		}
		if !strings.HasSuffix(name, ".wal") {
			continue
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		if st.ModTime().After(l.lastWrite) {
			l.lastWrite = st.ModTime()
		}
		var seq, index uint64
		if n, err := fmt.Sscanf(name, "%016x-%016x.wal", &seq, &index); n != 2 || err != nil {
			return damaged("log file %s has no name of etcd's", name)
		}
		if len(l.files) > 0 && seq != next {
			return damaged("log file %s follows %s: files between them are missing", name, l.files[len(l.files)-1])
		}
		next = seq + 1
		l.files = append(l.files, name)
	}
	return nil
}

// decode follows wal.ValidSnapshotEntries and WAL.ReadAll of etcd, except that
// it keeps apart what those swallow: a torn end, and entries that a received
// snapshot made void.
func (l *walLog) decode(d wal.Decoder) error {
	file := 0 // each file begins with one CRC record
	rec := &walpb.Record{}
	var err error
	for err = d.Decode(rec); err == nil; err = d.Decode(rec) {
		if rec.GetType() == wal.CrcType {
			file++
			if crc := d.LastCRC(); crc != 0 && rec.Validate(crc) != nil {
				return damaged("log file %s does not continue its predecessor: %w", l.name(file), wal.ErrCRCMismatch)
			}
			d.UpdateCRC(rec.GetCrc())
			continue
		}
		if err := l.record(rec); err != nil {
			return damaged("log file %s, offset %d: %w", l.name(file), d.LastOffset(), err)
		}
	}
	l.settle()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF) && file == len(l.files):
		l.torn = true // in the last file, etcd cuts it off (wal.Repair)
		return nil
	case unreadable(err):
		return err
	}
	return damaged("log file %s is damaged after entry %d/%d, offset %d: %w", l.name(file), l.tail.term, l.tail.index, d.LastOffset(), err)
}

func (l *walLog) name(file int) string { return l.files[max(0, min(file, len(l.files))-1)] }

func (l *walLog) record(rec *walpb.Record) error {
	switch rec.GetType() {
	case wal.MetadataType:
		return l.meta(rec.Data)
	case wal.EntryType:
		e := &raftpb.Entry{}
		if err := proto.Unmarshal(rec.Data, e); err != nil {
			return err
		}
		l.tail.append(e.GetIndex(), e.GetTerm())
		return l.confChange(e)
	case wal.StateType:
		return proto.Unmarshal(rec.Data, &l.hard)
	case wal.SnapshotType:
		s := &walpb.Snapshot{}
		if err := proto.Unmarshal(rec.Data, s); err != nil {
			return err
		}
		l.snapshot(s)
		return nil
	}
	return fmt.Errorf("record type %d is unknown", rec.GetType())
}

func (l *walLog) meta(data []byte) error {
	if l.metadata != nil {
		if !bytes.Equal(l.metadata, data) {
			return wal.ErrMetadataConflict
		}
		return nil
	}
	m := &etcdserverpb.Metadata{}
	if err := proto.Unmarshal(data, m); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	l.metadata = bytes.Clone(data)
	l.member, l.cluster = m.GetNodeID(), m.GetClusterID()
	return nil
}

func (l *walLog) confChange(e *raftpb.Entry) error {
	if e.GetType() != raftpb.EntryConfChange {
		return nil
	}
	c := &raftpb.ConfChange{}
	if err := proto.Unmarshal(e.Data, c); err != nil {
		return fmt.Errorf("membership change at entry %d: %w", e.GetIndex(), err)
	}
	adds := c.GetType() == raftpb.ConfChangeAddNode || c.GetType() == raftpb.ConfChangeAddLearnerNode
	if adds {
		l.added[c.GetNodeId()] = true
	}
	if adds && c.GetNodeId() == l.member {
		l.selfAdded = e.GetIndex()
	}
	return nil
}

// snapshot notes a snapshot record. One whose entry is in the log was taken
// here and changes nothing. Any other was received from a leader: every entry
// before it is void, though still in the file (LESSONS, "stale entries").
func (l *walLog) snapshot(s *walpb.Snapshot) {
	l.snaps = append(l.snaps, s)
	cs := s.GetConfState()
	l.nameless = l.nameless || s.GetIndex() != 0 && cs == nil
	for _, ids := range [][]uint64{cs.GetVoters(), cs.GetLearners(), cs.GetVotersOutgoing(), cs.GetLearnersNext()} {
		for _, id := range ids {
			l.added[id] = true
		}
	}
	if s.GetIndex() == 0 || l.tail.termAt(s.GetIndex()) == s.GetTerm() {
		return
	}
	if s.GetIndex() < l.tail.first {
		return // older than the oldest kept log file
	}
	before := l.tail
	l.undo = &before
	l.tail = tail{index: s.GetIndex(), term: s.GetTerm()}
}

// hole names entries that are missing above snapshot index snap, the only ones
// that matter; empty if the tail follows it without one.
func (t *tail) hole(snap uint64) string {
	if t.gapTo > snap {
		return fmt.Sprintf("log entries %d to %d are missing", max(t.gapFrom, snap+1), t.gapTo)
	}
	if t.first > snap+1 {
		return fmt.Sprintf("log entries %d to %d are missing", snap+1, t.first-1)
	}
	return ""
}

// newest is the newest snapshot record at or below the commit; only those are
// valid (etcd's wal.ValidSnapshotEntries). Nil: none, not even the first, empty one.
func (l *walLog) newest() *walpb.Snapshot {
	for i := len(l.snaps) - 1; i >= 0; i-- {
		if l.snaps[i].GetIndex() <= l.hard.GetCommit() {
			return l.snaps[i]
		}
	}
	return nil
}

// settle takes back the last received snapshot if its commit was never written:
// the crash came between the two, and etcd goes on from the state before.
func (l *walLog) settle() {
	if l.undo != nil && l.tail.first == 0 && l.tail.index > l.hard.GetCommit() {
		l.tail = *l.undo
	}
}

// unreadable tells errors of the system (permission, I/O) from wrong bytes.
func unreadable(err error) bool {
	var pe *fs.PathError
	var se *os.SyscallError
	return errors.As(err, &pe) || errors.As(err, &se)
}

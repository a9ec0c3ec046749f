package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Read classifies the directory at dir, which no process may be writing: the
// caller holds its lock (shared or exclusive). It writes nothing. An error
// means unreadable, with its cause, and says nothing about the class (I10).
// It recovers from panics and memory faults of the libraries beneath, but an
// exit inside them would be the caller's: outside tests use ReadIsolated.
func Read(dir string) (info Info, err error) {
	info = Info{V: wire.V, Dir: dir}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			info = Info{V: wire.V, Dir: dir}
			err = fmt.Errorf("read %s: the reader failed: %v", dir, p)
		}
	}()
	return read(info)
}

func read(info Info) (Info, error) {
	st, err := os.Stat(info.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, lerr := os.Lstat(info.Dir); lerr == nil {
			return info, fmt.Errorf("read %s: a symbolic link that leads nowhere; is the filesystem it points to mounted?", info.Dir)
		}
		return info.is(wire.ClassAbsent, ""), nil
	}
	if err != nil {
		return info, fmt.Errorf("read data directory: %w", err)
	}
	if !st.IsDir() {
		return info.is(wire.ClassForeign, "not a directory"), nil
	}
	names, err := list(info.Dir)
	if err != nil {
		return info, err
	}
	if len(names) == 0 {
		return info.is(wire.ClassEmpty, ""), nil
	}
	if !has(names, "member") {
		return foreign(info, names), nil
	}
	if len(names) > 1 {
		info.note("also holds %s, which is not etcd's", some(without(names, "member")))
	}
	return readMember(info)
}

func foreign(info Info, names []string) Info {
	if len(names) == 1 && names[0] == "lost+found" {
		return info.is(wire.ClassForeign, "only lost+found: a filesystem is mounted at the data directory itself; mount it one level higher, data lives in a sub-directory so that it can be renamed (CASES L5)")
	}
	return info.is(wire.ClassForeign, "no member directory, but %s", some(names))
}

func readMember(info Info) (Info, error) {
	dir := filepath.Join(info.Dir, "member")
	names, err := list(dir)
	if err != nil {
		return info, err
	}
	if len(names) > 0 && !has(names, "wal") && !has(names, "snap") && !has(names, "wal.tmp") {
		return info.is(wire.ClassForeign, "member directory without wal or snap, but with %s", some(names)), nil
	}
	log, logErr := scanWAL(filepath.Join(dir, "wal"))
	if logErr != nil && !isDamage(logErr) {
		return info, fmt.Errorf("read the log: %w", logErr)
	}
	snaps, err := list(filepath.Join(dir, "snap"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	db, dbErr := readDB(filepath.Join(dir, "snap", "db"))
	if dbErr != nil && !isDamage(dbErr) {
		return info, fmt.Errorf("read the database: %w", dbErr)
	}
	info.fillLog(log)
	info.fillDB(db)
	switch {
	case db.locked != 0:
		return info.is(wire.ClassRunning, "%s", otherEtcd(db.locked)), nil
	case logErr != nil:
		return info.is(wire.ClassPart, "%v", logErr), nil
	case dbErr != nil:
		return info.is(wire.ClassPart, "%v", dbErr), nil
	case len(log.files) == 0:
		return withoutLog(info, log, db, snaps), nil
	case log.metadata == nil:
		return info.is(wire.ClassPart, "the log has no metadata"), nil
	}
	return judge(info, log, db, filepath.Join(dir, "snap"))
}

func otherEtcd(pid int) string {
	if pid < 0 {
		return "another process has the database open, though the lock beside the directory is free"
	}
	return fmt.Sprintf("pid %d (%s) has the database open, though the lock beside the directory is free: an etcd that was not started by this one", pid, Cmdline(pid))
}

// withoutLog: the skeleton of an interrupted first start, or a rest.
func withoutLog(info Info, log *walLog, db *database, snaps []string) Info {
	rest := without(snaps, "db")
	if db.virgin() && len(log.broken) == 0 && !hasSnap(rest) {
		return info.is(wire.ClassEmpty, "an etcd's first start ended before its log existed; nothing was ever written")
	}
	if db.exists && !db.virgin() {
		return info.is(wire.ClassPart, "a database (index %d, revision %d) without a log", db.consistentIndex, db.revision)
	}
	return info.is(wire.ClassPart, "no log, but %s", some(append(rest, log.broken...)))
}

// judge decides between whole and part where there is a log with metadata.
func judge(info Info, log *walLog, db *database, snapDir string) (Info, error) {
	if info.Torn {
		info.note("the log's last record is cut off; etcd drops it")
	}
	if len(log.broken) > 0 {
		info.note("etcd once repaired the log and kept %s", some(log.broken))
	}
	snap := log.newest()
	if snap == nil {
		return info.is(wire.ClassPart, "the log has no snapshot record at or below its commit %d", info.HardCommit), nil
	}
	if hole := log.tail.hole(info.SnapIndex); hole != "" {
		return info.is(wire.ClassPart, "%s", hole), nil
	}
	if info.HardCommit > info.LastIndex {
		return info.is(wire.ClassPart, "the log ends at %d, below its own commit %d: data went back", info.LastIndex, info.HardCommit), nil
	}
	if !db.exists {
		return withoutDB(info), nil
	}
	if db.size == 0 {
		return info.is(wire.ClassPart, "the database is an empty file"), nil
	}
	if db.consistentIndex < info.SnapIndex {
		received, err := readDB(filepath.Join(snapDir, snapDBName(info.SnapIndex)))
		if err != nil && !isDamage(err) {
			return info, fmt.Errorf("read a received database: %w", err)
		}
		if err != nil || !received.exists || received.consistentIndex < info.SnapIndex {
			return info.is(wire.ClassPart, "database at index %d, raft snapshot at %d, and no whole %s (CASES D2)", db.consistentIndex, info.SnapIndex, snapDBName(info.SnapIndex)), nil
		}
		info.note("a received snapshot (index %d) is not yet in place of the database at %d; etcd finishes that", info.SnapIndex, db.consistentIndex)
		db = received
		info.fillDB(db)
	}
	if db.consistentIndex > info.LastIndex {
		return info.is(wire.ClassPart, "the log ends at %d, the database is at %d: data went back", info.LastIndex, db.consistentIndex), nil
	}
	if bad := info.disagree(log, db); bad != "" {
		return info.is(wire.ClassPart, "%s", bad), nil
	}
	return info.is(wire.ClassWhole, ""), nil
}

func withoutDB(info Info) Info {
	if info.SnapIndex == 0 {
		return info.is(wire.ClassWhole, "no database; the log begins at its first entry, and etcd replays it")
	}
	return info.is(wire.ClassPart, "no database, and the log alone begins only after index %d", info.SnapIndex)
}

// disagree compares the log's member with the database's list. Only a joiner
// whose log has not yet applied its own addition may be missing there.
func (i *Info) disagree(log *walLog, db *database) string {
	if i.SelfRemoved {
		i.note("its own database lists the member as removed")
		return ""
	}
	joining := log.selfAdded > db.consistentIndex || log.selfAdded == 0 && i.SnapIndex == 0
	if db.member(i.MemberID) || joining {
		return strangers(log, db)
	}
	return fmt.Sprintf("the log is member %s's, whom the database (index %d, %d members) does not list: log and database are not of one member (CASES L7)", i.MemberID, db.consistentIndex, len(db.members))
}

// strangers: a database that lists a member whom this log never knew is of another
// cluster, however well the indexes fit (CASES L7); etcd would apply the log on it.
func strangers(log *walLog, db *database) string {
	if log.nameless {
		return ""
	}
	for _, m := range db.members {
		if !log.added[uint64(m.ID)] {
			return fmt.Sprintf("the database lists member %s, whom the log never added: log and database are not of one cluster (CASES L7)", m.ID)
		}
	}
	return ""
}

func (i *Info) fillLog(l *walLog) {
	i.MemberID, i.ClusterID = wire.ID(l.member), wire.ID(l.cluster)
	i.FirstIndex, i.LastIndex, i.LastTerm = l.tail.first, l.tail.index, l.tail.term
	i.HardTerm, i.HardCommit = l.hard.GetTerm(), l.hard.GetCommit()
	if s := l.newest(); s != nil {
		i.SnapIndex, i.SnapTerm = s.GetIndex(), s.GetTerm()
	}
	i.Torn = l.torn
	i.LastWrite = l.lastWrite
}

func (i *Info) fillDB(d *database) {
	i.DBSize, i.ConsistentIndex, i.Revision, i.Members = d.size, d.consistentIndex, d.revision, d.members
	i.SelfRemoved = i.MemberID != 0 && d.removed[i.MemberID]
	if d.modTime.After(i.LastWrite) {
		i.LastWrite = d.modTime
	}
}

func isDamage(err error) bool { return errors.As(err, new(damage)) }

func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func has(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

func hasSnap(names []string) bool {
	for _, n := range names {
		if strings.HasSuffix(n, ".snap") || strings.HasSuffix(n, ".snap.db") {
			return true
		}
	}
	return false
}

func without(names []string, name string) []string {
	var out []string
	for _, n := range names {
		if n != name {
			out = append(out, n)
		}
	}
	return out
}

// some names the first few.
func some(names []string) string {
	const few = 5
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

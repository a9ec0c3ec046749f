// Package datadir says what a stopped etcd data directory is, without ever
// writing into it: its class, its identity and how far its log and database
// reach. It also owns the lock beside the directory and the move into the
// attic (DESIGN "Lock and gate", "Directory classes").
//
// How the classes are told apart:
//
//   - absent: nothing at the path. (Whether the filesystem it belongs to is
//     mounted is not visible here; the gate's record decides, CASES L4.)
//   - empty: no entry at all; or the skeleton that etcd makes before its log
//     exists (member/, member/snap/, a database without a single key, member or
//     index, member/wal.tmp). A first start or a join that is interrupted, or
//     whose peers do not answer, leaves exactly that, and nothing was ever
//     accepted into it; it must be able to start again (I8).
//   - running: an exclusive lock is held; or ours is free and the database's own
//     is not, which is an etcd started by somebody else (CASES L6).
//   - whole: log metadata readable, log consecutive from its newest valid snapshot
//     record on, database opens and is not cut off, its index neither below that
//     record nor above the log, the log's member in the database's member list. A
//     torn last record is whole and Torn: etcd repairs it (CASES D1a). A database
//     that etcd itself would replace by a received N.snap.db is whole: the crash
//     hit the installation of that snapshot and the next start finishes it. No
//     database at all is whole only where the log begins at index 1 and holds no
//     later snapshot record: etcd makes the file before the log and without
//     fsync of its directory entry, and replays all of it from the log.
//   - part: anything else of etcd's, with the reason in words.
//   - foreign: nothing of etcd's. lost+found alone is foreign, not empty: it means
//     a filesystem is mounted at the directory itself, which can then never be
//     renamed; data lives in a sub-directory of the mount (CASES L5).
//
// What cannot be read (permission, I/O) is an error, no class (I10).
package datadir

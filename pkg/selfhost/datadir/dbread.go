package datadir

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// dbWait is how long a foreign lock on the database is waited out before the
// directory counts as running.
const dbWait = 500 * time.Millisecond

// database is what is read from a bbolt file.
type database struct {
	exists          bool
	locked          int // pid of a process that has it open for writing, -1 unknown
	size            int64
	modTime         time.Time
	consistentIndex uint64
	revision        int64
	members         []wire.Member
	removed         map[wire.ID]bool
}

// virgin: no start of etcd got as far as writing anything into it.
func (d *database) virgin() bool {
	return d.consistentIndex == 0 && d.revision == 0 && len(d.members) == 0 && len(d.removed) == 0
}

// readDB reads a database that nobody writes. bbolt takes a shared lock on the
// open file while it reads and writes nothing. Errors as of scanWAL.
func readDB(path string) (*database, error) {
	d := &database{removed: map[wire.ID]bool{}}
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	d.exists, d.size, d.modTime = true, st.Size(), st.ModTime()
	if d.size == 0 {
		return d, nil // bbolt would try to initialise it
	}
	db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: dbWait})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		d.locked = lockerOf(path)
		return d, nil
	case err != nil && unreadable(err):
		return d, err
	case err != nil:
		return d, damaged("database %s does not open: %w", path, err)
	}
	defer db.Close()
	return d, db.View(d.load)
}

// load reads the few keys that matter. The size is compared first: pages beyond
// the end of the file would raise SIGBUS, which no recover() stops.
func (d *database) load(tx *bolt.Tx) error {
	if tx.Size() > d.size {
		return damaged("database is cut off: %d of %d bytes are there", d.size, tx.Size())
	}
	meta := tx.Bucket(schema.Meta.Name())
	if meta == nil {
		return nil
	}
	if v := meta.Get(schema.MetaConsistentIndexKeyName); len(v) == 8 {
		d.consistentIndex = binary.BigEndian.Uint64(v)
	}
	for _, name := range [][]byte{schema.ScheduledCompactKeyName, schema.FinishedCompactKeyName} {
		if v := meta.Get(name); len(v) >= 17 {
			d.revision = max(d.revision, mvcc.BytesToRev(v[:17]).Main)
		}
	}
	if keys := tx.Bucket(schema.Key.Name()); keys != nil {
		if k, _ := keys.Cursor().Last(); len(k) >= 17 {
			d.revision = max(d.revision, mvcc.BytesToRev(k[:17]).Main)
		}
	}
	return d.loadMembers(tx)
}

func (d *database) loadMembers(tx *bolt.Tx) error {
	if b := tx.Bucket(schema.Members.Name()); b != nil {
		err := b.ForEach(func(k, v []byte) error {
			m := membership.Member{}
			if err := json.Unmarshal(v, &m); err != nil {
				return damaged("member %q in the database: %w", k, err)
			}
			d.members = append(d.members, wire.Member{ID: wire.ID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner})
			return nil
		})
		if err != nil {
			return err
		}
	}
	sort.Slice(d.members, func(i, j int) bool { return d.members[i].ID < d.members[j].ID })
	b := tx.Bucket(schema.MembersRemoved.Name())
	if b == nil {
		return nil
	}
	return b.ForEach(func(k, _ []byte) error {
		id, err := strconv.ParseUint(string(k), 16, 64)
		if err != nil {
			return damaged("removed member %q in the database: %w", k, err)
		}
		d.removed[wire.ID(id)] = true
		return nil
	})
}

func (d *database) member(id wire.ID) bool {
	for _, m := range d.members {
		if m.ID == id {
			return true
		}
	}
	return false
}

// lockerOf finds who has the database open for writing; -1 if unknown.
func lockerOf(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return -1
	}
	defer f.Close()
	if pid, err := kernelHolder(f, "WRITE"); err == nil && pid > 0 {
		return pid
	}
	return -1
}

// snapDBName is the name etcd gives a database received as raft snapshot.
func snapDBName(index uint64) string { return fmt.Sprintf("%016x.snap.db", index) }

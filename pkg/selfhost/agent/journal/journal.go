// Package journal keeps what was done on a node: one line per step, JSON and a
// checksum, appended and synced. A line torn by a power cut is the last one and
// is cut off at open; damage before it is an error that names the line (I10).
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// DefaultMaxBytes is the size at which a journal is set aside and a new one begun.
const DefaultMaxBytes = 64 << 20

// Kept is how many of the last entries Last can return.
const Kept = 2048

const crcLen = 8 // hexadecimal digits

var table = crc32.MakeTable(crc32.Castagnoli)

// Journal is an open journal; safe for concurrent use.
type Journal struct {
	// MaxBytes is the size after which the next entry opens a new file; the old
	// one is kept as journal-SEQ.jsonl, SEQ being its last entry's.
	MaxBytes int64
	// Keep is how many journals that were set aside stay at a rotation.
	Keep int
	// Now is the clock of entries.
	Now func() time.Time

	mu     sync.Mutex
	path   string
	node   string
	file   *os.File
	size   int64 // bytes of whole, synced lines
	seq    uint64
	last   []wire.JournalEntry
	broken error // a failed sync or repair: what is on disk is unknown
}

// Open opens or creates the journal at path and cuts off a torn last line.
func Open(path, node string) (*Journal, error) {
	j := &Journal{MaxBytes: DefaultMaxBytes, Keep: DefaultKeep, Now: time.Now, path: path, node: node}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := j.load(data); err != nil {
		return nil, err
	}
	if len(j.last) == 0 {
		if err := j.seqFromOld(); err != nil {
			return nil, err
		}
	}
	if err := j.openFile(); err != nil {
		return nil, err
	}
	if err := j.cut(); err != nil {
		j.file.Close()
		return nil, err
	}
	return j, nil
}

// load checks every line and keeps the last entries; size stops before a torn tail.
func (j *Journal) load(data []byte) error {
	for n, rest := 1, data; len(rest) > 0; n++ {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		e, err := parse(line)
		var newer *newerError
		if errors.As(err, &newer) { // whole, and not ours to cut off
			return fmt.Errorf("journal %s line %d: %w", j.path, n, err)
		}
		if err != nil || !whole {
			if anyWhole(after) {
				return fmt.Errorf("journal %s line %d: %w; what follows it is intact, so this is not a torn write: move the file aside and keep it for inquiry", j.path, n, err)
			}
			return nil
		}
		j.size += int64(len(line)) + 1
		j.keep(e)
		rest = after
	}
	return nil
}

func anyWhole(data []byte) bool {
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if _, err := parse(line); err == nil {
			return true
		}
	}
	return false
}

func (j *Journal) keep(e wire.JournalEntry) {
	j.seq = e.Seq
	if len(j.last) >= 2*Kept {
		j.last = append([]wire.JournalEntry(nil), j.last[len(j.last)-Kept:]...)
	}
	j.last = append(j.last, e)
}

// seqFromOld goes on counting after a rotation that a crash left without a first entry.
func (j *Journal) seqFromOld() error {
	files, err := old(filepath.Dir(j.path))
	if err == nil && len(files) > 0 {
		j.seq = max(j.seq, files[0].LastSeq)
	}
	return err
}

func (j *Journal) openFile() error {
	f, err := os.OpenFile(j.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := durable.SyncDir(filepath.Dir(j.path)); err != nil {
		f.Close()
		return err
	}
	j.file = f
	return nil
}

// cut removes what stands after the last whole line.
func (j *Journal) cut() error {
	st, err := j.file.Stat()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if st.Size() == j.size {
		return nil
	}
	if err := j.file.Truncate(j.size); err != nil {
		return fmt.Errorf("journal: cut off a torn line: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// newerError is an entry that a newer release wrote.
type newerError struct{ v int }

func (e *newerError) Error() string {
	return fmt.Sprintf("format version %d, this binary reads 1 to %d; use the release that wrote it or a newer one", e.v, wire.V)
}

func parse(line []byte) (e wire.JournalEntry, err error) {
	at := len(line) - crcLen - 1
	if at < 2 || line[at] != ' ' {
		return e, errors.New("no checksum at its end")
	}
	want, err := strconv.ParseUint(string(line[at+1:]), 16, 32)
	if err != nil {
		return e, fmt.Errorf("checksum %q is not hexadecimal", line[at+1:])
	}
	if got := crc32.Checksum(line[:at], table); got != uint32(want) {
		return e, fmt.Errorf("checksum is %08x, its bytes give %08x", want, got)
	}
	if err := json.Unmarshal(line[:at], &e); err != nil {
		return e, err
	}
	if e.V > wire.V {
		return e, &newerError{e.V}
	}
	return e, nil
}

// Append writes e durably; V, Seq, Time and Node are filled in. After an error
// the entry is not in the journal; after a failed sync nothing more is
// accepted until the journal is opened again, since what the disk holds is unknown.
func (j *Journal) Append(e wire.JournalEntry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return fmt.Errorf("journal is closed to writes since an earlier error: %w", j.broken)
	}
	if j.size >= j.MaxBytes && j.seq > 0 {
		if err := j.rotate(); err != nil {
			return err
		}
		if err := j.bound(); err != nil {
			return err
		}
	}
	return j.write(e)
}

// write appends e. Caller holds j.mu.
func (j *Journal) write(e wire.JournalEntry) error {
	e.V, e.Seq, e.Time, e.Node = wire.V, j.seq+1, j.Now().UTC(), j.node
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	b = fmt.Appendf(b, " %08x\n", crc32.Checksum(b, table))
	if _, err := j.file.Write(b); err != nil {
		if cut := j.cut(); cut != nil {
			j.broken = cut
		}
		return fmt.Errorf("journal: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		j.broken = err
		return fmt.Errorf("journal: %w", err)
	}
	j.size += int64(len(b))
	j.keep(e)
	return nil
}

func (j *Journal) rotate() error {
	if err := durable.Rename(j.path, filepath.Join(filepath.Dir(j.path), oldName(j.seq))); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.file.Close() //nolint:errcheck // synced after every line
	j.size = 0
	if err := j.openFile(); err != nil {
		j.broken = err
		return err
	}
	return nil
}

// Last returns the last n entries (all that are kept when n <= 0), oldest first.
func (j *Journal) Last(n int) []wire.JournalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n <= 0 || n > Kept {
		n = Kept
	}
	return append([]wire.JournalEntry(nil), j.last[max(0, len(j.last)-n):]...)
}

// Close closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = os.ErrClosed
	return j.file.Close()
}

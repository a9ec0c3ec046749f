package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Format is one kind of stored file: the version that this release writes, and
// how a file of each older version becomes one of the next.
type Format struct {
	// V is the version written now; a higher one is refused by name.
	V int
	// Up[n] changes a decoded document of version n into one of n+1 in place;
	// numbers are json.Number. The field "v" is set by the caller.
	Up map[int]func(doc map[string]any) error
}

// Read reads path into v, an older version as what it becomes; the file stays
// as it is. Errors are those of ReadJSON.
func (f Format) Read(path string, v any) error {
	b, _, err := f.read(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Migrate rewrites path in the version of this release, where it is of an older
// one. The old file is kept beside it, byte for byte, as PATH.vN, durably before
// the new one takes its place; kept names it, "" where nothing was to be done. A
// missing file is fs.ErrNotExist. After a crash or an error the file is whole in
// one of the two versions, and the same call finishes.
func (f Format) Migrate(path string) (kept string, err error) {
	b, from, err := f.read(path)
	if err != nil || from == f.V {
		return "", err
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if kept, err = keepOld(path, from, old); err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return "", fmt.Errorf("encode %s: %w", path, err)
	}
	out.WriteByte('\n')
	return kept, WriteFile(path, out.Bytes(), 0o600)
}

// keepOld writes old as path.vN, or path.vN-2 and so on where another content
// has that name: an old copy is never replaced.
func keepOld(path string, from int, old []byte) (string, error) {
	base := fmt.Sprintf("%s.v%d", path, from)
	for i, name := 2, base; ; i, name = i+1, fmt.Sprintf("%s-%d", base, i) {
		have, err := os.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return name, WriteFile(name, old, 0o600)
		case err != nil:
			return "", fmt.Errorf("keep %s before it is migrated: %w", path, err)
		case bytes.Equal(have, old):
			return name, nil
		}
	}
}

// read returns path's content in version f.V, and the version it has on disk.
func (f Format) read(path string) (b []byte, from int, err error) {
	if b, err = os.ReadFile(path); err != nil {
		return nil, 0, err
	}
	if from, err = version(path, b, f.V); err != nil || from == f.V {
		return b, from, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		return nil, from, fmt.Errorf("%s: %w", path, err)
	}
	for v := from; v < f.V; v++ {
		up := f.Up[v]
		if up == nil {
			return nil, from, fmt.Errorf("%s: format version %d, and this binary, which writes %d, knows no way from %d to %d; use a release in between first", path, from, f.V, v, v+1)
		}
		if err := up(doc); err != nil {
			return nil, from, fmt.Errorf("%s: from format version %d to %d: %w", path, v, v+1, err)
		}
		doc["v"] = v + 1
	}
	b, err = json.Marshal(doc)
	return b, from, err
}

// version is a document's "v", refused where it is none or above max.
func version(path string, b []byte, max int) (int, error) {
	var head struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return 0, fmt.Errorf("%s: not readable as JSON (%d bytes): %w; restore the file or move it away by hand after reading docs/runbooks", path, len(b), err)
	}
	if head.V < 1 || head.V > max {
		return head.V, fmt.Errorf("%s: format version %d, this binary reads 1 to %d; use the release that wrote it or a newer one", path, head.V, max)
	}
	return head.V, nil
}

package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// FileBundle is the marker in the state directory: which bundle it came from.
const FileBundle = "bundle-used.json"

// ErrBundleUsed is in the chain of the error for a bundle that was used before,
// here or elsewhere.
var ErrBundleUsed = errors.New("a bundle is used once")

// errUsedHere is the one ErrBundleUsed after which the file's keys may go: this
// very state directory was finished with it.
var errUsedHere = fmt.Errorf("this state directory was made from it: %w", ErrBundleUsed)

// marker is STATE/bundle-used.json.
type marker struct {
	V      int       `json:"v"`
	ID     string    `json:"id"`
	Claim  string    `json:"claim"`
	PKIDir string    `json:"pkiDir"`
	Begun  time.Time `json:"begun"`
	Done   time.Time `json:"done,omitzero"`
}

// Unpack writes a node's identity from b: CA, certificates, and identity.json
// from the bundle's template and the directories (DataDir, StateDir, PKIDir)
// and, where set, Runtime, SeedRuntime and Binary of dirs; it returns that
// identity. A file that exists with another content is never overwritten: no
// file is written then. The state directory is marked first, so that after an
// error or a crash only the same bundle finishes; used, it is ErrBundleUsed. A
// state directory that has an identity not from this bundle is refused.
func Unpack(b *Bundle, dirs wire.Identity, now time.Time) (wire.Identity, error) {
	unlock, err := openDirs(dirs)
	if err != nil {
		return wire.Identity{}, err
	}
	defer unlock()
	return unpack(b, dirs, now, func(string) error { return nil })
}

// UnpackFile is Unpack for the bundle file at path. It also marks the file, so
// that it is not used with two state directories, and takes the keys out of it
// once they are written; it must lie in a writable directory. A copy made
// before is not covered. ErrBundleUsed where file or state say so: an agent
// started again with its own bundle may go on when identity.json is there.
func UnpackFile(path string, dirs wire.Identity, now time.Time) (wire.Identity, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return wire.Identity{}, fmt.Errorf("bundle: %w", err)
	}
	if err := bundleUsable(path, dirs, now); err != nil {
		return wire.Identity{}, err
	}
	unlock, err := openDirs(dirs, filepath.Dir(path))
	if err != nil {
		return wire.Identity{}, err
	}
	defer unlock()
	b, err := ReadBundle(path)
	if err != nil {
		return wire.Identity{}, err
	}
	id, err := unpack(b, dirs, now, func(c string) error {
		if b.Claim == c {
			return nil
		}
		b.Claim = c
		if err := durable.WriteJSON(path, b); err != nil {
			return fmt.Errorf("mark the bundle as used (it must lie in a writable directory): %w", err)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errUsedHere) || !b.Spent.IsZero() {
		return id, err
	}
	spent := &Bundle{V: b.V, ID: b.ID, Made: b.Made, Identity: b.Identity, Claim: b.Claim, Spent: now.UTC()}
	if werr := durable.WriteJSON(path, spent); werr != nil {
		return id, fmt.Errorf("everything is in place, but the keys could not be taken out of the bundle file: %w", werr)
	}
	return id, err
}

// bundleUsable says no to what is no bundle, or was used elsewhere, before a directory
// is made for it. It is judged again under the locks.
func bundleUsable(path string, dirs wire.Identity, now time.Time) error {
	b, err := ReadBundle(path)
	if err != nil {
		return err
	}
	id, err := b.identity(dirs)
	if err != nil {
		return err
	}
	if _, err := begin(b, id, now); err != nil && !errors.Is(err, errUsedHere) {
		return err
	}
	return nil
}

// openDirs makes the state and PKI directories and locks them and more.
func openDirs(dirs wire.Identity, more ...string) (unlock func(), err error) {
	for _, d := range []struct{ what, dir string }{{"data", dirs.DataDir}, {"state", dirs.StateDir}, {"PKI", dirs.PKIDir}} {
		if !filepath.IsAbs(d.dir) {
			return nil, fmt.Errorf("the %s directory %q is not an absolute path", d.what, d.dir)
		}
	}
	for _, d := range []string{dirs.StateDir, dirs.PKIDir} {
		if err := durable.MkdirAll(d, modeDir); err != nil {
			return nil, err
		}
	}
	return lockDirs(append(more, dirs.StateDir, dirs.PKIDir)...)
}

// unpack does the work under the locks. claim makes the bundle's own file name
// the state directory's token before anything is written from it.
func unpack(b *Bundle, dirs wire.Identity, now time.Time, claim func(string) error) (wire.Identity, error) {
	none := wire.Identity{}
	id, err := b.identity(dirs)
	if err != nil {
		return none, err
	}
	m, err := begin(b, id, now)
	if err != nil {
		return none, err
	}
	files, err := b.files(id.PKIDir)
	if err != nil {
		return none, err
	}
	if err := conflicts(files); err != nil {
		return none, err
	}
	if err := durable.WriteJSON(id.State(FileBundle), m); err != nil {
		return none, err
	}
	if err := claim(m.Claim); err != nil {
		return none, err
	}
	if err := writeMissing(files); err != nil {
		return none, err
	}
	if err := durable.WriteJSON(id.State(wire.FileIdentity), id); err != nil {
		return none, err
	}
	m.Done = now.UTC()
	if err := durable.WriteJSON(id.State(FileBundle), m); err != nil {
		return none, err
	}
	return id, nil
}

// begin reads what state directory and bundle say of each other, or refuses.
func begin(b *Bundle, id wire.Identity, now time.Time) (marker, error) {
	node := b.Identity.Node.Name
	m := marker{V: wire.V, ID: b.ID, Claim: newID(), PKIDir: id.PKIDir, Begun: now.UTC()}
	var have marker
	err := durable.ReadJSON(id.State(FileBundle), wire.V, &have)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(id.State(wire.FileIdentity)); err == nil {
			return m, fmt.Errorf("%s already holds a node's identity (%s), not from bundle %s; use another state directory", id.StateDir, wire.FileIdentity, b.ID)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return m, err
		}
	case err != nil:
		return m, err
	case have.ID != b.ID:
		return m, fmt.Errorf("%s belongs to bundle %s, this is bundle %s; use another state directory", id.StateDir, have.ID, b.ID)
	case !have.Done.IsZero():
		return m, fmt.Errorf("bundle %s for node %s was used on %s (%s): %w", b.ID, node, stamp(have.Done), id.State(FileBundle), errUsedHere)
	case have.PKIDir != id.PKIDir:
		return m, fmt.Errorf("this bundle was begun with the PKI directory %s, not %s; finish with that one", have.PKIDir, id.PKIDir)
	default:
		m = have
	}
	if !b.Spent.IsZero() {
		return m, fmt.Errorf("the bundle for node %s was used on %s with another state directory: %w; make a new bundle", node, stamp(b.Spent), ErrBundleUsed)
	}
	if b.Claim != "" && b.Claim != m.Claim {
		return m, fmt.Errorf("the bundle for node %s was begun with another state directory: %w; finish there, or make a new bundle", node, ErrBundleUsed)
	}
	return m, nil
}

// identity completes the template with what the node chooses.
func (b *Bundle) identity(dirs wire.Identity) (wire.Identity, error) {
	id := b.Identity
	if n := dirs.Node.Name; n != "" && n != id.Node.Name {
		return id, fmt.Errorf("the bundle is for node %s, this is node %s; bring the bundle made for it", id.Node.Name, n)
	}
	id.DataDir, id.StateDir, id.PKIDir, id.Binary = dirs.DataDir, dirs.StateDir, dirs.PKIDir, dirs.Binary
	if dirs.Runtime != "" {
		id.Runtime = dirs.Runtime
	}
	if dirs.SeedRuntime != "" {
		id.SeedRuntime = dirs.SeedRuntime
	}
	return id, nil
}

// conflicts refuses a file that exists with another content.
func conflicts(files []file) error {
	for _, f := range files {
		have, err := os.ReadFile(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !bytes.Equal(have, f.data) {
			return fmt.Errorf("%s exists and is not the bundle's; it is not overwritten: move it away if it belongs to nothing, or use another PKI directory", f.path)
		}
	}
	return nil
}

// writeMissing writes what conflicts did not find.
func writeMissing(files []file) error {
	for _, f := range files {
		if _, err := os.Lstat(f.path); err == nil {
			continue
		}
		if err := durable.WriteFile(f.path, f.data, f.mode); err != nil {
			return err
		}
	}
	return nil
}

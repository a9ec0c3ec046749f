// Package durable writes files that survive power loss: temp file, fsync,
// rename, fsync of the directory (DESIGN "Never lose data"). Every stored JSON
// file carries a version; a newer one is refused by name.
package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// WriteFile replaces path by data with the given mode. After success the
// content survives power loss; after an error the old content is still whole,
// or the new one is: never a mixture.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	if err := renameio.WriteFile(path, data, mode, renameio.WithStaticPermissions(mode)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	// renameio does not fsync the directory, so the rename itself could be lost.
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the entries of dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory %s to sync it: %w", dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// MkdirAll creates dir (mode) and makes each new level durable.
func MkdirAll(dir string, mode fs.FileMode) error {
	dir = filepath.Clean(dir)
	if st, err := os.Stat(dir); err == nil {
		if !st.IsDir() {
			return fmt.Errorf("%s exists and is not a directory", dir)
		}
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := MkdirAll(parent, mode); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(parent)
}

// Rename moves from to to (same filesystem) and syncs both parents. It refuses
// to replace anything: to must not exist.
func Rename(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("rename %s to %s: the target exists and is never replaced", from, to)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return nil
	}
	return SyncDir(filepath.Dir(from))
}

// WriteJSON writes v, indented, mode 0600. v must marshal to an object with a
// field "v" (its format version).
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return WriteFile(path, append(b, '\n'), 0o600)
}

// ReadJSON reads path into v. A missing file is fs.ErrNotExist; an empty or
// torn one, or one whose "v" is zero or above max, is an error naming the file
// (I10: what cannot be read is never an empty default).
func ReadJSON(path string, max int, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := version(path, b, max); err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

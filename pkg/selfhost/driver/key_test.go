package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// A key torn at any byte is another holder's key: a new one takes its place,
// whole, and the grant of the old one has to run out. It is never used in part.
func TestKeyTornAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	take := func() string {
		t.Helper()
		key, release, err := Key(dir)
		if err != nil {
			t.Fatal(err)
		}
		release()
		return key
	}
	first := take()
	if take() != first {
		t.Fatal("a key is kept")
	}
	file := filepath.Join(dir, wire.FileDriverKey)
	for n := range len(first) {
		if err := os.WriteFile(file, []byte(first[:n]), 0o600); err != nil {
			t.Fatal(err)
		}
		key := take()
		if len(key) != len(first) || strings.HasPrefix(key, first[:n]) && n > 8 {
			t.Fatalf("cut at %d: %q", n, key)
		}
		if again := take(); again != key {
			t.Fatalf("cut at %d: the new key was not kept", n)
		}
	}
}

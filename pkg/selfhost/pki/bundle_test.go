package pki

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// bundleFor is cp-2's bundle from cp-1's CA, and the params it was made with.
func bundleFor(t *testing.T, pkiDir string, withKey bool) (*Bundle, Params) {
	t.Helper()
	p := params(t, "cp-2", "127.91.7.12")
	p.PKIDir, p.Node.ProxyAddress, p.Now = pkiDir, "127.91.7.22", nil
	b, err := NewBundle(BundleParams{Params: p, WithCAKey: withKey, Identity: wire.Identity{
		Ports: wire.DefaultPorts, Runtime: wire.RuntimeProcess, StateDir: "/not/carried", PKIDir: pkiDir, Binary: "/not/carried"}})
	if err != nil {
		t.Fatal(err)
	}
	return b, p
}

func dirs(t *testing.T) wire.Identity {
	t.Helper()
	d := t.TempDir()
	return wire.Identity{DataDir: filepath.Join(d, "data"), StateDir: filepath.Join(d, "state"), PKIDir: filepath.Join(d, "pki", "etcd"), Binary: "/usr/bin/bootstrap"}
}

func TestBundleRoundTrip(t *testing.T) {
	a := node(t, "cp-1", "127.91.7.11", "")
	b, p := bundleFor(t, a.PKIDir, false)
	path := filepath.Join(t.TempDir(), "cp-2.bundle")
	if err := b.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", st.Mode(), err)
	}
	wantError(t, b.WriteFile(path), "exists")
	raw, _ := os.ReadFile(path)
	if !strings.Contains(string(raw), `"v": 1`) || strings.Contains(string(raw), "not/carried") {
		t.Error("version missing, or a local path in it")
	}
	caKey, _ := os.ReadFile(KeyFile(a.PKIDir, CA))
	if enc, _ := json.Marshal(string(caKey)); strings.Contains(string(raw), strings.Trim(string(enc), `"`)) {
		t.Error("the CA's key is in it")
	}
	d := dirs(t)
	id, err := UnpackFile(path, d, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := d
	want.V, want.Node, want.Ports, want.Runtime = wire.V, p.Node, wire.DefaultPorts, wire.RuntimeProcess
	var stored wire.Identity
	if err := durable.ReadJSON(filepath.Join(d.StateDir, wire.FileIdentity), wire.V, &stored); err != nil {
		t.Fatal(err)
	}
	for _, got := range []wire.Identity{id, stored} {
		if g, w := asJSON(t, got), asJSON(t, want); g != w {
			t.Errorf("identity %s\nwant %s", g, w)
		}
	}
	if _, err := os.Stat(KeyFile(d.PKIDir, CA)); err == nil {
		t.Error("the CA's key came along")
	}
	checkModes(t, writeOrder(d.PKIDir)[1:])
	for _, s := range Inspect(d.PKIDir, p.Node, p.ProxyAddresses, time.Now()) {
		if s.Problem != "" {
			t.Errorf("%s: %s", s.Name, s.Problem)
		}
	}
	conf, err := ServerConfig(d.PKIDir)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := call(t, serve(t, conf), clientConf(t, a.PKIDir, RoleDriver)); got != "driver|cp-1|false" {
		t.Errorf("cp-1's driver at cp-2: %q, %v", got, err)
	}
	if raw, _ := os.ReadFile(path); strings.Contains(string(raw), "PRIVATE KEY") {
		t.Error("keys stayed in the used file")
	}
}

func checkModes(t *testing.T, files []string) {
	t.Helper()
	for _, f := range files {
		mode := os.FileMode(0o644)
		if strings.HasSuffix(f, ".key") {
			mode = 0o600
		}
		if st, err := os.Stat(f); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestBundleOnce(t *testing.T) {
	a := node(t, "cp-1", "127.91.7.11", "")
	b, _ := bundleFor(t, a.PKIDir, false)
	path := filepath.Join(t.TempDir(), "cp-2.bundle")
	if err := b.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	d := dirs(t)
	if _, err := UnpackFile(path, d, t0); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, d.PKIDir)
	_, err := UnpackFile(path, d, t0)
	if !errors.Is(err, ErrBundleUsed) {
		t.Errorf("second use, same state: %v", err)
	}
	elsewhere := dirs(t)
	if _, err := UnpackFile(path, elsewhere, t0); !errors.Is(err, ErrBundleUsed) {
		t.Errorf("second use, another state: %v", err)
	}
	if len(snapshot(t, elsewhere.PKIDir)) != 0 {
		t.Error("the second use wrote")
	}
	_, err = Unpack(b, d, t0)
	if !errors.Is(err, ErrBundleUsed) {
		t.Errorf("a copy of the bundle, same state: %v", err)
	}
	c, _ := bundleFor(t, a.PKIDir, false)
	_, err = Unpack(c, d, t0)
	wantError(t, err, c.ID, b.ID)
	if !maps.Equal(before, snapshot(t, d.PKIDir)) {
		t.Error("a file was overwritten")
	}
	if _, err := Unpack(c, elsewhere, t0); err != nil {
		t.Errorf("a refused bundle leaves its mark: %v", err)
	}
}

// A crash after any write: the same bundle finishes, another is refused.
func TestUnpackCrash(t *testing.T) {
	a := node(t, "cp-1", "127.91.7.11", "")
	b, _ := bundleFor(t, a.PKIDir, true)
	other, _ := bundleFor(t, a.PKIDir, true)
	whole := dirs(t)
	if _, err := Unpack(b, whole, t0); err != nil {
		t.Fatal(err)
	}
	want := writeOrder(whole.PKIDir)
	for k := range len(want) + 2 {
		d := dirs(t)
		path := filepath.Join(d.StateDir, "cp-2.bundle") // in the state directory: locked once
		mkdir(t, d.StateDir)
		mkdir(t, d.PKIDir)
		claimed := *b
		if k > 0 { // k == 0: the marker is written, the file not claimed yet
			claimed.Claim = "c"
		}
		if err := claimed.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		m := marker{V: 1, ID: b.ID, Claim: "c", PKIDir: d.PKIDir, Begun: t0}
		if err := durable.WriteJSON(filepath.Join(d.StateDir, FileBundle), m); err != nil {
			t.Fatal(err)
		}
		for i := range min(max(k-1, 0), len(want)) {
			copyFile(t, want[i], writeOrder(d.PKIDir)[i])
		}
		if k == len(want)+1 {
			copyFile(t, filepath.Join(whole.StateDir, wire.FileIdentity), filepath.Join(d.StateDir, wire.FileIdentity))
		}
		_, err := Unpack(other, d, t0)
		wantError(t, err, b.ID, other.ID)
		moved := d
		moved.PKIDir = filepath.Join(t.TempDir(), "pki", "etcd")
		_, err = UnpackFile(path, moved, t0)
		wantError(t, err, d.PKIDir, moved.PKIDir)
		if k > 0 { // before that, nothing was written here and the other may have it
			if _, err := UnpackFile(path, dirs(t), t0); !errors.Is(err, ErrBundleUsed) {
				t.Errorf("after %d: begun here, used elsewhere: %v", k, err)
			}
		}
		if _, err := UnpackFile(path, d, t0); err != nil {
			t.Errorf("after %d: %v", k, err)
		}
		for i, f := range writeOrder(d.PKIDir) {
			got, _ := os.ReadFile(f)
			if exp, _ := os.ReadFile(want[i]); string(got) != string(exp) || len(got) == 0 {
				t.Errorf("after %d: %s is not the bundle's", k, f)
			}
		}
		if _, err := UnpackFile(path, d, t0); !errors.Is(err, ErrBundleUsed) {
			t.Errorf("after %d: again: %v", k, err)
		}
	}
}

// The crash between the marker's "done" and taking the keys out of the file.
func TestUnpackCrashBeforeScrub(t *testing.T) {
	a := node(t, "cp-1", "127.91.7.11", "")
	b, _ := bundleFor(t, a.PKIDir, false)
	d := dirs(t)
	if _, err := Unpack(b, d, t0); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "b")
	if err := b.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if _, err := UnpackFile(path, d, t0); !errors.Is(err, ErrBundleUsed) {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(path); strings.Contains(string(raw), "PRIVATE KEY") {
		t.Error("keys stayed in the used file")
	}
}

func TestUnpackRefusals(t *testing.T) {
	a := node(t, "cp-1", "127.91.7.11", "")
	for name, c := range map[string]struct {
		change func(t *testing.T, b *Bundle, d *wire.Identity)
		want   string
	}{
		"other CA there": {func(t *testing.T, _ *Bundle, d *wire.Identity) { foreign(t, CertFile(d.PKIDir, CA)) }, "ca.crt exists"},
		"client there":   {func(t *testing.T, _ *Bundle, d *wire.Identity) { foreign(t, CertFile(d.PKIDir, APIServerEtcdClient)) }, "apiserver-etcd-client.crt exists"},
		"state of another": {func(t *testing.T, _ *Bundle, d *wire.Identity) {
			foreign(t, filepath.Join(d.StateDir, wire.FileIdentity))
		}, "already holds"},
		"torn marker":        {func(t *testing.T, _ *Bundle, d *wire.Identity) { foreign(t, filepath.Join(d.StateDir, FileBundle)) }, FileBundle},
		"another node":       {func(_ *testing.T, _ *Bundle, d *wire.Identity) { d.Node.Name = "cp-3" }, "cp-3"},
		"relative directory": {func(_ *testing.T, _ *Bundle, d *wire.Identity) { d.DataDir = "data" }, "absolute"},
		"leaf missing":       {func(_ *testing.T, b *Bundle, _ *wire.Identity) { delete(b.Leaves, Peer) }, "peer"},
		"unknown leaf":       {func(_ *testing.T, b *Bundle, _ *wire.Identity) { b.Leaves["../../x"] = b.Leaves[Peer] }, "at most"},
		"pair mixed": {func(_ *testing.T, b *Bundle, _ *wire.Identity) {
			b.Leaves[Peer] = PEMPair{Cert: b.Leaves[Peer].Cert, Key: b.Leaves[Server].Key}
		}, "do not match"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := bundleFor(t, a.PKIDir, false)
			d := dirs(t)
			c.change(t, b, &d)
			before := snapshot(t, d.PKIDir)
			_, err := Unpack(b, d, t0)
			wantError(t, err, c.want)
			if !maps.Equal(before, snapshot(t, d.PKIDir)) {
				t.Error("something was written")
			}
		})
	}
}

func TestNewBundleNeedsTheKey(t *testing.T) {
	a := node(t, "cp-1", "127.91.7.11", "")
	remove(t, KeyFile(a.PKIDir, CA))
	p := params(t, "cp-2", "127.91.7.12")
	p.PKIDir = a.PKIDir
	_, err := NewBundle(BundleParams{Params: p})
	wantError(t, err, KeyFile(a.PKIDir, CA), "cannot sign")
	p.PKIDir = t.TempDir()
	_, err = NewBundle(BundleParams{Params: p})
	wantError(t, err, "no CA", p.PKIDir)
}

func TestReadBundle(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{
		`{"v":2,"id":"x"}`: "format version 2",
		`{"v":1}`:          "no bundle",
		`{"v":1,`:          "not readable",
		``:                 "not readable",
	} {
		f := filepath.Join(dir, "b")
		if err := os.WriteFile(f, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadBundle(f)
		wantError(t, err, f, want)
	}
}

func TestHostAddresses(t *testing.T) {
	as, err := HostAddresses()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range as {
		if err := new(sans).addIP("host", a); err != nil || slices.Contains([]string{"127.0.0.1", "::1"}, a) {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func foreign(t *testing.T, file string) {
	t.Helper()
	mkdir(t, filepath.Dir(file))
	if err := os.WriteFile(file, []byte("somebody else's"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What is no bundle, is another node's or was used elsewhere makes no directory.
func TestRefusedBundleLeavesNothing(t *testing.T) {
	a := node(t, "cp-1", "127.91.7.11", "")
	b, _ := bundleFor(t, a.PKIDir, false)
	other := filepath.Join(t.TempDir(), "other")
	if err := b.WriteFile(other); err != nil {
		t.Fatal(err)
	}
	b.Spent = time.Now()
	spent := filepath.Join(t.TempDir(), "spent")
	if err := b.WriteFile(spent); err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(t.TempDir(), "torn")
	if err := os.WriteFile(torn, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{torn: "not readable", spent: "another state directory", other: "this is node cp-9", torn + ".none": "no such file"} {
		d := dirs(t)
		if path == other {
			d.Node.Name = "cp-9"
		}
		_, err := UnpackFile(path, d, time.Now())
		wantError(t, err, want)
		if left, _ := os.ReadDir(filepath.Dir(d.StateDir)); len(left) > 0 {
			t.Errorf("%s left %v", path, left)
		}
	}
}

package main

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

// tree lists every file under dir with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[path[len(dir)+1:]] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestInitDryRun(t *testing.T) {
	dir := t.TempDir()
	code, out, stderr := cli(t, nodeArgs(dir, "--dry-run", "--quota-bytes=8589934592")...)
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if left := tree(t, dir); len(left) != 0 {
		t.Errorf("a dry run wrote %v", left)
	}
	got := strings.ReplaceAll(out, dir, "DIR")
	golden := filepath.Join("testdata", "init-dry-run.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got (go test ./cmd/bootstrap -update writes it anew):\n%s", diff)
	}
}

// What dry-run says is created is what init creates.
func TestInitWritesWhatDryRunLists(t *testing.T) {
	dir := t.TempDir()
	_, plan, _ := cli(t, nodeArgs(dir, "--dry-run")...)
	var want []string
	for line := range strings.Lines(plan) {
		if f, ok := strings.CutPrefix(line, "  create  "); ok {
			want = append(want, strings.TrimPrefix(strings.TrimSpace(f), dir+"/"))
		}
	}
	if code, _, stderr := cli(t, nodeArgs(dir)...); code != exitDone {
		t.Fatal(stderr)
	}
	have := tree(t, dir)
	for _, f := range want {
		if _, ok := have[f]; !ok {
			t.Errorf("%s was planned and not written", f)
		}
		delete(have, f)
	}
	for f := range have {
		if filepath.Ext(f) != ".lock" {
			t.Errorf("%s was written and not planned", f)
		}
	}
}

func TestInitAgainChangesNothing(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := cli(t, nodeArgs(dir)...); code != exitDone {
		t.Fatal(stderr)
	}
	before := tree(t, dir)
	code, out, stderr := cli(t, nodeArgs(dir)...)
	if code != exitDone || !strings.Contains(out, "made before") {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("the second init changed something:\n%s", diff)
	}
}

// Cut short after any file, init completes and keeps what is there.
func TestInitCutShortIsCompleted(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := cli(t, nodeArgs(dir)...); code != exitDone {
		t.Fatal(stderr)
	}
	whole := tree(t, dir)
	for _, lost := range [][]string{
		{"state/slots.json"},
		{"state/slots.json", "data/seed.gate.json", "state/gate-seed.json"},
		{"state/slots.json", "state/epoch.json", "state/spec.json"},
		{"state/slots.json", "state/epoch.json", "state/spec.json", "state/identity.json"},
		{"pki/etcd/server.crt"},
	} {
		for _, f := range lost {
			if err := os.Remove(filepath.Join(dir, f)); err != nil {
				t.Fatal(err)
			}
		}
		if code, _, stderr := cli(t, nodeArgs(dir)...); code != exitDone {
			t.Errorf("without %v: exit code %d: %s", lost, code, stderr)
		}
		have := tree(t, dir)
		for f, content := range whole {
			if _, ok := have[f]; !ok {
				t.Errorf("without %v: %s was not written again", lost, f)
			} else if !slices.Contains(lost, f) && strings.HasPrefix(f, "pki/") && have[f] != content {
				t.Errorf("without %v: %s was written anew", lost, f)
			}
		}
	}
}

func TestInitUsesCertificatesThatAreThere(t *testing.T) {
	dir := t.TempDir()
	p := pki.Params{PKIDir: filepath.Join(dir, "pki", "etcd"), Node: wire.NodeRef{Name: "cp-1", Address: "127.0.0.11"}}
	if _, _, err := pki.EnsureNode(p); err != nil {
		t.Fatal(err)
	}
	before := tree(t, filepath.Join(dir, "pki"))
	if code, _, stderr := cli(t, nodeArgs(dir)...); code != exitDone {
		t.Fatal(stderr)
	}
	if diff := cmp.Diff(before, tree(t, filepath.Join(dir, "pki"))); diff != "" {
		t.Errorf("certificates changed:\n%s", diff)
	}
}

func TestInitRefuses(t *testing.T) {
	write := func(t *testing.T, path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name  string
		setup func(t *testing.T, dir string)
		more  []string
		want  []string
	}{
		{name: "address of no interface", more: []string{"--address=203.0.113.7"}, want: []string{"AddressNotOurs", "203.0.113.7"}},
		{name: "proxy address of no interface", more: []string{"--proxy-address=203.0.113.8"}, want: []string{"AddressNotOurs", "203.0.113.8"}},
		{name: "static pods", more: []string{"--seed-runtime=static-pod"}, want: []string{"RuntimeNotSupported", "process"}},
		{name: "strange files in the data directory", setup: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "data", "photos")) },
			want: []string{"DataFound", "photos", "attic"}},
		{name: "strange files in the slot", setup: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "data", "seed", "photos")) },
			want: []string{"DataFound", "foreign"}},
		{name: "an etcd of kubeadm's", setup: func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "data", "member", "wal", "0000000000000000-0000000000000000.wal"))
		}, want: []string{"DataFound", "part directory"}},
		{name: "a node begun from a bundle", setup: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "state", pki.FileBundle)) },
			want: []string{"JoinedByBundle"}},
		{name: "another identity", setup: func(t *testing.T, dir string) {
			if code, _, stderr := cli(t, nodeArgs(dir)...); code != exitDone {
				t.Fatal(stderr)
			}
		}, more: []string{"--node-name=cp-2"}, want: []string{"IdentityDiffers", "--node-name cp-1", "--node-name cp-2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.setup != nil {
				tc.setup(t, dir)
			}
			args := nodeArgs(dir)
			for _, m := range tc.more { // a list flag adds, so that the old one goes
				flag, _, _ := strings.Cut(m, "=")
				args = slices.DeleteFunc(args, func(s string) bool { return strings.HasPrefix(s, flag+"=") })
				args = append(args, m)
			}
			before := tree(t, dir)
			code, _, stderr := cli(t, args...)
			if code != exitRefused {
				t.Errorf("exit code %d, want %d: %s", code, exitRefused, stderr)
			}
			dryCode, dry, dryErr := cli(t, append(args, "--dry-run")...)
			if dryCode != exitDone {
				t.Errorf("dry run: exit code %d: %s", dryCode, dryErr)
			}
			for _, w := range tc.want {
				if !strings.Contains(stderr, w) {
					t.Errorf("%q is not in the refusal: %s", w, stderr)
				}
				if !strings.Contains(dry, w) {
					t.Errorf("%q is not among the warnings of the dry run: %s", w, dry)
				}
			}
			after := tree(t, dir)
			for f := range after {
				if filepath.Ext(f) == ".lock" {
					delete(after, f) // taken to read a stopped directory
				}
			}
			for f := range before {
				if filepath.Ext(f) == ".lock" {
					delete(before, f)
				}
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("a refused init changed something:\n%s", diff)
			}
		})
	}
}

// Everything that is wrong is said at once.
func TestInitNamesEveryRefusal(t *testing.T) {
	dir := t.TempDir()
	code, _, stderr := cli(t, "init", "--node-name=cp-1", "--address=203.0.113.7", "--runtime=systemd",
		"--state-dir="+dir+"/state", "--data-dir="+dir+"/data", "--pki-dir="+dir+"/pki/etcd")
	if code != exitRefused || !strings.Contains(stderr, "AddressNotOurs") || !strings.Contains(stderr, "RuntimeNotSupported") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestInitStoresWhatWasAsked(t *testing.T) {
	dir := t.TempDir()
	env := []string{"ETCD_SELFHOST_AGENT_PORT=3382"}
	if code, _, stderr := cliEnv(t, env, nodeArgs(dir, "--address=127.0.0.12", "--snapshot-count=5000")...); code != exitDone {
		t.Fatal(stderr)
	}
	var id wire.Identity
	var spec wire.Spec
	if err := durable.ReadJSON(filepath.Join(dir, "state", wire.FileIdentity), wire.V, &id); err != nil {
		t.Fatal(err)
	}
	if err := durable.ReadJSON(filepath.Join(dir, "state", wire.FileSpec), wire.V, &spec); err != nil {
		t.Fatal(err)
	}
	if id.Ports.Agent != 3382 || spec.Ports.Agent != 3382 || id.Node.Address != "127.0.0.11" || !slices.Equal(id.Node.MoreAddresses, []string{"127.0.0.12"}) {
		t.Errorf("identity %+v", id)
	}
	if spec.Target != wire.TargetSeed || len(spec.Nodes) != 1 || spec.Settings.SnapshotCount != 5000 || spec.Epoch != 1 {
		t.Errorf("spec %+v", spec)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
)

func TestBundle(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := cli(t, nodeArgs(dir)...); code != exitDone {
		t.Fatal(stderr)
	}
	state, out := "--state-dir="+filepath.Join(dir, "state"), filepath.Join(dir, "cp-2.json")
	// This node's own variables describe this node, never the further one.
	env := []string{"ETCD_SELFHOST_NODE_NAME=cp-1", "ETCD_SELFHOST_ADDRESS=127.0.0.11"}
	code, stdout, stderr := cliEnv(t, env, "pki", "bundle", state, "--node-name=cp-2", "--address=127.0.0.12", "--address=127.0.0.32", "--out="+out)
	if code != exitDone || !strings.Contains(stdout, "bootstrap agent --bundle cp-2.json") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	if st, err := os.Stat(out); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode of the bundle: %v %v", st.Mode(), err)
	}
	b, err := pki.ReadBundle(out)
	if err != nil || b.Identity.Node.Name != "cp-2" || b.Identity.Node.Address != "127.0.0.12" || b.CAKey != "" {
		t.Errorf("bundle for %+v, CA key %t, %v", b.Identity.Node, b.CAKey != "", err)
	}
	if _, err := identityTLS(out); err != nil {
		t.Errorf("a bundle as a driver's identity: %v", err)
	}
	for _, tc := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"--node-name=cp-2", "--address=127.0.0.12", "--out=" + out}, exitFailed, "not overwritten"},
		{[]string{"--node-name=cp-2", "--address=127.0.0.11", "--out=" + out + "2"}, exitRefused, "NodeTaken"},
		{[]string{"--node-name=cp-1", "--address=127.0.0.12", "--out=" + out + "2"}, exitRefused, "NodeTaken"},
		{[]string{"--node-name=cp-2", "--address=cp-2", "--out=" + out + "2"}, exitUsage, "not an IP"},
		{[]string{"--node-name=CP 2", "--address=127.0.0.12", "--out=" + out + "2"}, exitUsage, "no node name"},
	} {
		code, _, stderr := cli(t, append([]string{"pki", "bundle", state}, tc.args...)...)
		if code != tc.code || !strings.Contains(stderr, tc.text) {
			t.Errorf("%v: exit code %d, %s", tc.args, code, stderr)
		}
	}
	if err := os.Remove(pki.KeyFile(filepath.Join(dir, "pki", "etcd"), pki.CA)); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := cli(t, "pki", "bundle", state, "--node-name=cp-3", "--address=127.0.0.13", "--out="+out+"3"); code != exitFailed || !strings.Contains(stderr, "ca.key") {
		t.Errorf("without the CA's key: exit code %d, %s", code, stderr)
	}
}

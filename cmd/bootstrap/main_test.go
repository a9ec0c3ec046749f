package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary be the bootstrap binary: agents and readers of
// directories start their children from it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	os.Exit(m.Run())
}

// cli runs one command line in this process, without any file or variable of
// the machine's own.
func cli(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return cliEnv(t, nil, args...)
}

func cliEnv(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := newApp(&out, &errs, env)
	a.configFile = ""
	code = a.run(t.Context(), args)
	return code, out.String(), errs.String()
}

// nodeArgs are init's flags for a node under dir.
func nodeArgs(dir string, more ...string) []string {
	return append([]string{"init", "--node-name=cp-1", "--address=127.0.0.11", "--proxy-address=127.0.0.21",
		"--state-dir=" + filepath.Join(dir, "state"), "--data-dir=" + filepath.Join(dir, "data"),
		"--pki-dir=" + filepath.Join(dir, "pki", "etcd")}, more...)
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name string
		args []string
		want int
		text string // part of stderr
	}{
		{"help", []string{"--help"}, exitDone, ""},
		{"no verb", nil, exitDone, ""},
		{"version", []string{"version"}, exitDone, ""},
		{"unknown verb", []string{"innit"}, exitUsage, "unknown verb"},
		{"unknown verb of a group", []string{"pki", "bundel"}, exitUsage, "unknown verb"},
		{"unknown flag", []string{"status", "--wach"}, exitUsage, "--wach"},
		{"words where none belong", []string{"status", "cp-1"}, exitUsage, `"cp-1"`},
		{"bad setting", []string{"status", "--log-level=loud"}, exitUsage, "loud"},
		{"output", []string{"status", "-o", "yaml"}, exitUsage, "yaml"},
		{"init without address", []string{"init", "--node-name=cp-1"}, exitUsage, "--address"},
		{"etcd without slot", []string{"etcd", "--state-dir=" + dir}, exitUsage, "--slot"},
		{"pivot to no address", []string{"pivot", "--nodes=cp-1"}, exitUsage, "NAME=IP"},
		{"pivot to one address twice", []string{"pivot", "--nodes=cp-1=10.0.0.1,cp-2=10.0.0.1"}, exitUsage, "before"},
		{"forget what is no ID", []string{"pivot", "--forget-learner=cp-1"}, exitUsage, "member ID"},
		{"journal of nothing", []string{"journal", "--last=0"}, exitUsage, "--last"},
		{"bundle for nobody", []string{"pki", "bundle"}, exitUsage, "--node-name"},
		{"no node here", []string{"status", "--state-dir=" + dir}, exitFailed, "--agents"},
		{"no identity to ask with", []string{"status", "--state-dir=" + dir, "--agents=127.0.0.1", "--identity=" + dir}, exitFailed, "as whom"},
		{"agent without a node", []string{"agent", "--state-dir=" + dir}, exitFailed, "bootstrap init"},
		{"config file missing", []string{"status", "--config=" + filepath.Join(dir, "none.yaml")}, exitUsage, "none.yaml"},
		{"refused", nodeArgs(dir, "--runtime=systemd"), exitRefused, "refused: RuntimeNotSupported cp-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, _, stderr := cli(t, tc.args...)
			if code != tc.want || !strings.Contains(stderr, tc.text) {
				t.Errorf("exit code %d, want %d; stderr %q, want %q in it", code, tc.want, stderr, tc.text)
			}
			if (code == exitDone) != (stderr == "") {
				t.Errorf("exit code %d with stderr %q", code, stderr)
			}
		})
	}
}

func TestFlagAgainstItsVariable(t *testing.T) {
	code, _, stderr := cliEnv(t, []string{"ETCD_SELFHOST_LOG_FORMAT=json"}, "status", "--log-format=text")
	if code != exitUsage || !strings.Contains(stderr, "ETCD_SELFHOST_LOG_FORMAT says json") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// What must start with nothing but its command line reads neither file nor variables.
func TestBareVerbsTakeNoVariable(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"proxy", "--state-dir=/does/not/exist"}, {"etcd", "--slot=seed", "--state-dir=/does/not/exist"}} {
		code, _, stderr := cliEnv(t, []string{"ETCD_SELFHOST_CLIENT_PORT=broken"}, args...)
		if code == exitUsage {
			t.Errorf("%v: a broken variable mattered: %s", args, stderr)
		}
	}
}

func TestInterruptedVerbSaysSo(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := cli(t, nodeArgs(dir)...); code != exitDone {
		t.Fatal(stderr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	a := newApp(&out, &errs, nil)
	a.configFile = ""
	code := a.run(ctx, []string{"status", "--state-dir=" + filepath.Join(dir, "state")})
	if code != exitFailed || errs.String() != "bootstrap status: interrupted\n" {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
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
		{"likely verb", []string{"innit"}, exitUsage, `did you mean "init"?`},
		{"likely verb of a group", []string{"pki", "bundel"}, exitUsage, `did you mean "bundle"?`},
		{"no likely verb", []string{"journal", "everything"}, exitUsage, "there are files, prune"},
		{"likely flag", []string{"status", "--wach"}, exitUsage, "unknown flag --wach; did you mean --watch?"},
		{"no likely flag", []string{"status", "--everything"}, exitUsage, "unknown flag --everything\n"},
		{"no short flag", []string{"status", "-q"}, exitUsage, "-q"},
		{"duration without unit", []string{"status", "--timeout=5"}, exitUsage, `--timeout: "5" is no duration; write a number with its unit`},
		{"no number", []string{"journal", "--last=x"}, exitUsage, `--last: "x" is no whole number`},
		{"number beyond all", []string{"init", "--agent-port=99999999999999999999"}, exitUsage, "--agent-port: 99999999999999999999 is too large"},
		{"no value", []string{"status", "--agents"}, exitUsage, "--agents needs a value"},
		{"neither true nor false", []string{"pivot", "--dry-run=perhaps"}, exitUsage, "neither true nor false"},
		{"no such shell", []string{"completion", "tcsh"}, exitUsage, "there are bash, fish, powershell, zsh"},
		{"nodes that name nobody", []string{"pivot", "--nodes="}, exitUsage, "--nodes names nobody"},
		{"no such chapter", []string{"demo", "--only=nope"}, exitUsage, `no chapter "nope"; there are pivot`},
		{"negative keep", []string{"attic", "prune", "--keep=-1"}, exitUsage, "--keep -1: 0 or more"},
		{"bundle that is not there", []string{"agent", "--state-dir=" + dir, "--bundle=" + filepath.Join(dir, "none.json")}, exitFailed, "there is no file " + filepath.Join(dir, "none.json") + ", and " + dir + " holds no identity yet"},
		{"identity that is not there", []string{"status", "--state-dir=" + dir, "--agents=127.0.0.1", "--identity=" + filepath.Join(dir, "none")}, exitFailed, "--identity names a PKI directory or an unused bundle"},
		{"state where a file is", nodeArgs(dir, "--state-dir="+filepath.Join(file, "state")), exitRefused, "DirectoryNotUsable cp-1: found --state-dir " + filepath.Join(file, "state") + ": stat "},
		{"data where a file is", nodeArgs(dir, "--data-dir="+file), exitRefused, file + " is no directory"},
		{"no etcd", nodeArgs(dir, "--etcd-binary=/bin/true"), exitFailed, "/bin/true is no etcd"},
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

// Whoever may not read what a verb needs is told what to do about it.
func TestNotRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to stop being it")
	}
	dir := t.TempDir()
	if code, _, stderr := cli(t, nodeArgs(dir)...); code != exitDone {
		t.Fatal(stderr)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bootstrap") // where nobody may go
	open := func(paths ...string) {
		for _, p := range paths {
			if err := os.Chmod(p, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(dir, filepath.Dir(dir))
	b, err := os.ReadFile(exe)
	if err == nil {
		err = os.WriteFile(bin, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"status", "--state-dir=" + filepath.Join(dir, "state")},
		{"agent", "--state-dir=" + filepath.Join(dir, "state")},
		{"pki", "bundle", "--node-name=cp-2", "--address=127.0.0.12", "--state-dir=" + filepath.Join(dir, "state")},
		{"status", "--agents=127.0.0.11", "--state-dir=" + filepath.Join(dir, "none"), "--identity=" + filepath.Join(dir, "pki", "etcd")},
	} {
		cmd := exec.Command(bin, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "permission denied") || !strings.Contains(string(out), "run it as root") {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	cmd := exec.Command(bin, nodeArgs(filepath.Join(dir, "second"))...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "DirectoryNotUsable") || !strings.Contains(string(out), "name another with --pki-dir") {
		t.Errorf("init: %v: %s", err, out)
	}
}

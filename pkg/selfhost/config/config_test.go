package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

const head = "apiVersion: " + APIVersion + "\n"

// load runs args, env and file through Load as a verb with every setting would.
func load(t *testing.T, file string, env, args []string) (*Settings, []string, error) {
	t.Helper()
	src := Sources{Environ: env}
	if file != "" {
		src.DefaultFile = filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(src.DefaultFile, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, fs := New(), pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Bind(fs, ^Group(0))
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	unknown, err := s.Load(fs, src)
	return s, unknown, err
}

func TestPrecedence(t *testing.T) {
	file := head + "nodeName: from-file\n"
	env := []string{"ETCD_SELFHOST_NODE_NAME=from-env"}
	flag := []string{"--node-name=from-flag"}
	for _, tc := range []struct {
		name      string
		file      string
		env, args []string
		want      string
		given     string // its beginning, or for a file its end
	}{
		{name: "default"},
		{name: "file", file: file, want: "from-file", given: "config.yaml:2"},
		{name: "env over file", file: file, env: env, want: "from-env", given: "ETCD_SELFHOST_NODE_NAME"},
		{name: "flag over file", file: file, args: flag, want: "from-flag", given: "--node-name"},
		{name: "flag and env agree", file: file, env: []string{"ETCD_SELFHOST_NODE_NAME=from-flag"}, args: flag, want: "from-flag", given: "--node-name"},
		{name: "empty env is not set", file: file, env: []string{"ETCD_SELFHOST_NODE_NAME="}, want: "from-file", given: "config.yaml:2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _, err := load(t, tc.file, tc.env, tc.args)
			if err != nil {
				t.Fatal(err)
			}
			if s.NodeName != tc.want || !strings.HasSuffix(s.Given("node-name"), tc.given) {
				t.Errorf("node name %q given by %q, want %q by …%q", s.NodeName, s.Given("node-name"), tc.want, tc.given)
			}
		})
	}
}

func TestEveryKindOfValue(t *testing.T) {
	s, _, err := load(t, head+`
address:
  - 10.0.0.11
  - "fd00::11"
agents: 10.0.0.12
clientPort: 3379
quotaBytes: 8589934592
timeout: 90s
`, []string{"ETCD_SELFHOST_AGENTS=10.0.0.13, 10.0.0.14", "ETCD_SELFHOST_PEER_PORT=3380"}, []string{"--metrics-port=3381"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"10.0.0.11", "fd00::11"}; !slices.Equal(s.Addresses, want) {
		t.Errorf("addresses %q, want %q", s.Addresses, want)
	}
	if want := []string{"10.0.0.13", "10.0.0.14"}; !slices.Equal(s.Agents, want) {
		t.Errorf("agents %q, want %q", s.Agents, want)
	}
	if s.Ports.Client != 3379 || s.Ports.Peer != 3380 || s.Ports.Metrics != 3381 || s.Ports.Agent != 2382 {
		t.Errorf("ports %+v", s.Ports)
	}
	if s.Etcd.QuotaBytes != 8<<30 || s.Timeout != 90*time.Second {
		t.Errorf("quota %d, timeout %s", s.Etcd.QuotaBytes, s.Timeout)
	}
}

func TestListFlagIsReplacedNotAddedTo(t *testing.T) {
	s, _, err := load(t, head+"address: [10.0.0.1]\n", nil, []string{"--address=10.0.0.2", "--address=10.0.0.3"})
	if want := []string{"10.0.0.2", "10.0.0.3"}; err != nil || !slices.Equal(s.Addresses, want) {
		t.Errorf("addresses %q (%v), want %q", s.Addresses, err, want)
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name      string
		file      string
		env, args []string
		where     string // end of Error.Where
		text      string // part of Error.Text
	}{
		{name: "flag against env", env: []string{"ETCD_SELFHOST_NODE_NAME=a"}, args: []string{"--node-name=b"}, where: "--node-name", text: "says b, and ETCD_SELFHOST_NODE_NAME says a"},
		{name: "list flag against env", env: []string{"ETCD_SELFHOST_ADDRESS=10.0.0.1"}, args: []string{"--address=10.0.0.2"}, where: "--address", text: "says 10.0.0.2"},
		{name: "unknown key", file: head + "\nnodeName: a\nnode-name: b\n", where: "config.yaml:4", text: `unknown key "node-name"; did you mean "nodeName"?`},
		{name: "unknown key without likeness", file: head + "colour: red\n", where: "config.yaml:2", text: "known are apiVersion, address,"},
		{name: "key twice", file: head + "nodeName: a\nnodeName: a\n", where: "config.yaml:3", text: "on line 2"},
		{name: "wrong kind", file: head + "clientPort: many\n", where: "config.yaml:2", text: "many"},
		{name: "list for one value", file: head + "nodeName: [a, b]\n", where: "config.yaml:2", text: "expected one value"},
		{name: "mapping for a value", file: head + "nodeName:\n  a: b\n", where: "config.yaml:3", text: "no value"},
		{name: "no value", file: head + "nodeName:\n", where: "config.yaml:2", text: "no value"},
		{name: "no apiVersion", file: "nodeName: a\n", where: "config.yaml", text: APIVersion},
		{name: "later apiVersion", file: "apiVersion: etcd.selfhost.dev/v9\n", where: "config.yaml:1", text: "v9"},
		{name: "empty file", file: "# nothing\n", where: "config.yaml", text: "empty"},
		{name: "two documents", file: head + "---\n" + head, where: "config.yaml", text: "more than one"},
		{name: "no yaml", file: head + "nodeName: \"a\n", where: "config.yaml", text: "line"},
		{name: "file is judged for what the flag overrides", file: head + "clientPort: many\n", args: []string{"--client-port=1"}, where: "config.yaml:2", text: "many"},
		{name: "env of wrong kind", env: []string{"ETCD_SELFHOST_CLIENT_PORT=x"}, where: "ETCD_SELFHOST_CLIENT_PORT", text: "x"},
		{name: "named file missing", args: []string{"--config=/does/not/exist.yaml"}, where: "--config", text: "there is no file /does/not/exist.yaml"},
		{name: "one port twice", args: []string{"--client-port=12379"}, where: "--seed-client-port", text: "--client-port"},
		{name: "no port", env: []string{"ETCD_SELFHOST_AGENT_PORT=70000"}, where: "ETCD_SELFHOST_AGENT_PORT", text: "70000"},
		{name: "name for an address", file: head + "address: cp-1\n", where: "config.yaml:2", text: "not an IP"},
		{name: "any address", args: []string{"--address=0.0.0.0"}, where: "--address", text: "0.0.0.0"},
		{name: "proxy on the node's address", args: []string{"--address=10.0.0.1", "--proxy-address=10.0.0.1"}, where: "--proxy-address", text: "10.0.0.1"},
		{name: "node name", args: []string{"--node-name=CP_1"}, where: "--node-name", text: "CP_1"},
		{name: "runtime", args: []string{"--runtime=docker"}, where: "--runtime", text: "docker"},
		{name: "log level", env: []string{"ETCD_SELFHOST_LOG_LEVEL=loud"}, where: "ETCD_SELFHOST_LOG_LEVEL", text: "loud"},
		{name: "election below five heartbeats", args: []string{"--heartbeat-interval=300"}, where: "--election-timeout", text: "five heartbeats"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := load(t, tc.file, tc.env, tc.args)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if !strings.HasSuffix(e.Where, tc.where) || !strings.Contains(e.Text, tc.text) {
				t.Errorf("got %q; want %q at …%q", err, tc.text, tc.where)
			}
		})
	}
}

func TestUnknownVariablesAreToldNotRefused(t *testing.T) {
	_, unknown, err := load(t, "", []string{"ETCD_SELFHOST_NODENAME=a", "ETCD_SELFHOST_CACHE=/c", "PATH=/bin"}, nil)
	if err != nil || !slices.Equal(unknown, []string{"ETCD_SELFHOST_NODENAME"}) {
		t.Errorf("unknown %q, %v", unknown, err)
	}
}

// A verb that takes few flags still sees a broken file or variable of another's.
func TestFewFlags(t *testing.T) {
	s, fs := New(), pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Bind(fs, Global|State)
	if _, err := s.Load(fs, Sources{Environ: []string{"ETCD_SELFHOST_CLIENT_PORT=x"}}); err == nil {
		t.Error("a variable of the wrong kind passed")
	}
	if _, err := s.Load(fs, Sources{Environ: []string{"ETCD_SELFHOST_CLIENT_PORT=1", "ETCD_SELFHOST_STATE_DIR=/s"}}); err != nil || s.StateDir != "/s" || s.Ports.Client != 2379 {
		t.Errorf("state dir %q, client port %d, %v", s.StateDir, s.Ports.Client, err)
	}
}

func TestNamesFollowFromEachOther(t *testing.T) {
	keys := map[string]string{}
	for _, n := range Names() {
		if other, ok := keys[KeyName(n)]; ok {
			t.Errorf("--%s and --%s are one key", n, other)
		}
		keys[KeyName(n)] = n
	}
	for flag, want := range map[string][2]string{
		"node-name": {"ETCD_SELFHOST_NODE_NAME", "nodeName"},
		"pki-dir":   {"ETCD_SELFHOST_PKI_DIR", "pkiDir"},
		"address":   {"ETCD_SELFHOST_ADDRESS", "address"},
	} {
		if EnvName(flag) != want[0] || KeyName(flag) != want[1] {
			t.Errorf("--%s is %s and %s, want %q", flag, EnvName(flag), KeyName(flag), want)
		}
	}
}

func TestFlagOfTheSameNameThatIsNoSetting(t *testing.T) {
	s, fs := New(), pflag.NewFlagSet("test", pflag.ContinueOnError)
	other := fs.String("node-name", "", "")
	s.Bind(fs, Global|State)
	if err := fs.Parse([]string{"--node-name=cp-2"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(fs, Sources{Environ: []string{"ETCD_SELFHOST_NODE_NAME=cp-1"}}); err != nil || *other != "cp-2" {
		t.Errorf("node name %q, %v", *other, err)
	}
}

func TestListsAreKnown(t *testing.T) {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	New().Bind(fs, ^Group(0))
	fs.VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Value.(pflag.SliceValue); ok != isList(f.Name) {
			t.Errorf("--%s: a list as a flag %t, in the file %t", f.Name, ok, isList(f.Name))
		}
	})
}

// CASES L8: one address has one spelling, and every other host can dial it.
func TestAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.11": "", "fd00::1": "", "::1": "", "127.0.0.11": "",
		"fe80::1": "link-local", "fe80::1%eth0": "zone", "169.254.3.4": "link-local",
		"::ffff:10.0.0.1": "is written 10.0.0.1", "0:0:0:0:0:0:0:1": "is written ::1", "FD00::1": "is written fd00::1", "fd00:0::1": "is written fd00::1",
		"::": "one node", "0.0.0.0": "one node", "ff02::1": "one node", "cp-1": "not an IP", "": "not an IP", "[fd00::1]": "not an IP",
	} {
		err := Address(addr)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", addr, err, want)
		}
	}
}

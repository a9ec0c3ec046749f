package config

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Group of settings that a verb takes together.
type Group uint8

// The groups.
const (
	// Global: every verb.
	Global Group = 1 << iota
	// State: where the agent's state lies, and with it everything else.
	State
	// Node: what identity.json is made of.
	Node
	// Etcd: settings of etcd that the desired spec carries.
	Etcd
	// Certs: what certificates are made of besides the node.
	Certs
	// Client: whom a client verb asks, and as whom.
	Client
)

// Settings is the value of every setting. The zero value is not useful: New.
type Settings struct {
	Config    string
	LogLevel  string
	LogFormat string
	// Timeout is how long a client verb waits for what passes by itself; 0: no limit.
	Timeout time.Duration

	StateDir string

	NodeName string
	// Addresses of the node; the first is the primary one.
	Addresses    []string
	ProxyAddress string
	DataDir      string
	PKIDir       string
	Runtime      string
	SeedRuntime  string
	Ports        wire.Ports

	// ExtraSANs are IPs or names added to the node's server certificates.
	ExtraSANs []string

	EtcdBinary string
	Etcd       wire.Settings

	Agents   []string
	Identity string

	given map[string]string
}

// New is the defaults (DESIGN "Ports, paths, units").
func New() *Settings {
	return &Settings{
		LogLevel: "info", LogFormat: "text", Timeout: 5 * time.Minute,
		StateDir: "/var/lib/etcd-selfhost", DataDir: "/var/lib/etcd", PKIDir: "/etc/kubernetes/pki/etcd",
		Runtime: string(wire.RuntimeProcess), SeedRuntime: string(wire.RuntimeProcess),
		Ports: wire.DefaultPorts, given: map[string]string{},
	}
}

// setting is one name with its flag.
type setting struct {
	flag  string
	group Group
	bind  func(fs *pflag.FlagSet, s *Settings, name string)
}

func text(field func(*Settings) *string, usage string) func(*pflag.FlagSet, *Settings, string) {
	return func(fs *pflag.FlagSet, s *Settings, name string) { p := field(s); fs.StringVar(p, name, *p, usage) }
}

func list(field func(*Settings) *[]string, usage string) func(*pflag.FlagSet, *Settings, string) {
	return func(fs *pflag.FlagSet, s *Settings, name string) {
		p := field(s)
		fs.StringSliceVar(p, name, *p, usage)
	}
}

func number(field func(*Settings) *int, usage string) func(*pflag.FlagSet, *Settings, string) {
	return func(fs *pflag.FlagSet, s *Settings, name string) { p := field(s); fs.IntVar(p, name, *p, usage) }
}

// settings is every setting there is; the order is that of the help.
var settings = []setting{
	{"config", Global, text(func(s *Settings) *string { return &s.Config }, "config `FILE` (default "+DefaultFile+", if it is there)")},
	{"log-level", Global, text(func(s *Settings) *string { return &s.LogLevel }, "`LEVEL` of the log on stderr: debug, info, warn or error")},
	{"log-format", Global, text(func(s *Settings) *string { return &s.LogFormat }, "`FORMAT` of the log on stderr: text or json")},
	{"timeout", Global, func(fs *pflag.FlagSet, s *Settings, name string) {
		fs.DurationVar(&s.Timeout, name, s.Timeout, "how long a verb that asks agents waits in vain, as in 90s; 0 is for ever")
	}},

	{"state-dir", State, text(func(s *Settings) *string { return &s.StateDir }, "`DIR` of the agent's state: identity, epoch, spec, journal")},

	{"node-name", Node, text(func(s *Settings) *string { return &s.NodeName }, "`NAME` of the node, unique in the cluster (default this host's name)")},
	{"address", Node, list(func(s *Settings) *[]string { return &s.Addresses }, "`IP` of the node; give it again for further ones, the first is where members listen")},
	{"proxy-address", Node, text(func(s *Settings) *string { return &s.ProxyAddress }, "`IP` the node's proxy listens on (default 127.0.0.1)")},
	{"data-dir", Node, text(func(s *Settings) *string { return &s.DataDir }, "`DIR` under which member, seed and attic keep their data")},
	{"pki-dir", Node | Client, text(func(s *Settings) *string { return &s.PKIDir }, "`DIR` of etcd's CA and certificates, in kubeadm's layout")},
	{"extra-sans", Certs, list(func(s *Settings) *[]string { return &s.ExtraSANs }, "`IP` or name, or several, for the server certificates: the proxy address of every other node, where it is not 127.0.0.1")},
	{"runtime", Node, text(func(s *Settings) *string { return &s.Runtime }, "`WHO` runs the node's member: process, static-pod or systemd (this release: process)")},
	{"seed-runtime", Node, text(func(s *Settings) *string { return &s.SeedRuntime }, "`WHO` runs the seed: process, static-pod or systemd (this release: process)")},
	{"client-port", Node, number(func(s *Settings) *int { return &s.Ports.Client }, "`PORT` of members and proxy for clients, on every node")},
	{"peer-port", Node, number(func(s *Settings) *int { return &s.Ports.Peer }, "`PORT` of members for each other")},
	{"metrics-port", Node, number(func(s *Settings) *int { return &s.Ports.Metrics }, "`PORT` of members for metrics and health")},
	{"agent-port", Node | Client, number(func(s *Settings) *int { return &s.Ports.Agent }, "`PORT` of the agents")},
	{"seed-client-port", Node, number(func(s *Settings) *int { return &s.Ports.SeedClient }, "`PORT` of the seed for clients")},
	{"seed-peer-port", Node, number(func(s *Settings) *int { return &s.Ports.SeedPeer }, "`PORT` of the seed for its peers")},
	{"seed-metrics-port", Node, number(func(s *Settings) *int { return &s.Ports.SeedMetrics }, "`PORT` of the seed for metrics and health")},

	{"etcd-binary", Etcd, text(func(s *Settings) *string { return &s.EtcdBinary }, "`PATH` of the etcd to run, the same on every node (default the embedded one)")},
	{"quota-bytes", Etcd, func(fs *pflag.FlagSet, s *Settings, name string) {
		fs.Int64Var(&s.Etcd.QuotaBytes, name, 0, "size of the database at which etcd takes no more writes, in `BYTES` (default etcd's own, 2 GiB)")
	}},
	{"heartbeat-interval", Etcd, number(func(s *Settings) *int { return &s.Etcd.HeartbeatMillis }, "etcd's heartbeat interval in `MILLISECONDS` (default etcd's own, 100)")},
	{"election-timeout", Etcd, number(func(s *Settings) *int { return &s.Etcd.ElectionMillis }, "etcd's election timeout in `MILLISECONDS` (default etcd's own, 1000)")},
	{"snapshot-count", Etcd, number(func(s *Settings) *int { return &s.Etcd.SnapshotCount }, "committed `ENTRIES` between two of etcd's snapshots (default etcd's own)")},

	{"agents", Client, list(func(s *Settings) *[]string { return &s.Agents }, "ask these agents, `ADDR,…` (IP or IP:PORT), instead of those the local state names")},
	{"identity", Client, text(func(s *Settings) *string { return &s.Identity }, "PKI directory or bundle `FILE` whose driver certificate is shown to agents (default the node's own)")},
}

// annotation marks the flags that Bind defined: Load leaves others alone, so
// that a verb may have a flag of the same name that means another node.
const annotation = "etcd-selfhost/setting"

// Bind defines the flags of groups on fs, with s as their values.
func (s *Settings) Bind(fs *pflag.FlagSet, groups Group) {
	for _, d := range settings {
		// A flag of two groups, or of a parent command, is defined once.
		if d.group&groups != 0 && fs.Lookup(d.flag) == nil {
			d.bind(fs, s, d.flag)
			fs.Lookup(d.flag).Annotations = map[string][]string{annotation: nil}
		}
	}
}

// Names lists the flag of every setting, in the order of the help.
func Names() []string {
	out := make([]string, len(settings))
	for i, d := range settings {
		out[i] = d.flag
	}
	return out
}

// Given says where a setting's value comes from ("--address",
// "ETCD_SELFHOST_ADDRESS", "FILE:3"), empty for its default. Known after Load.
func (s *Settings) Given(flag string) string { return s.given[flag] }

package member

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.etcd.io/etcd/pkg/v3/flags"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
)

// Config reads stock etcd's arguments into an embed.Config, as etcdmain's
// configFromCmdLine (3.7.3) does, but neither environment nor file.
func Config(args []string) (*embed.Config, error) {
	cfg := embed.NewConfig()
	byDefault := cfg.InitialCluster
	fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	cfg.AddFlags(fs)
	state := flags.NewSelectiveStringValue(embed.ClusterStateFlagNew, embed.ClusterStateFlagExisting)
	fs.Var(state, "initial-cluster-state", "")
	if err := fs.Parse(args); err != nil {
		return nil, fmt.Errorf("etcd argument: %w", err)
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q is not an etcd argument", fs.Arg(0))
	}
	takeURLs(cfg, fs)
	cfg.ClusterState = state.String()
	cfg.V2Deprecation = config.V2DeprDefault
	rafthttp.ConnReadTimeout = max(rafthttp.ConnReadTimeout, rafthttp.DefaultConnReadTimeout)
	rafthttp.ConnWriteTimeout = max(rafthttp.ConnWriteTimeout, rafthttp.DefaultConnWriteTimeout)
	if flags.IsSet(fs, "listen-client-urls") && !flags.IsSet(fs, "advertise-client-urls") {
		cfg.AdvertiseClientUrls = nil
	}
	fs.Visit(func(f *flag.Flag) { cfg.FlagsExplicitlySet[f.Name] = true })
	// Without --initial-cluster this names the member itself, as etcdmain does; a
	// host that has no default address is no error there either.
	_, _ = cfg.UpdateDefaultClusterFromName(byDefault)
	return cfg, nil
}

// takeURLs copies the flags that AddFlags keeps in values of its own.
func takeURLs(cfg *embed.Config, fs *flag.FlagSet) {
	cfg.ListenPeerUrls = flags.UniqueURLsFromFlag(fs, "listen-peer-urls")
	cfg.AdvertisePeerUrls = flags.UniqueURLsFromFlag(fs, "initial-advertise-peer-urls")
	cfg.ListenClientUrls = flags.UniqueURLsFromFlag(fs, "listen-client-urls")
	cfg.ListenClientHttpUrls = flags.UniqueURLsFromFlag(fs, "listen-client-http-urls")
	cfg.AdvertiseClientUrls = flags.UniqueURLsFromFlag(fs, "advertise-client-urls")
	cfg.ListenMetricsUrls = flags.UniqueURLsFromFlag(fs, "listen-metrics-urls")
	cfg.DiscoveryCfg.Endpoints = flags.UniqueStringsFromFlag(fs, "discovery-endpoints")
	cfg.CORS = flags.UniqueURLsMapFromFlag(fs, "cors")
	cfg.HostWhitelist = flags.UniqueStringsMapFromFlag(fs, "host-whitelist")
	cfg.ClientTLSInfo.AllowedHostnames = flags.StringsFromFlag(fs, "client-cert-allowed-hostname")
	cfg.PeerTLSInfo.AllowedCNs = flags.StringsFromFlag(fs, "peer-cert-allowed-cn")
	cfg.PeerTLSInfo.AllowedHostnames = flags.StringsFromFlag(fs, "peer-cert-allowed-hostname")
	cfg.CipherSuites = flags.StringsFromFlag(fs, "cipher-suites")
	cfg.MaxConcurrentStreams = flags.Uint32FromFlag(fs, "max-concurrent-streams")
	cfg.LogOutputs = flags.UniqueStringsFromFlag(fs, "log-outputs")
}

// runEmbedded serves until ctx ends, then stops as etcd does on SIGTERM:
// clients get GOAWAY, open unary calls finish, watches are cut after the
// request timeout (7 s). nil after a stop that was asked for.
func runEmbedded(ctx context.Context, args []string, h slog.Handler) error {
	cfg, err := Config(args)
	if err != nil {
		return err
	}
	level := zapcore.InfoLevel
	if cfg.LogLevel != "" {
		level = logutil.ConvertToZapLevel(cfg.LogLevel)
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapTo(h, level))
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("etcd arguments: %w", err)
	}
	grpc.EnableTracing = false
	cfg.SetupGlobalLoggers()
	e, err := start(ctx, cfg)
	if err != nil {
		return err
	}
	// Before ready it may wait long for a quorum, and be told to stop meanwhile.
	select {
	case <-e.Server.ReadyNotify():
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReady) // no systemd: nothing to tell
	case <-e.Server.StopNotify():
	case <-ctx.Done():
		// Close would wait until it is ready, up to 7 s for a learner whose publish
		// was lost. Nobody is served yet: it ends with the process, as etcdmain
		// does, which takes no signal before it is ready; the log survives that.
		return nil
	}
	select {
	case <-ctx.Done():
		e.Close()
		return nil
	case err := <-e.Err():
		// A listener failed; etcdmain dies at once here, so that nothing half serves.
		return fmt.Errorf("etcd: a listener failed: %w", err)
	case <-e.Server.StopNotify():
		e.Close()
		return errors.New("etcd stopped by itself; its log says why (a removed member does that)")
	}
}

// start is embed.StartEtcd, given up when ctx ends: a joiner may wait there for
// peers. What it was doing ends with the process, as under SIGTERM in etcdmain.
func start(ctx context.Context, cfg *embed.Config) (*embed.Etcd, error) {
	type result struct {
		e   *embed.Etcd
		err error
	}
	done := make(chan result, 1)
	go func() {
		e, err := embed.StartEtcd(cfg)
		done <- result{e, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, fmt.Errorf("start etcd: %w", r.err)
		}
		return r.e, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("told to stop while etcd was starting: %w", ctx.Err())
	}
}

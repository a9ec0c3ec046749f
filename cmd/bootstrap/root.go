package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
)

//go:generate go test -count=1 -run ^TestReference$ . -args -rewrite

// app is what every verb is given: its settings, and the world around it.
type app struct {
	stdout, stderr io.Writer
	environ        []string
	// configFile is read where --config names no other and it is there.
	configFile string
	set        *config.Settings
	log        *slog.Logger
	// running: flags, environment and file were understood and the verb began.
	running bool
}

func newApp(stdout, stderr io.Writer, environ []string) *app {
	return &app{stdout: stdout, stderr: stderr, environ: environ, configFile: config.DefaultFile,
		set: config.New(), log: slog.New(slog.DiscardHandler)}
}

// signalContext ends at the first SIGINT or SIGTERM; a second one ends the
// process at once, by the signal's default action.
func signalContext() (context.Context, func()) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// run carries out one command line and returns its exit code (errors.go).
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	withCompletion(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.running {
		err = &usageError{cmd: cmd.CommandPath(), err: err}
	}
	return a.report(ctx, cmd.CommandPath(), err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "bootstrap",
		Short: "An etcd that hosts itself: seed, pivot, and everything after, without an API",
		Long: `bootstrap makes and runs the etcd under a Kubernetes control plane.

A first node starts a seed, an etcd of one member (init, agent). Further nodes
get a bundle (pki bundle) and run an agent. Then one command carries everything
onto managed members, one per node, while clients go on (pivot).

Every setting is a flag, a variable (--node-name is ETCD_SELFHOST_NODE_NAME) and
a key of the config file (nodeName in ` + config.DefaultFile + `). A flag
wins over the variable, the variable over the file; a flag and its variable that
say different things are an error.

Exit codes: 0 done, 1 failed, 2 not understood, 3 refused, with the refusal's name.`,
		SilenceErrors: true, SilenceUsage: true,
		Args: noArgs, RunE: showHelp,
	}
	root.SetFlagErrorFunc(flagError)
	a.set.Bind(root.PersistentFlags(), config.Global)
	complete(root, "log-level", "debug", "info", "warn", "error")
	complete(root, "log-format", "text", "json")
	root.AddCommand(a.initCmd(), a.agentCmd(), a.etcdCmd(), a.proxyCmd(), a.pkiCmd(),
		a.pivotCmd(), a.unpivotCmd(), a.statusCmd(), a.journalCmd(), a.atticCmd(), a.demoCmd(), a.versionCmd(), a.datadirReadCmd())
	return root
}

// showHelp is what a command does that only groups others.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// verb makes f the body of a command: settings are complete and the log is
// open when it begins.
func (a *app) verb(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return a.body(f, func() config.Sources { return config.Sources{Environ: a.environ, DefaultFile: a.configFile} })
}

// bareVerb is verb for the processes that must start with nothing but their
// own command line and their node's state: no file and no variable counts.
func (a *app) bareVerb(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return a.body(f, func() config.Sources { return config.Sources{} })
}

func (a *app) body(f func(context.Context, []string) error, src func() config.Sources) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.load(cmd.Flags(), src()); err != nil {
			return err
		}
		a.running = true
		return f(cmd.Context(), args)
	}
}

func (a *app) load(flags *pflag.FlagSet, src config.Sources) error {
	unknown, err := a.set.Load(flags, src)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.set.LogLevel)); err != nil {
		return err
	}
	opts := &slog.HandlerOptions{Level: level}
	a.log = slog.New(slog.NewTextHandler(a.stderr, opts))
	if a.set.LogFormat == "json" {
		a.log = slog.New(slog.NewJSONHandler(a.stderr, opts))
	}
	for _, name := range unknown {
		a.log.Warn("variable belongs to no setting", "name", name)
	}
	return nil
}

func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.stdout, format, args...) }

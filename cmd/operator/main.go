// Command operator drives the agents from an EtcdCluster object, inside a
// cluster or outside of it (--kubeconfig). Nothing that a cluster needs depends
// on it: seed, pivot and everything after work through bootstrap as well.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/operator"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/version"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

const help = `operator drives the etcd under this very API from an EtcdCluster object.

It reads the object and the Nodes, finds the agent of each node at its
InternalIP, and does what ` + "`bootstrap pivot`" + ` does, step by step. Agents grant
one driver at a time, so that any number of operators and commands may run.

usage:
  operator [flags]   work until SIGTERM
  operator version   print the version
  operator help      print this

flags:
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

type options struct {
	operator.Config
	kubeconfig, level, format string
}

func (o *options) flags(out io.Writer) *pflag.FlagSet {
	f := pflag.NewFlagSet("operator", pflag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {}
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`FILE` that says how to reach the API; without it, the pod's ServiceAccount")
	f.StringVar(&o.Namespace, "namespace", operator.DefaultNamespace, "where the EtcdCluster, the Lease and the Secret are")
	f.StringVar(&o.Secret, "driver-secret", operator.DefaultSecret, "Secret with ca.crt, tls.crt and tls.key of a driver")
	f.StringVar(&o.CertDir, "driver-cert-dir", "", "`DIR` with ca.crt, driver.crt and driver.key; the Secret is not read then")
	f.IntVar(&o.AgentPort, "agent-port", wire.DefaultPorts.Agent, "port of every node's agent")
	f.BoolVar(&o.LeaderElect, "leader-elect", true, "wait for the Lease, so that operators take turns")
	f.StringVar(&o.MetricsAddress, "metrics-address", ":2383", "where metrics are served over HTTP; 0: nowhere")
	f.StringVar(&o.HealthAddress, "health-address", "127.0.0.1:2384", "where /healthz and /readyz are served; 0: nowhere")
	f.DurationVar(&o.LookEvery, "look-every", operator.DefaultLookEvery, "pause between looks when there is nothing to do")
	f.StringVar(&o.level, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.format, "log-format", "text", "text or json")
	return f
}

// run returns the exit code: 0 done, 1 failed, 2 not understood.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	f := o.flags(stderr)
	if len(args) == 1 {
		switch args[0] {
		case "version", "--version":
			fmt.Fprintf(stdout, "etcd-selfhost %s\n", version.Version)
			return 0
		case "help", "--help", "-h":
			fmt.Fprint(stdout, help, f.FlagUsages())
			return 0
		}
	}
	err := f.Parse(args)
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("takes no words, found %q", f.Arg(0))
	}
	if err == nil {
		err = o.logger(stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "operator: %v; see `operator help`\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := o.work(ctx); err != nil {
		o.Logger.Error("operator ends", "error", err)
		return 1
	}
	return 0
}

// logger also takes what the libraries log: they know only one logger each.
func (o *options) logger(out io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler
	switch o.format {
	case "text":
		h = slog.NewTextHandler(out, opts)
	case "json":
		h = slog.NewJSONHandler(out, opts)
	default:
		return fmt.Errorf("--log-format %q: expected text or json", o.format)
	}
	o.Logger = slog.New(h)
	ctrl.SetLogger(logr.FromSlogHandler(h))
	klog.SetLogger(logr.FromSlogHandler(h))
	return nil
}

func (o *options) work(ctx context.Context) error {
	conf, err := o.rest()
	if err != nil {
		return fmt.Errorf("how to reach the API: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unnamed-host"
	}
	o.REST, o.Name = conf, fmt.Sprintf("%s-%d-%d", host, os.Getpid(), time.Now().Unix())
	o.Logger.Info("operator starts", "version", version.Version, "name", o.Name, "api", conf.Host)
	return operator.Run(ctx, o.Config)
}

func (o *options) rest() (*rest.Config, error) {
	var conf *rest.Config
	var err error
	if o.kubeconfig != "" {
		conf, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	} else if conf, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
		err = errors.New("not in a pod, and no --kubeconfig")
	}
	if err != nil {
		return nil, err
	}
	conf.QPS, conf.Burst = 20, 40
	conf.UserAgent = "etcd-selfhost-operator/" + version.Version
	return conf, nil
}

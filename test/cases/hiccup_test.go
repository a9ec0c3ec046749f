//go:build cases || sweep

package cases

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/lab"
	"github.com/etcd-selfhost/etcd-selfhost/test/rig"
)

// P4: for 6 s the etcd answers promotions and additions with "too many
// requests", and for some of them that is not even true.
func TestP4TooManyRequests(t *testing.T) {
	t.Parallel()
	tooManyRequests(t, 6*time.Second)
}

// tooManyRequests puts a server of the test's own before the seed's etcd. Every
// membership call fails for as long: additions after they were made, promotions
// before. The pivot goes on by itself, with one entry per node.
func tooManyRequests(t *testing.T, long time.Duration) {
	l := rig.New(t, 3, "--etcd-binary", wrapper(t, `
case " $* " in *" --name=cp-1-seed-1 "*)
	n=$#
	while [ $n -gt 0 ]; do
		a=$1; shift; n=$((n-1))
		case $a in --listen-client-urls=*) a=${a%:12379}:22379 ;; esac
		set -- "$@" "$a"
	done ;;
esac`))
	ctx := rig.Context(t, long+4*time.Minute)
	rig.Must(t, l.Init(ctx))
	begun := map[string]time.Time{}
	failed := map[string]int{}
	var mu sync.Mutex
	busy := func(method string) bool {
		mu.Lock()
		defer mu.Unlock()
		if begun[method].IsZero() {
			begun[method] = time.Now()
		}
		if time.Since(begun[method]) < long {
			failed[method]++
			return true
		}
		return false
	}
	no := status.Error(codes.ResourceExhausted, "etcdserver: too many requests")
	// Its port is free until its etcd, which listens elsewhere, has taken the
	// place: a start is refused where a port is taken.
	l.Eventually(60*time.Second, "the seed to listen on its other port", func() (bool, string) {
		c, err := net.DialTimeout("tcp", l.Nodes[0].Ref.HostPort(22379), time.Second)
		if err != nil {
			return false, err.Error()
		}
		return true, fmt.Sprint(c.Close())
	})
	between(t, l.Nodes[0], func(method string, forward func() error) error {
		switch {
		case strings.HasSuffix(method, "/MemberPromote") && busy(method):
			return no
		case strings.HasSuffix(method, "/MemberAdd") && busy(method):
			_ = forward() // what came of it is not what the caller hears
			return no
		}
		return forward()
	})
	for _, n := range l.Nodes[1:] {
		rig.Must(t, l.Join(n))
	}
	rig.Must(t, l.AwaitSeed(ctx))
	rig.Must(t, l.AwaitAgents(ctx, l.Nodes...))
	w := load(ctx, t, l)
	r := l.Run(l.PivotArgs(0)...)
	if r.Code != 0 {
		t.Fatal(r)
	}
	for _, want := range []string{"/etcdserverpb.Cluster/MemberAdd", "/etcdserverpb.Cluster/MemberPromote"} {
		if failed[want] == 0 {
			t.Errorf("%s was never refused: %v", want, failed)
		}
	}
	if n := strings.Count(r.Stdout, " s  RegisterLearner cp-"); n != 3 || strings.Contains(r.Stdout, "RemoveMember cp-2") {
		t.Errorf("%d learners registered, want each once:\n%s", n, r.Stdout)
	}
	t.Logf("refused: %v", failed)
	finish(ctx, t, l, w)
}

// raw passes messages on as they are.
type raw struct{}

func (raw) Name() string { return "raw" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// between serves gRPC where the seed of n advertises its client port and passes
// everything to port 22379 of the same address, through hook.
func between(t *testing.T, n *lab.Node, hook func(method string, forward func() error) error) {
	t.Helper()
	client, err := n.EtcdTLS()
	rig.Must(t, err)
	cert, err := tls.LoadX509KeyPair(filepath.Join(n.PKIDir(), "server.crt"), filepath.Join(n.PKIDir(), "server.key"))
	rig.Must(t, err)
	back, err := grpc.NewClient("passthrough:///"+n.Ref.HostPort(22379), grpc.WithTransportCredentials(credentials.NewTLS(client)),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(64<<20), grpc.WaitForReady(true)))
	rig.Must(t, err)
	ln, err := net.Listen("tcp", n.Ref.HostPort(12379))
	rig.Must(t, err)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert})),
		grpc.ForceServerCodecV2(raw{}), grpc.MaxRecvMsgSize(64<<20), grpc.UnknownServiceHandler(func(_ any, in grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(in)
			return hook(method, func() error { return pass(in, back, method) })
		}))
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ln) }) // ended by Stop
	t.Cleanup(func() {
		s.Stop()
		serving.Wait()
		back.Close()
	})
}

// pass is one call, both ways, until either side ends it.
func pass(in grpc.ServerStream, back *grpc.ClientConn, method string) error {
	md, _ := metadata.FromIncomingContext(in.Context())
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(in.Context(), md))
	defer cancel()
	out, err := back.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		for {
			var b []byte
			if in.RecvMsg(&b) != nil {
				_ = out.CloseSend() // the caller has said all, or is gone
				return
			}
			if out.SendMsg(&b) != nil {
				return // what ended it is what RecvMsg below says
			}
		}
	}()
	for {
		var b []byte
		if err := out.RecvMsg(&b); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := in.SendMsg(&b); err != nil {
			return err
		}
	}
}

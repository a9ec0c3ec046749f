// Command bootstrap is the node's side of etcd-selfhost: it makes a node, runs
// its agent, its etcd and its proxy, and drives them without any API.
package main

import "os"

func main() {
	ctx, stop := signalContext()
	code := newApp(os.Stdout, os.Stderr, os.Environ()).run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

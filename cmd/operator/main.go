// Command operator will be the in-cluster side of etcd-selfhost: it is to drive
// the agents from an EtcdCluster object. The controller is not part of this
// release; what a cluster needs works without it, through bootstrap.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/version"
)

const help = `operator is the in-cluster side of etcd-selfhost.

The controller is not part of this release. Nothing depends on it: seed, pivot
and everything after are driven by the bootstrap binary, with or without an API.

usage:
  operator version   print the version
  operator help      print this
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns 0 for version and help, 2 for everything else.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 {
		switch args[0] {
		case "version", "--version":
			fmt.Fprintf(stdout, "etcd-selfhost %s\n", version.Version)
			return 0
		case "help", "--help", "-h":
			fmt.Fprint(stdout, help)
			return 0
		}
	}
	fmt.Fprintln(stderr, "operator: the controller is not part of this release; see `operator help`")
	return 2
}

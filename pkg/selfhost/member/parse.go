package member

import (
	"fmt"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.uber.org/zap"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Flags reads an etcd command line (without the program) of any version into
// name → value: --name=value, --name value, and a bare --name as "true".
func Flags(args []string) map[string]string {
	flags := map[string]string{}
	for i := 0; i < len(args); i++ {
		name, ok := strings.CutPrefix(args[i], "-")
		if !ok {
			continue
		}
		name = strings.TrimPrefix(name, "-")
		if n, v, ok := strings.Cut(name, "="); ok {
			flags[n] = v
			continue
		}
		flags[name] = "true"
		if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			flags[name] = args[i+1]
			i++
		}
	}
	return flags
}

// forbidden are etcd flags that would go around lock, gate or recovery.
var forbidden = map[string]string{
	"config-file":       "every etcd setting is an argument, so that the command line is the truth (DESIGN, Lock and gate)",
	"force-new-cluster": "it drops acknowledged writes; recovery builds a new seed instead (DESIGN, Recovery 5)",
	"wal-dir":           "data and log are locked, moved and classed as one directory (CASES L7)",
	"unsafe-no-fsync":   "an acknowledged write survives (I5)",
}

// checkArgs refuses arguments that lock and gate do not cover.
func checkArgs(id wire.Identity, slot wire.Slot, args []string) error {
	flags := Flags(args)
	for name, why := range forbidden {
		if v, ok := flags[name]; ok && v != "false" {
			return &wire.Refusal{Name: "ForbiddenArgument", Node: id.Node.Name, Found: "--" + name + "=" + v, Want: "no such argument: " + why}
		}
	}
	if dir := flags["data-dir"]; dir != id.SlotDir(slot) {
		return &wire.Refusal{Name: "OtherDataDir", Node: id.Node.Name, Found: fmt.Sprintf("--data-dir=%s", dir),
			Want: fmt.Sprintf("the %s slot's directory %s, beside which the lock lies", slot, id.SlotDir(slot))}
	}
	return nil
}

// NewIDs computes, as etcd does, the IDs that a one-member cluster made from
// these arguments will have. They are known before it first starts.
func NewIDs(name, initialCluster, token string) (member, cluster wire.ID, err error) {
	urls, err := types.NewURLsMap(initialCluster)
	if err != nil {
		return 0, 0, fmt.Errorf("read the initial cluster: %w", err)
	}
	c, err := membership.NewClusterFromURLsMap(zap.NewNop(), token, urls)
	if err != nil {
		return 0, 0, fmt.Errorf("compute the new cluster's IDs: %w", err)
	}
	m := c.MemberByName(name)
	if m == nil {
		return 0, 0, fmt.Errorf("initial cluster %q does not name %s", initialCluster, name)
	}
	return wire.ID(m.ID), wire.ID(c.ID()), nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// check lists what init refuses, all of it, before anything is written. An
// error is a fact that could not be learnt (I10); in a dry run, which may have
// no right to look, that is one more line of the list.
func (n *node) check(ctx context.Context, dry bool) (refusals []error, err error) {
	no := func(r *wire.Refusal) {
		if r != nil {
			refusals = append(refusals, r)
		}
	}
	no(runtimeSupported(n.id))
	no(addressesOurs(n.id.Node))
	for _, d := range []struct{ flag, dir string }{{"--pki-dir", n.id.PKIDir}, {"--state-dir", n.id.StateDir}, {"--data-dir", n.id.DataDir}} {
		no(dirUsable(n.id.Node.Name, d.flag, d.dir))
	}
	checks := []func() error{
		func() error { r, err := n.checkIdentity(); no(r); return err },
		func() error { r, err := n.checkBundle(); no(r); return err },
		func() error { rs, err := n.checkData(ctx, dry); refusals = append(refusals, rs...); return err },
		func() error { _, _, err := pki.Plan(n.pki); return err },
	}
	for _, c := range checks {
		err := c()
		switch {
		case err == nil:
		case dry:
			refusals = append(refusals, err)
		case len(refusals) > 0:
			return refusals, nil // reason enough, and most likely this one's too
		default:
			return nil, err
		}
	}
	return refusals, nil
}

func (n *node) checkIdentity() (*wire.Refusal, error) {
	have, found, err := stored(n.id.StateDir)
	if err != nil || !found {
		return nil, err
	}
	n.begun, n.made = true, true
	for _, f := range []string{wire.FileEpoch, wire.FileSpec, wire.FileSlots} {
		if _, err := os.Lstat(n.id.State(f)); errors.Is(err, fs.ErrNotExist) {
			n.made = false // cut short; Prepare completes it
		} else if err != nil {
			return nil, err
		}
	}
	return identityDiffers(have, n.id, func(string) bool { return true }), nil
}

// dirUsable refuses a directory in which nothing could be made, before the first
// file of the node is.
func dirUsable(node, flag, dir string) *wire.Refusal {
	at := dir
	for {
		st, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(at) != at {
			at = filepath.Dir(at)
			continue
		}
		r := &wire.Refusal{Name: "DirectoryNotUsable", Node: node, Found: fmt.Sprintf("%s %s: ", flag, dir),
			Want: "a directory to write in: run it as root, or name another with " + flag}
		switch {
		case err != nil:
			r.Found += err.Error()
		case !st.IsDir():
			r.Found += at + " is no directory"
		default:
			if err = unix.Access(at, unix.W_OK|unix.X_OK); err == nil {
				return nil
			}
			r.Found += fmt.Sprintf("%s cannot be written to: %v", at, err)
		}
		return r
	}
}

// checkBundle: a node begun from a bundle belongs to the cluster that made it.
func (n *node) checkBundle() (*wire.Refusal, error) {
	path := n.id.State(pki.FileBundle)
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &wire.Refusal{Name: "JoinedByBundle", Node: n.id.Node.Name, Found: path + ", so this node was given to another cluster",
		Want: "`bootstrap agent --bundle FILE` to go on there, or another --state-dir"}, nil
}

// addressesOurs refuses addresses that no interface of this host has: nothing
// could listen there, and the certificates would be for somebody else.
func addressesOurs(ref wire.NodeRef) *wire.Refusal {
	as, err := net.InterfaceAddrs()
	if err != nil {
		return &wire.Refusal{Name: "AddressNotOurs", Node: ref.Name, Found: "this host's addresses cannot be listed: " + err.Error()}
	}
	var have []netip.Addr
	for _, a := range as {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			have = append(have, p.Addr().Unmap().WithZone(""))
		}
	}
	for _, s := range append([]string{ref.Address, ref.Proxy()}, ref.MoreAddresses...) {
		ip, err := netip.ParseAddr(s)
		if err == nil && (ip.IsLoopback() || slices.Contains(have, ip.Unmap())) {
			continue // the whole of 127.0.0.0/8 is this host
		}
		var names []string
		for _, h := range have {
			if !h.IsLinkLocalUnicast() {
				names = append(names, h.String())
			}
		}
		return &wire.Refusal{Name: "AddressNotOurs", Node: ref.Name, Found: s + " on no interface of this host",
			Want: "one of " + strings.Join(names, ", ")}
	}
	return nil
}

// ours are the names under the data directory that init may find: what our own
// earlier, cut-short run or a fresh filesystem leaves. The slots are read.
var ours = map[string]bool{"lost+found": true, "attic": true, "data": true, "seed": true,
	"data.lock": true, "seed.lock": true, "data.gate.json": true, "seed.gate.json": true, wire.FileAgentLock: true}

// checkData refuses a data directory that holds anything (CASES L3: etcd would
// ignore every initial-* flag and serve the old keys under the new name).
func (n *node) checkData(ctx context.Context, dry bool) ([]error, error) {
	if n.made {
		return nil, nil // the directories are this node's own
	}
	root := n.id.DataDir
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []error
	for _, slot := range []wire.Slot{wire.SlotMember, wire.SlotSeed} {
		info, err := n.readSlot(ctx, slot, dry)
		if err != nil {
			return out, err
		}
		if info.Class != wire.ClassAbsent && info.Class != wire.ClassEmpty {
			out = append(out, dataFound(n.id, info))
		}
	}
	var strange []string
	for _, e := range entries {
		if !ours[e.Name()] {
			strange = append(strange, e.Name())
		}
	}
	if slices.Contains(strange, "member") { // an etcd of kubeadm's, right here
		info, err := datadir.ReadIsolated(ctx, "", root)
		if err != nil {
			return out, err
		}
		return append(out, dataFound(n.id, info)), nil
	}
	if len(strange) > 0 {
		out = append(out, dataFound(n.id, datadir.Info{Dir: root, Class: wire.ClassForeign, Reason: "it holds " + strings.Join(strange, ", ")}))
	}
	return out, nil
}

// readSlot reads a slot's directory: under its lock, which a dry run must not
// make and only asks for.
func (n *node) readSlot(ctx context.Context, slot wire.Slot, dry bool) (datadir.Info, error) {
	if !dry {
		return datadir.Classify(ctx, "", n.id, slot)
	}
	pid, err := datadir.HolderPID(n.id.SlotLock(slot))
	if err != nil {
		return datadir.Info{}, err
	}
	dir := n.id.SlotDir(slot)
	if pid != 0 {
		return datadir.Info{Dir: dir, Class: wire.ClassRunning, Reason: fmt.Sprintf("held by pid %d (%s)", pid, datadir.Cmdline(pid))}, nil
	}
	return datadir.ReadIsolated(ctx, "", dir)
}

// dataFound names what was found and the way out; the attic is where init
// itself leaves old directories alone.
func dataFound(id wire.Identity, info datadir.Info) error {
	what := info.Dir
	if what == id.DataDir {
		what = filepath.Join(what, "*")
	}
	want := fmt.Sprintf("nothing there, or another --data-dir; to keep that data and begin anew, move %s into %s", what, id.Attic())
	if info.Class == wire.ClassRunning {
		want = "no etcd running there, or another --data-dir"
	}
	return &wire.Refusal{Name: "DataFound", Node: id.Node.Name, Cites: "I3", Found: info.Dir + ": " + info.Identity(), Want: want}
}

func hostPort(ip string, port int) string { return net.JoinHostPort(ip, strconv.Itoa(port)) }

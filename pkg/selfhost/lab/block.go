// Package lab runs a whole control plane's etcd on one machine: nodes as
// loopback addresses, agents as processes of the real binary, disks as folders.
// The demo and the tests are built on it. It kills only what it started, found
// by the locks that those processes hold.
package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Block is a 127.x.y.0/24 that nobody else of ours uses, so that every node
// has the default ports on an address of its own.
type Block struct {
	x, y int
	lock *os.File
}

// Node is the address of node i (from 0): .11 and on. Proxy: .21 and on.
func (b *Block) Node(i int) string { return b.IP(11 + i) }

// Proxy is the address of node i's proxy.
func (b *Block) Proxy(i int) string { return b.IP(21 + i) }

// IP is an address of the block.
func (b *Block) IP(last int) string { return fmt.Sprintf("127.%d.%d.%d", b.x, b.y, last) }

// Release gives the block back.
func (b *Block) Release() { b.lock.Close() }

// TakeBlock finds a free block, 127.0.0.0/24 first, and keeps others of ours
// out by a lock until Release or the process's end.
func TakeBlock() (*Block, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("etcd-selfhost-blocks-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder for address locks: %w", err)
	}
	for n := range 256 {
		b := &Block{x: n / 64, y: n % 64}
		ok, err := b.take(dir)
		if err != nil {
			return nil, err
		}
		if ok {
			return b, nil
		}
	}
	return nil, errors.New("no free 127.x.y.0/24 block among 256 tried; is another demo or test run left over?")
}

func (b *Block) take(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("127.%d.%d.lock", b.x, b.y)), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !b.free() {
		f.Close()
		return false, nil
	}
	b.lock = f
	return true, nil
}

// free says whether every port we would use is free on the block.
func (b *Block) free() bool {
	try := func(ip string, ports ...int) bool {
		for _, p := range ports {
			l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(p)))
			if err != nil {
				return false
			}
			l.Close()
		}
		return true
	}
	for i := range 5 {
		if !try(b.Node(i), 2379, 2380, 2381, 2382, 12379, 12380, 12381) || !try(b.Proxy(i), 2379) {
			return false
		}
	}
	return try(b.IP(1), 6443)
}

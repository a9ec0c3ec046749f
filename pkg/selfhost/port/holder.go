package port

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Holders lists the processes that listen where addr (an IP and a port) would;
// none where nobody does, or where /proc does not say. It opens no socket, so
// it disturbs nobody who is about to listen there.
func Holders(addr string) []string {
	inodes := listening(addr)
	if len(inodes) == 0 {
		return nil
	}
	var out []string
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		to, err := os.Readlink(fd)
		if err != nil {
			continue // ended meanwhile, or another user's
		}
		if inode, ok := strings.CutPrefix(to, "socket:["); ok && slices.Contains(inodes, strings.TrimSuffix(inode, "]")) {
			pid := strings.Split(fd, "/")[2]
			if who := process(pid); !slices.Contains(out, who) {
				out = append(out, who)
			}
		}
	}
	return out
}

// Listened says whether any process listens where addr would.
func Listened(addr string) bool { return len(listening(addr)) > 0 }

// process is "pid 4711 (command line)", the line cut at 200 bytes.
func process(pid string) string {
	b, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	line := strings.ReplaceAll(strings.TrimRight(string(b), "\x00"), "\x00", " ")
	if err != nil || line == "" {
		return "pid " + pid
	}
	if len(line) > 200 {
		line = line[:200] + "…"
	}
	return fmt.Sprintf("pid %s (%s)", pid, line)
}

// listening finds the sockets' inodes in /proc/net/tcp and tcp6 (proc(5)): state
// 0A, the same port, and the same address or a wildcard on either side.
func listening(addr string) []string {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return nil
	}
	port, err := strconv.ParseUint(p, 10, 16)
	ip, ipErr := netip.ParseAddr(host)
	if err != nil || ipErr != nil {
		return nil
	}
	ip = ip.Unmap().WithZone("")
	var out []string
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			at, inode, ok := parseRow(line)
			if ok && uint64(at.Port()) == port && (at.Addr() == ip || at.Addr().IsUnspecified() || ip.IsUnspecified()) {
				out = append(out, inode)
			}
		}
	}
	return out
}

// parseRow reads one listening socket of /proc/net/tcp or tcp6: the address is
// the kernel's 32-bit words in host order (little-endian on what we build for).
func parseRow(line string) (at netip.AddrPort, inode string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != "0A" {
		return at, "", false
	}
	host, p, found := strings.Cut(f[1], ":")
	raw, err := hex.DecodeString(host)
	port, perr := strconv.ParseUint(p, 16, 16)
	if !found || err != nil || perr != nil || len(raw)%4 != 0 {
		return at, "", false
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	ip, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), f[9], ok
}

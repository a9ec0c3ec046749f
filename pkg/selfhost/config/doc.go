// Package config gives every setting of the binaries one name and one value.
// A setting is a flag (--node-name), a variable (ETCD_SELFHOST_NODE_NAME) and a
// key of the config file (nodeName); the three names follow from each other.
// A flag wins over the variable, the variable over the file, the file over the
// default. A flag and its variable that say different things are an error: one
// of them is a mistake, and which one is not for a program to guess.
//
// The config file (default [DefaultFile]) is one YAML document:
//
//	apiVersion: etcd.selfhost.dev/v1alpha1
//	nodeName: cp-1
//	address: [10.0.0.11, "fd00::11"]
//	dataDir: /var/lib/etcd
//
// A key that is unknown, given twice or of the wrong form is an error that
// names the line. An empty variable counts as not set. What is asked of one
// run alone (--dry-run, --output, …) is a flag only.
package config

import (
	"fmt"
	"strings"
)

// Where settings come from besides flags.
const (
	// APIVersion is the first key of every config file. It names the release of
	// the format, so that a later one can tell old files from new.
	APIVersion = "etcd.selfhost.dev/v1alpha1"
	// DefaultFile is read when it is there and --config names no other.
	DefaultFile = "/etc/etcd-selfhost/config.yaml"
	// EnvPrefix begins the name of every variable of ours.
	EnvPrefix = "ETCD_SELFHOST_"
)

// EnvName is the variable of a flag: node-name, ETCD_SELFHOST_NODE_NAME.
func EnvName(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// KeyName is the key in the config file of a flag: node-name, nodeName.
func KeyName(flag string) string {
	words := strings.Split(flag, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// Error is a setting that cannot be used. It is the user's to mend: a usage error.
type Error struct {
	// Where says who set it: "--node-name", "ETCD_SELFHOST_NODE_NAME", "FILE:12".
	Where string
	Text  string
}

func (e *Error) Error() string { return e.Where + ": " + e.Text }

func errorf(where, format string, args ...any) error {
	return &Error{Where: where, Text: fmt.Sprintf(format, args...)}
}

package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, tc := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"version"}, 0, "etcd-selfhost ", ""},
		{[]string{"--help"}, 0, "--driver-cert-dir", ""},
		{[]string{"--no-such-flag"}, 2, "", "no-such-flag"},
		{[]string{"drive"}, 2, "", `found "drive"`},
		{[]string{"--log-level", "loud"}, 2, "", "--log-level"},
		{[]string{"--log-format", "xml"}, 2, "", "--log-format"},
		{[]string{"--kubeconfig", "/no/such/file"}, 1, "", "how to reach the API"},
	} {
		var out, errs bytes.Buffer
		code := run(tc.args, &out, &errs)
		if code != tc.code || !strings.Contains(out.String(), tc.stdout) || !strings.Contains(errs.String(), tc.stderr) {
			t.Errorf("%v: %d, %q, %q", tc.args, code, out.String(), errs.String())
		}
	}
}

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
		{[]string{"--help"}, 0, "not part of this release", ""},
		{nil, 2, "", "not part of this release"},
		{[]string{"--leader-elect"}, 2, "", "not part of this release"},
	} {
		var out, errs bytes.Buffer
		code := run(tc.args, &out, &errs)
		if code != tc.code || !strings.Contains(out.String(), tc.stdout) || !strings.Contains(errs.String(), tc.stderr) {
			t.Errorf("%v: %d, %q, %q", tc.args, code, out.String(), errs.String())
		}
	}
}

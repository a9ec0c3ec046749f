package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/driver"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Exit codes.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3
)

// usageError is a command line that was not understood.
type usageError struct {
	cmd string
	err error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef is for what a verb finds wrong with its own flags.
func usagef(format string, args ...any) error { return &usageError{err: fmt.Errorf(format, args...)} }

// goOn is an error whose text says how to go on after an interrupt.
type goOn struct {
	text string
	err  error
}

func (e *goOn) Error() string { return e.text }
func (e *goOn) Unwrap() error { return e.err }

// exitCode is what err means to a script.
func exitCode(err error) int {
	var usage *usageError
	var setting *config.Error
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage), errors.As(err, &setting):
		return exitUsage
	case refused(err):
		return exitRefused
	}
	return exitFailed
}

func refused(err error) bool {
	var r *wire.Refusal
	var d *driver.RefusedError
	return errors.As(err, &r) || errors.As(err, &d)
}

// report says on stderr how the command ended, and returns its exit code.
func (a *app) report(ctx context.Context, cmd string, err error) int {
	code := exitCode(err)
	if code == exitDone {
		return code
	}
	text := err.Error()
	var stopped *goOn
	switch {
	case code == exitRefused:
		text = "refused: " + strings.ReplaceAll(strings.TrimPrefix(text, "refuse "), "\nrefuse ", "\n  ")
	case code == exitFailed && ctx.Err() != nil && errors.Is(err, context.Canceled) && !errors.As(err, &stopped):
		text = "interrupted"
	}
	fmt.Fprintf(a.stderr, "%s: %s\n", cmd, strings.TrimRight(text, "\n"))
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		fmt.Fprintf(a.stderr, "you are not root here: run it as root, or name files and directories of your own (--state-dir, --data-dir, --pki-dir, --identity)\n")
	}
	if code == exitUsage {
		var usage *usageError
		if errors.As(err, &usage) && usage.cmd != "" {
			cmd = usage.cmd
		}
		fmt.Fprintf(a.stderr, "run `%s --help` for its flags\n", cmd)
	}
	return code
}

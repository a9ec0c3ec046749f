package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Sources are where Load looks besides flags.
type Sources struct {
	// Environ is NAME=value, as os.Environ gives it.
	Environ []string
	// DefaultFile is read if it is there and --config names no other; empty: none.
	DefaultFile string
}

// Load completes the settings bound to fs, after its flags were parsed, from
// environment and config file, and checks them. unknown lists variables that
// begin with EnvPrefix and belong to no setting; they are not an error, since
// Kubernetes itself sets such ones for a Service of that name. An error is an
// *Error, or the file's own when it cannot be read; s is then half done.
func (s *Settings) Load(flags *pflag.FlagSet, src Sources) (unknown []string, err error) {
	env, unknown := environment(src.Environ)
	s.given = map[string]string{}
	scratch := New()
	all := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	scratch.Bind(all, ^Group(0))

	if err := s.one(flags, all, "config", env["config"], entry{}); err != nil {
		return unknown, err
	}
	file, err := s.file(src.DefaultFile)
	if err != nil {
		return unknown, err
	}
	for _, d := range settings {
		if d.flag == "config" {
			continue
		}
		if err := s.one(flags, all, d.flag, env[d.flag], file[d.flag]); err != nil {
			return unknown, err
		}
	}
	return unknown, s.check()
}

// file reads the config file that is in force.
func (s *Settings) file(def string) (map[string]entry, error) {
	path := s.Config
	if path == "" {
		path = def
	}
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && s.Config == "" {
		return nil, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errorf(s.where("config"), "there is no file %s", path)
	}
	if err != nil {
		return nil, errorf(path, "the config file cannot be read: %v", err)
	}
	return parse(path, b)
}

// one settles one setting. Its value is tried in all also where this verb does
// not have the flag, so that a wrong file or variable is wrong for every verb.
func (s *Settings) one(flags, all *pflag.FlagSet, name, env string, file entry) error {
	tried := func(where string, vals []string) (string, error) {
		v := all.Lookup(name).Value
		if err := assign(v, vals); err != nil {
			return "", errorf(where, "%v", BadValue(v.Type(), strings.Join(vals, ","), err))
		}
		return v.String(), nil
	}
	if file.vals != nil {
		if _, err := tried(file.where, file.vals); err != nil {
			return err
		}
	}
	f := flags.Lookup(name)
	if f != nil {
		if _, ours := f.Annotations[annotation]; !ours {
			f = nil
		}
	}
	if env != "" {
		v, err := tried(EnvName(name), []string{env})
		if err != nil {
			return err
		}
		if f != nil && f.Changed && f.Value.String() != v {
			return errorf("--"+name, "says %s, and %s says %s; let one of them go", plain(f.Value.String()), EnvName(name), plain(v))
		}
	}
	switch {
	case f == nil:
		return nil
	case f.Changed:
		s.given[name] = "--" + name
		return nil
	case env != "":
		s.given[name] = EnvName(name)
		return assign(f.Value, []string{env})
	case file.vals != nil:
		s.given[name] = file.where
		return assign(f.Value, file.vals)
	}
	return nil
}

// assign replaces a flag's value; a list's Set would add to it.
func assign(v pflag.Value, vals []string) error {
	l, ok := v.(pflag.SliceValue)
	if !ok {
		return v.Set(vals[0])
	}
	var items []string
	for _, val := range vals {
		for item := range strings.SplitSeq(val, ",") {
			items = append(items, strings.TrimSpace(item))
		}
	}
	return l.Replace(items)
}

// BadValue says what is wrong with a value of a pflag type, in words.
func BadValue(kind, val string, err error) error {
	switch kind {
	case "int", "int64":
		if errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("%s is too large a number", val)
		}
		return fmt.Errorf("%q is no whole number", val)
	case "duration":
		return fmt.Errorf("%q is no duration; write a number with its unit, as in 90s or 5m", val)
	case "bool":
		return fmt.Errorf("%q is neither true nor false", val)
	}
	return fmt.Errorf("%q: %w", val, err)
}

func plain(v string) string { return strings.Trim(v, "[]") }

// environment finds the variables of settings, by flag, and those of none.
func environment(environ []string) (known map[string]string, unknown []string) {
	known = map[string]string{}
	flags := map[string]string{EnvPrefix + "CACHE": ""} // where binaries are cached: the Makefile's
	for _, d := range settings {
		flags[EnvName(d.flag)] = d.flag
	}
	for _, kv := range environ {
		name, val, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, EnvPrefix) || val == "" {
			continue
		}
		if flag, ok := flags[name]; ok {
			known[flag] = val
		} else {
			unknown = append(unknown, name)
		}
	}
	return known, unknown
}

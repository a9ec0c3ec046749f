package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// entry is one key of the file: its values and where it stands.
type entry struct {
	where string
	vals  []string
}

// parse reads a config file into entries by flag name.
func parse(path string, b []byte) (map[string]entry, error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, errorf(path, "is empty; its first line must be apiVersion: %s", APIVersion)
	} else if err != nil {
		return nil, errorf(path, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errorf(path, "holds more than one document")
	}
	root := &doc
	if root.Kind == yaml.DocumentNode {
		root = root.Content[0]
	}
	if root.Kind != yaml.MappingNode {
		return nil, errorf(at(path, root), "expected keys and values, beginning with apiVersion: %s", APIVersion)
	}
	return keys(path, root)
}

func keys(path string, root *yaml.Node) (map[string]entry, error) {
	flags := map[string]string{}
	for _, d := range settings {
		if d.flag != "config" {
			flags[KeyName(d.flag)] = d.flag
		}
	}
	out, seen := map[string]entry{}, map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		where := at(path, k)
		if line, ok := seen[k.Value]; ok {
			return nil, errorf(where, "%s was given before, on line %d", k.Value, line)
		}
		seen[k.Value] = k.Line
		if k.Value == "apiVersion" {
			if v.Value != APIVersion {
				return nil, errorf(where, "apiVersion is %q; this release reads %s", v.Value, APIVersion)
			}
			continue
		}
		flag, ok := flags[k.Value]
		if !ok {
			return nil, errorf(where, "unknown key %q%s", k.Value, suggest(k.Value, flags))
		}
		vals, err := values(v, isList(flag))
		if err != nil {
			return nil, errorf(at(path, v), "%s: %v", k.Value, err)
		}
		out[flag] = entry{where: where, vals: vals}
	}
	if _, ok := seen["apiVersion"]; !ok {
		return nil, errorf(path, "names no apiVersion; write apiVersion: %s", APIVersion)
	}
	return out, nil
}

// values of a node: a scalar, or for a list also a sequence of scalars.
func values(v *yaml.Node, list bool) ([]string, error) {
	if v.Kind == yaml.AliasNode {
		v = v.Alias
	}
	nodes := []*yaml.Node{v}
	if v.Kind == yaml.SequenceNode {
		if !list {
			return nil, errors.New("expected one value, found a list")
		}
		nodes = v.Content
	}
	var out []string
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
			return nil, fmt.Errorf("line %d holds no value; take the key out for the default", n.Line)
		}
		out = append(out, n.Value)
	}
	if len(out) == 0 {
		return nil, errors.New("an empty list; take the key out for the default")
	}
	return out, nil
}

func isList(flag string) bool { return flag == "address" || flag == "agents" || flag == "extra-sans" }

func at(path string, n *yaml.Node) string { return fmt.Sprintf("%s:%d", path, n.Line) }

// suggest names the known key that was likely meant: the same letters in
// another case or with other separators, as flags and variables have them.
func suggest(key string, flags map[string]string) string {
	fold := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s))
	}
	var known []string
	for k := range flags {
		if fold(k) == fold(key) || fold(k)+"s" == fold(key) || fold(k)+"es" == fold(key) {
			return fmt.Sprintf("; did you mean %q?", k)
		}
		known = append(known, k)
	}
	slices.Sort(known)
	return "; known are apiVersion, " + strings.Join(known, ", ")
}

// Command reference writes the API reference from a CRD:
//
//	reference CRD.yaml OUT.md
package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// crd is as much of a CustomResourceDefinition as the reference shows.
type crd struct {
	Spec struct {
		Group string
		Scope string
		Names struct {
			Kind       string
			ShortNames []string `yaml:"shortNames"`
		}
		Versions []struct {
			Name    string
			Columns []struct {
				Name, Description string
				JSONPath          string `yaml:"jsonPath"`
			} `yaml:"additionalPrinterColumns"`
			Schema struct {
				Schema schema `yaml:"openAPIV3Schema"`
			}
		}
	}
}

type schema struct {
	Type, Description, Format, Pattern string
	Default                            any
	Enum                               []any
	Minimum, Maximum                   *int64
	Properties                         map[string]schema
	Required                           []string
	Items                              *schema
	AdditionalProperties               *schema                    `yaml:"additionalProperties"`
	Rules                              []struct{ Message string } `yaml:"x-kubernetes-validations"`
	IntOrString                        bool                       `yaml:"x-kubernetes-int-or-string"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: reference CRD.yaml OUT.md")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func write(in, out string) error {
	b, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	var c crd
	if err := yaml.Unmarshal(b, &c); err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	if len(c.Spec.Versions) == 0 {
		return fmt.Errorf("%s: no version in it", in)
	}
	return os.WriteFile(out, render(&c), 0o644)
}

func render(c *crd) []byte {
	var w bytes.Buffer
	v := c.Spec.Versions[0]
	fmt.Fprintf(&w, "# %s (%s/%s)\n\nMade from the CRD by `make generate`; edit `pkg/api/%s` instead.\n\n", c.Spec.Names.Kind, c.Spec.Group, v.Name, v.Name)
	fmt.Fprintf(&w, "%s\n\n%s, short names %s.\n\n", oneLine(v.Schema.Schema.Description), c.Spec.Scope, strings.Join(c.Spec.Names.ShortNames, ", "))
	fmt.Fprint(&w, "## Columns of `kubectl get`\n\n| column | what |\n|---|---|\n")
	for _, col := range v.Columns {
		what := col.Description
		if what == "" {
			what = "`" + col.JSONPath + "`"
		}
		fmt.Fprintf(&w, "| %s | %s |\n", col.Name, what)
	}
	for _, part := range []string{"spec", "status"} {
		s := v.Schema.Schema.Properties[part]
		fmt.Fprintf(&w, "\n## %s\n\n%s\n\n", part, oneLine(s.Description))
		rules(&w, s)
		fmt.Fprint(&w, "| field | type | what |\n|---|---|---|\n")
		fields(&w, part, s)
	}
	return w.Bytes()
}

func rules(w *bytes.Buffer, s schema) {
	for _, r := range s.Rules {
		fmt.Fprintf(w, "- %s\n", r.Message)
	}
	if len(s.Rules) > 0 {
		fmt.Fprintln(w)
	}
}

// fields is one row per field, those inside it after it.
func fields(w *bytes.Buffer, path string, s schema) {
	names := []string{}
	for n := range s.Properties {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		f, name := s.Properties[n], path+"."+n
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", name, typeOf(f), what(f))
		fields(w, name, f)
		if f.Items != nil {
			fields(w, name+"[]", *f.Items)
		}
	}
}

func typeOf(s schema) string {
	switch {
	case s.IntOrString:
		return "quantity"
	case s.Type == "array" && s.Items != nil:
		return "list of " + typeOf(*s.Items)
	case s.AdditionalProperties != nil:
		return "map of " + typeOf(*s.AdditionalProperties)
	}
	return s.Type
}

func what(s schema) string {
	parts := []string{oneLine(s.Description)}
	if len(s.Enum) > 0 {
		var vals []string
		for _, e := range s.Enum {
			vals = append(vals, fmt.Sprintf("`%v`", e))
		}
		parts = append(parts, "One of "+strings.Join(vals, ", ")+".")
	}
	if s.Pattern != "" && !s.IntOrString {
		parts = append(parts, "Matches `"+s.Pattern+"`.")
	}
	if s.Minimum != nil && s.Maximum != nil {
		parts = append(parts, fmt.Sprintf("From %d to %d.", *s.Minimum, *s.Maximum))
	}
	if d := fmt.Sprint(s.Default); s.Default != nil && s.Type != "object" {
		parts = append(parts, "Default `"+d+"`.")
	}
	for _, r := range s.Rules {
		parts = append(parts, "Rule: "+r.Message+".")
	}
	return strings.ReplaceAll(strings.TrimSpace(strings.Join(parts, " ")), "|", `\|`)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

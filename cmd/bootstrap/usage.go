package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/config"
)

// noArgs refuses words that are no verb, and names likely ones.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var verbs []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			verbs = append(verbs, sub.Name())
		}
	}
	switch likely := closest(args[0], verbs); {
	case len(verbs) == 0:
		return fmt.Errorf("takes no words, found %q", args[0])
	case likely != "":
		return fmt.Errorf("unknown verb %q; did you mean %q?", args[0], likely)
	default:
		return fmt.Errorf("unknown verb %q; there are %s", args[0], strings.Join(verbs, ", "))
	}
}

// flagError says what is wrong with a flag in words of its own.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1:
		var flags []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		if likely := closest(unknown.GetSpecifiedName(), flags); likely != "" {
			return fmt.Errorf("unknown flag --%s; did you mean --%s?", unknown.GetSpecifiedName(), likely)
		}
		return fmt.Errorf("unknown flag --%s", unknown.GetSpecifiedName())
	case errors.As(err, &value):
		f := value.GetFlag()
		return fmt.Errorf("--%s: %w", f.Name, config.BadValue(f.Value.Type(), value.GetValue(), errors.Unwrap(value)))
	case errors.As(err, &missing):
		return fmt.Errorf("--%s needs a value", missing.GetSpecifiedName())
	}
	return err
}

// closest is the word that begins with s or differs in no more than a third of
// its letters, the nearest of several, "" where there is none.
func closest(s string, words []string) string {
	s = strings.ToLower(s)
	near := max(1, len(s)/3)
	best, at := "", near+1
	for _, w := range words {
		d := distance(s, w)
		if strings.HasPrefix(w, s) {
			d = min(d, near)
		}
		if d < at {
			best, at = w, d
		}
	}
	return best
}

// distance counts the letters to insert, remove or replace (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

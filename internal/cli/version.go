package cli

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/control"
	"github.com/quirelog/quire/internal/wire"
)

// build says what this binary was made from.
type build struct {
	Version string         `json:"version"`
	Commit  string         `json:"commit"`
	Dirty   bool           `json:"modified"`
	Go      string         `json:"go"`
	System  string         `json:"system"`
	Formats map[string]int `json:"formats"`
}

// buildVersion reads what the linker recorded. A build outside version
// control has version "devel" and commit "unknown".
func buildVersion() build {
	b := build{
		Version: "devel", Commit: "unknown", Go: runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH,
		Formats: map[string]int{
			"batch": batch.Version, "catalog": catalog.SnapshotVersion, "protocol": wire.Version,
			"raft": control.RecordVersion,
		},
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	return b
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print version, commit, Go version and format versions",
		Example: "  quire version --json",
		Args:    cobra.NoArgs,
		RunE: a.run(func(context.Context, []string) error {
			b := buildVersion()
			if a.json {
				return a.printJSON(b)
			}
			commit := b.Commit
			if b.Dirty {
				commit += " (modified)"
			}
			formats := ""
			for _, name := range slices.Sorted(maps.Keys(b.Formats)) {
				formats += fmt.Sprintf(" %s=%d", name, b.Formats[name])
			}
			_, err := fmt.Fprintf(a.stdout, "quire %s\ncommit %s\ngo %s %s\nformats%s\n",
				b.Version, commit, strings.TrimPrefix(b.Go, "go"), b.System, formats)
			return err
		}),
	}
}

package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quirelog/quire/internal/demo"
	"github.com/quirelog/quire/status"
)

func (a *app) demoCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See what Quire does, on real data, in under a minute",
		Long: "Start a broker, load the 38,094 earthquakes of 2016, read them back and compare\n" +
			"each, follow the tail, kill the broker in the middle of a load, and show what is\n" +
			"there afterwards. It uses free ports and a temporary directory, which it removes.",
		Example: "  quire demo\n  quire demo --data ./demo-data",
		GroupID: groupBroker,
		Args:    cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, _ []string) error {
			return a.demo(ctx, dir)
		}),
	}
	cmd.Flags().StringVar(&dir, "data", "", "keep the data here, in a directory that is empty or not there")
	return cmd
}

func (a *app) demo(ctx context.Context, dir string) error {
	program, err := os.Executable()
	if err != nil {
		return status.New(status.Internal, "cannot find the program to start as a broker: %w", err)
	}
	return demo.Run(ctx, demo.Options{
		Dir:     dir,
		Program: []string{program, "serve"},
		Env:     withoutSettings(a.environ),
		Tell:    a.tellStep,
		Meter: func(label string, total int64) demo.Meter {
			return a.meter(label, total, plainCount)
		},
	})
}

// tellStep prints a step of the demo.
func (a *app) tellStep(s demo.Step) error {
	if a.json {
		out := map[string]any{"step": s.Name}
		for key, value := range s.Facts {
			out[key] = value
		}
		return a.printJSON(out)
	}
	_, err := fmt.Fprintln(a.stdout, s.Text())
	return err
}

// withoutSettings is environ without the settings of a broker that was meant.
func withoutSettings(environ []string) (rest []string) {
	for _, pair := range environ {
		if !strings.HasPrefix(pair, envPrefix) {
			rest = append(rest, pair)
		}
	}
	return rest
}

// Command peers measures Quire and NATS JetStream side by side: the same
// records, the same shape, the same machine, one system after the other and
// again, A B A B. It builds both itself, Quire from this checkout, and prints
// one table of ratios; the result for documents is written as JSON.
//
//	go run . -alternations 5 -duration 5s
//
// The generators are alike: `quire bench` for Quire, and a second process of
// this program for JetStream, which makes, counts and checks the same records
// with the same code. A run that loses a record ends the comparison.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// settings are those of a comparison.
type settings struct {
	alternations int
	duration     time.Duration
	records      uint64
	only         string
	dir          string
	out          string
	list         bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 2 && args[0] == jobCommand {
		return runJob(ctx, args[1], stdout)
	}
	var s settings
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&s.alternations, "alternations", 5, "how often each system has its turn")
	flags.DurationVar(&s.duration, "duration", 5*time.Second, "how long each run writes")
	flags.Uint64Var(&s.records, "records", 0, "how many records each run writes, instead of a duration")
	flags.StringVar(&s.only, "only", "", "only the comparisons whose name contains one of these, separated by commas")
	flags.StringVar(&s.dir, "dir", "", "where to make the temporary directory (default the system's)")
	flags.StringVar(&s.out, "out", "", "file for the result in JSON; for documents ../results/peers-jetstream.json")
	flags.BoolVar(&s.list, "list", false, "print the names of the comparisons")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen := choose(comparisons(), s.only)
	if s.list {
		for _, c := range chosen {
			fmt.Fprintln(stdout, c.Name())
		}
		return nil
	}
	if s.alternations < 1 || len(chosen) == 0 {
		return fmt.Errorf("nothing to compare")
	}
	return compareAll(ctx, s, chosen, stdout, stderr)
}

// compareAll builds the systems, compares them and reports.
func compareAll(ctx context.Context, s settings, chosen []comparison, stdout, stderr io.Writer) error {
	dir, err := os.MkdirTemp(s.dir, "quire-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(stderr, "peers: building")
	systems, err := build(ctx, dir)
	if err != nil {
		return err
	}
	r := newReport(dir, s, systems)
	failed := r.compare(ctx, s, chosen, systems, stderr)
	// What was measured before a failure is worth seeing.
	if err := r.table(stdout); err != nil || failed != nil || s.out == "" {
		return errors.Join(failed, err)
	}
	return r.write(s.out)
}

// choose picks the comparisons whose name contains one of the words.
func choose(all []comparison, only string) (chosen []comparison) {
	for _, c := range all {
		for word := range strings.SplitSeq(only, ",") {
			if strings.Contains(c.Name(), word) {
				chosen = append(chosen, c)
				break
			}
		}
	}
	return chosen
}

// self is the path of this program.
func self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

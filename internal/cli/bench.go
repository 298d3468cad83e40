package cli

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quirelog/quire/internal/bench"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/status"
)

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a broker, and check every record on the way",
		Long: "Measure a broker. Without --addr each run starts one as a process of its own, on\n" +
			"free ports and in a temporary directory, and removes both; the address in\n" +
			"QUIRE_ADDR is not used, so that no load reaches a broker that was not named.\n\n" +
			"Every record is read back and compared; a run that loses one, or in which one was\n" +
			"not acknowledged, ends with status 1. The result has all settings and, for topics\n" +
			"that sync each write, the floor: what the same disk does without a broker.",
		Example: "  quire bench produce --unbatched --in-flight 1\n" +
			"  quire bench produce --payload 4KiB --json\n" +
			"  quire bench fanout --subscribers 10",
		GroupID: groupBroker,
	}
	cmd.AddCommand(
		a.benchShape(bench.Produce, "Measure writing",
			"  quire bench produce\n  quire bench produce --unbatched --in-flight 64\n  quire bench produce --topics 1000 --rate 100000"),
		a.benchShape(bench.Fetch, "Measure reading what is not in the broker's memory",
			"  quire bench fetch --records 1000000\n  quire bench fetch --readers 2 --cold"),
		a.benchShape(bench.Fanout, "Measure subscribers that follow the tail",
			"  quire bench fanout --subscribers 10\n  quire bench fanout --subscribers 1 --rate 1000"),
		a.benchShape(bench.Recovery, "Measure the start after kill -9",
			"  quire bench recovery --bytes 2GiB --cold\n  quire bench recovery --topics 10000 --bytes 16MiB --unbatched --in-flight 64"),
		a.benchShape(bench.Split, "Measure the pauses of splitting a topic under load",
			"  quire bench split\n  quire bench split --splits 20 --rate 10000 --duration 10s"),
	)
	return cmd
}

// benchFlags are the flags that do not go straight into the settings.
type benchFlags struct {
	unbatched, noVerify bool
	metrics, dir        string
}

func (a *app) benchShape(shape, short, example string) *cobra.Command {
	s := bench.Defaults(shape)
	var f benchFlags
	cmd := &cobra.Command{
		Use: shape, Short: short, Example: example, Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	addBenchFlags(flags, shape, &s, &f)
	cmd.RunE = a.run(func(ctx context.Context, _ []string) error {
		if f.unbatched {
			if s.Batched = false; !flags.Changed("in-flight") {
				s.InFlight = 1
			}
		}
		if flags.Changed("records") && !flags.Changed("duration") {
			s.Duration = 0
		}
		s.Verify = !f.noVerify
		if !flags.Changed("seed") {
			var b [8]byte
			_, _ = crand.Read(b[:]) // it does not fail
			s.Seed = binary.LittleEndian.Uint64(b[:])
		}
		opts := bench.Options{Metrics: f.metrics, Dir: f.dir, Timeout: a.timeout, Tell: a.tellBench}
		if flags.Changed("addr") {
			opts.Addr = a.addr
		}
		return a.bench(ctx, shape, s, opts)
	})
	return cmd
}

// addBenchFlags adds the flags that make sense for a shape.
func addBenchFlags(flags *pflag.FlagSet, shape string, s *bench.Settings, f *benchFlags) {
	flags.Var(sizeOf(&s.Payload), "payload", "size of each value")
	flags.IntVar(&s.Keys, "keys", s.Keys, "how many distinct keys, drawn uniformly")
	flags.IntVar(&s.Connections, "connections", s.Connections, "connections of the writers")
	flags.BoolVar(&f.unbatched, "unbatched", false, "write one record a request")
	flags.IntVar(&s.InFlight, "in-flight", s.InFlight,
		"requests under way: of each producer, or with --unbatched of all (then 1)")
	flags.Var(sizeOf(&s.BatchBytes), "batch-bytes", "size at which a batch is full")
	flags.DurationVar(&s.Linger, "linger", s.Linger, "how long a batch waits for more records")
	flags.Var(sizeOf(&s.Buffer), "buffer", "bytes that are not acknowledged yet, of all producers together")
	flags.StringVar(&s.Compression, "compression", s.Compression, "none, s2 or zstd")
	flags.StringVar(&s.Fsync, "fsync", s.Fsync, "setting of the topics: always, never, or an interval")
	flags.Uint64Var(&s.Seed, "seed", 0, "what keys and values follow from (default a new one each run)")
	flags.BoolVar(&f.noVerify, "no-verify", false, "do not read back and compare")
	flags.StringVar(&f.dir, "dir", "", "where to make the temporary directory (default the system's)")
	flags.StringVar(&f.metrics, "metrics", "", "HTTP address of the broker at --addr, for its CPU time and syncs")
	if shape != bench.Fanout && shape != bench.Split {
		flags.IntVar(&s.Topics, "topics", s.Topics, "topics, all written at once")
	}
	flags.IntVar(&s.Ranges, "ranges", s.Ranges, "ranges that each topic is split into first")
	if shape != bench.Recovery && shape != bench.Split {
		flags.Uint64Var(&s.Records, "records", s.Records, "how many records to write")
	}
	if shape == bench.Produce || shape == bench.Fanout || shape == bench.Split {
		flags.DurationVar(&s.Duration, "duration", s.Duration, "how long to write, unless --records says how much")
		flags.Float64Var(&s.Rate, "rate", s.Rate, "records a second in all; 0 is as fast as it goes")
	}
	switch shape {
	case bench.Fetch:
		flags.IntVar(&s.Readers, "readers", s.Readers, "how many read everything at the same time")
		flags.Var(sizeOf(&s.ProbeBytes), "probe-bytes", "what each single fetch asks for that is timed")
		flags.IntVar(&s.Probes, "probes", s.Probes, "how many single fetches are timed")
	case bench.Fanout:
		flags.IntVar(&s.Subscribers, "subscribers", s.Subscribers, "how many follow")
		flags.Uint64Var(&s.Ahead, "ahead", s.Ahead, "records that the writer may be ahead of the slowest")
	case bench.Split:
		flags.IntVar(&s.Splits, "splits", s.Splits, "how often the topic is split")
	case bench.Recovery:
		flags.Var(sizeOf(&s.Bytes), "bytes", "how much to write before the kill")
	}
	if shape == bench.Fetch || shape == bench.Recovery {
		flags.BoolVar(&s.Cold, "cold", s.Cold, "drop the files from the page cache before the start (Linux)")
	}
}

func (a *app) tellBench(what string) { fmt.Fprintf(a.stderr, "quire bench: %s\n", what) }

// bench runs a shape and prints its result, also that of a run that failed
// after it was measured.
func (a *app) bench(ctx context.Context, shape string, s bench.Settings, opts bench.Options) error {
	if opts.Addr == "" {
		program, err := os.Executable()
		if err != nil {
			return status.New(status.Internal, "cannot find the program to start as a broker: %w", err)
		}
		opts.Program, opts.Env = []string{program, "serve"}, withoutSettings(a.environ)
	}
	result, err := bench.Run(ctx, shape, s, opts)
	if result == nil {
		return err
	}
	if e := a.printBench(result); e != nil {
		return e
	}
	if err == nil {
		return nil
	}
	var coded *status.Error
	if !errors.As(err, &coded) {
		return err
	}
	return failed(status.New(coded.Code, "%s", cmp.Or(err.Error(), string(coded.Code))))
}

// printBench prints the result: all of it in JSON, what one looks at first
// otherwise.
func (a *app) printBench(r *bench.Result) error {
	if a.json {
		return a.printJSON(r)
	}
	us := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) + " us" }
	rows := [][]string{
		{"operations", fmt.Sprintf("%d in %.2f s", r.Operations, r.Seconds)},
		{"per second", fmt.Sprintf("%.0f, %.1f MiB", r.PerSecond, r.BytesPerSecond/(1<<20))},
		{"p50, p99", us(r.P50) + ", " + us(r.P99)},
		{"p99.9, max", us(r.P999) + ", " + us(r.Max)},
		{"measured", r.Latency},
	}
	if r.CPU != nil {
		rows = append(rows, []string{"broker CPU", us(*r.CPU) + " an operation"})
		rows = append(rows, []string{"broker memory", fmt.Sprintf("%.1f MiB", float64(*r.Memory)/(1<<20))})
		rows = append(rows, []string{"fdatasyncs", number(*r.Fdatasyncs)})
	}
	switch {
	case r.Floor == nil:
	case r.Shape == bench.Fetch:
		rows = append(rows, []string{"floor", fmt.Sprintf("%.1f MiB/s read, checked and sent", r.Floor.Streaming/(1<<20))})
	default:
		rows = append(rows, []string{"floor", fmt.Sprintf("sync of 4 KiB %s, answered %s, %.1f MiB/s by %d bytes, loopback %s",
			us(r.Floor.SyncP50), us(r.Floor.AnsweredP50), r.Floor.Growing/(1<<20), r.Floor.FlushBytes, us(r.Floor.LoopbackP50))})
		if r.Floor.AnsweredRate > 0 {
			rows = append(rows, []string{"floor of the rate", fmt.Sprintf("%.0f a second with as many callers, answered together",
				r.Floor.AnsweredRate)})
		}
	}
	if t := r.SplitTimes; t != nil {
		rows = append(rows,
			[]string{"splits", fmt.Sprintf("%d, p50 %s, p99 %s", t.Splits, us(t.SplitP50), us(t.SplitP99))},
			[]string{"pause of writers", fmt.Sprintf("p50 %s, p99 %s, max %s",
				us(t.WriterPauseP50), us(t.WriterPauseP99), us(t.WriterPauseMax))},
			[]string{"pause of a reader", fmt.Sprintf("p50 %s, p99 %s, max %s",
				us(t.ReaderPauseP50), us(t.ReaderPauseP99), us(t.ReaderPauseMax))})
	}
	if t := r.RecoveryTimes; t != nil {
		rows = append(rows, []string{"ready, first record", us(t.Ready) + ", " + us(t.First)})
	}
	verified := "no"
	if r.Verified {
		verified = "all records, compared in order"
	}
	rows = append(rows, []string{"errors", number(r.Errors)}, []string{"verified", verified})
	return a.table("BENCH "+r.Shape, rows)
}

// size is a flag for a number of bytes, with or without a unit.
type size[T int | int64] struct{ to *T }

func sizeOf[T int | int64](to *T) *size[T] { return &size[T]{to} }

func (s *size[T]) String() string {
	if s.to == nil {
		return "0"
	}
	return catalog.FormatSize(uint64(*s.to))
}

func (s *size[T]) Set(text string) error {
	n, err := catalog.ParseSize(text)
	if err == nil && n > 1<<62 {
		err = fmt.Errorf("%q is too much", text)
	}
	if err == nil {
		*s.to = T(n)
	}
	return err
}

func (s *size[T]) Type() string { return "size" }

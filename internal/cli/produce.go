package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// produceFlags are the flags of produce as they were given.
type produceFlags struct {
	key      *string
	value    *string
	headers  []string
	format   string
	keyField string
}

func (a *app) produceCommand() *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use:   "produce TOPIC [FILE|-]",
		Short: "Write records from a file, stdin or the command line",
		Long: "Write records to a topic. Without FILE, or with -, they are read from stdin.\n\n" +
			"  --format lines   each line is a value (a line ends with LF or CRLF)\n" +
			"  --format csv     RFC 4180: the first line names the fields, and each further\n" +
			"                   record is a value, as it stands, without its line end\n" +
			"  --format jsonl   each line is an object with key, value, headers, time, as\n" +
			"                   `quire consume --json` prints it\n\n" +
			"The last line on stdout is produced=N bytes=N seconds=S: what was acknowledged,\n" +
			"and its bytes in keys, values and headers. What was not is named on stderr, and\n" +
			"the exit status is then 1.",
		Example: "  quire produce orders --key alice --value 'two apples'\n" +
			"  quire produce quakes earthquakes.csv --format csv --key-field Source\n" +
			"  quire consume quakes --json | quire produce copy --format jsonl",
		GroupID: groupData,
		Args:    cobra.RangeArgs(1, 2),
	}
	flags := cmd.Flags()
	key := flags.String("key", "", "key of all records that do not bring their own")
	value := flags.String("value", "", "write one record with this value; - reads the value from stdin")
	flags.StringArrayVar(&f.headers, "header", nil, "add a header k=v to all records; may be repeated")
	flags.StringVar(&f.format, "format", "lines", "format of the input: lines, csv or jsonl")
	flags.StringVar(&f.keyField, "key-field", "", "field of the CSV that is the key: its name, or its number from 1")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.Changed("key") {
			f.key = key
		}
		if flags.Changed("value") {
			f.value = value
		}
		return a.run(func(ctx context.Context, args []string) error { return a.produce(ctx, args, f) })(cmd, args)
	}
	return cmd
}

func (a *app) produce(ctx context.Context, args []string, f produceFlags) error {
	headers, err := headersOf(f.headers)
	if err != nil {
		return err
	}
	in, err := a.input(args[1:], f)
	if err != nil {
		return err
	}
	defer in.Close()
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	topic, err := a.lookUp(ctx, c, args[0])
	if err != nil {
		return err
	}

	p := newProduction(c, topic, headers, a.timeout)
	begin := time.Now()
	bar := a.meter("", in.size, decor.SizeB1024(0))
	err = p.run(ctx, in, func() { bar.Set(in.read.Load()) })
	bar.End()
	if status.CodeOf(err) == status.UsageError {
		return err
	}
	if err := a.produced(p.snapshot(), time.Since(begin)); err != nil {
		return err
	}
	return p.verdict(a.stderr, err)
}

// lookUp asks for the topic, so that a wrong name is noticed before input is
// read that nobody takes.
func (a *app) lookUp(ctx context.Context, c *client.Client, topic string) (client.Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	d, err := c.DescribeTopic(ctx, topic)
	return d.Topic, err
}

// produced prints the result.
func (a *app) produced(r result, took time.Duration) error {
	if a.json {
		return a.printJSON(map[string]any{
			"produced": r.acked, "bytes": r.bytes, "seconds": took.Seconds(), "failed": r.lost(),
		})
	}
	_, err := fmt.Fprintf(a.stdout, "produced=%d bytes=%d seconds=%.3f\n", r.acked, r.bytes, took.Seconds())
	return err
}

// headersOf reads the k=v of --header.
func headersOf(pairs []string) ([]record.Header, error) {
	var headers []record.Header
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, usage("--header %q is not of the form k=v", pair)
		}
		headers = append(headers, record.Header{Key: k, Value: []byte(v)})
	}
	return headers, nil
}

// input opens what the records come from.
func (a *app) input(files []string, f produceFlags) (*input, error) {
	if f.value != nil {
		if len(files) > 0 || f.keyField != "" || f.format != "lines" {
			return nil, usage("--value writes one record: it goes with neither FILE, --format nor --key-field")
		}
		return a.single(f)
	}
	in, err := a.open(files)
	if err != nil {
		return nil, err
	}
	var key []byte
	if f.key != nil {
		key = []byte(*f.key)
	}
	lines := newLineReader(in)
	in.idle = lines.idle
	switch f.format {
	case "lines":
		in.source = &lineSource{lines, key}
	case "csv":
		in.source = &csvSource{in: lines, key: key, keyField: f.keyField}
	case "jsonl":
		in.source = &jsonSource{lines, key}
	default:
		err = usage("--format %q is none of lines, csv, jsonl", f.format)
	}
	if f.keyField != "" && f.format != "csv" {
		err = usage("--key-field is for --format csv")
	}
	if f.keyField != "" && f.key != nil {
		err = usage("--key and --key-field are two answers to one question")
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// single is the input of --value: one record.
func (a *app) single(f produceFlags) (*input, error) {
	rec := record.Record{Value: []byte(*f.value)}
	if f.key != nil {
		rec.Key = []byte(*f.key)
	}
	if *f.value == "-" {
		value, err := io.ReadAll(io.LimitReader(a.stdin, record.MaxValueBound+1))
		if err != nil {
			return nil, status.New(status.Internal, "cannot read stdin: %w", err)
		}
		if len(value) > record.MaxValueBound {
			return nil, status.New(status.RecordTooLarge, "the value is over %d bytes", record.MaxValueBound)
		}
		rec.Value = value
	}
	return &input{
		source: &once{item: &item{rec, 1}}, file: io.NopCloser(nil), idle: func() bool { return true },
	}, nil
}

func (a *app) open(files []string) (*input, error) {
	if len(files) == 0 || files[0] == "-" {
		if isTerminal(a.stdin) {
			fmt.Fprintln(a.stderr, "quire: reading stdin, end it with Ctrl-D")
		}
		return &input{file: io.NopCloser(a.stdin), reader: a.stdin}, nil
	}
	file, err := os.Open(files[0])
	if err != nil {
		return nil, withHint(usage("cannot read the input: %w", err), "name a file that exists, or - for stdin")
	}
	in := &input{file: file, reader: file}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		in.size = info.Size()
	}
	return in, nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/record"
)

// consumeFlags are the flags of consume as they were given.
type consumeFlags struct {
	from   string
	max    uint64
	follow bool
	key    *string
	prefix *string
	format string
}

func (a *app) consumeCommand() *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print records, in order per key",
		Long: "Print the records of a topic. Without --follow it ends when it has printed\n" +
			"everything that was committed when it began; with --follow it goes on until it\n" +
			"is interrupted.\n\n" +
			"The last line on stderr is a cursor: --from continues exactly there. With --json\n" +
			"the cursor is the last line on stdout, and records that are missing (removed by\n" +
			"retention, for one) are objects of type gap.",
		Example: "  quire consume orders\n" +
			"  quire consume orders --from 2016-01-01T00:00:00Z --max 10 --json\n" +
			"  quire consume orders --key alice --follow --format kv",
		GroupID: groupData,
		Args:    cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "start", "where to begin: start, end, a time (RFC 3339) or a cursor")
	flags.Uint64Var(&f.max, "max", 0, "end after so many records; 0 is no limit")
	flags.BoolVar(&f.follow, "follow", false, "wait for more records at the end")
	key := flags.String("key", "", "only records with this key")
	prefix := flags.String("key-prefix", "", "only records whose key begins so")
	flags.StringVar(&f.format, "format", "value", "value, or kv for key, tab, value")
	cmd.MarkFlagsMutuallyExclusive("key", "key-prefix")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.Changed("key") {
			f.key = key
		}
		if flags.Changed("key-prefix") {
			f.prefix = prefix
		}
		if f.format != "value" && f.format != "kv" {
			return usage("--format %q is neither value nor kv", f.format)
		}
		return a.run(func(ctx context.Context, args []string) error { return a.consume(ctx, args[0], f) })(cmd, args)
	}
	return cmd
}

// reading is what consume asks of the client's ways to read.
type reading interface {
	All() iter.Seq2[record.Record, error]
	Cursor() string
}

func (a *app) consume(ctx context.Context, topic string, f consumeFlags) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	r, err := begin(reading, c, topic, f)
	if err != nil {
		return err
	}

	p := a.newPrinter(f, stop)
	err = p.print(r, f.max)
	if e := p.flush(); e != nil {
		err = e
	}
	switch {
	case isPipe(err):
		return err
	case err != nil && f.follow && ctx.Err() != nil:
		// An interrupt is the usual end of --follow.
		err = nil
	case err != nil:
		err = &cliError{err: err, told: true, exit: a.tell(err)}
	}
	if e := a.printCursor(r.Cursor()); err == nil {
		err = e
	}
	return err
}

// begin begins a reading that ends at what is committed now, or one that goes
// on.
func begin(ctx context.Context, c *client.Client, topic string, f consumeFlags) (reading, error) {
	var reads []client.ReadOption
	var subscribes []client.SubscribeOption
	filter := func(by client.FilterOption) { reads, subscribes = append(reads, by), append(subscribes, by) }
	switch {
	case f.key != nil:
		filter(client.Key([]byte(*f.key)))
	case f.prefix != nil:
		filter(client.KeyPrefix([]byte(*f.prefix)))
	}
	if f.follow {
		return c.Subscribe(ctx, topic, fromOf(f.from), subscribes...)
	}
	return c.Read(ctx, topic, fromOf(f.from), reads...)
}

// fromOf reads the value of --from. A cursor's alphabet has no colon, so a
// time is never taken for one.
func fromOf(s string) client.From {
	switch s {
	case "start":
		return client.Start()
	case "end":
		return client.End()
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return client.At(t)
	}
	return client.Cursor(s)
}

// printCursor prints where a reading ended, as the last line.
func (a *app) printCursor(cursor string) error {
	if cursor == "" {
		return nil
	}
	if a.json {
		return a.printJSON(struct {
			Type   string `json:"type"`
			Cursor string `json:"cursor"`
		}{"cursor", cursor})
	}
	_, err := fmt.Fprintln(a.stderr, cursor)
	return err
}

// print prints what r yields, at most max records.
func (p *printer) print(r reading, max uint64) error {
	var n uint64
	for rec, err := range r.All() {
		var gap *client.GapError
		switch {
		case errors.As(err, &gap):
			err = p.gap(gap.Gap)
		case err == nil:
			err = p.record(rec)
			n++
		}
		if err != nil {
			return err
		}
		if n == max && max > 0 {
			return nil
		}
	}
	return nil
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quirelog/quire/client"
)

func (a *app) topicSplitCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "split NAME",
		Short: "Split a range of a topic in two",
		Long: "Split a range of a topic in two: the largest, where that halves what was written to\n" +
			"it last, or the one of a key at its position.\n" +
			"Writers and readers go on; cursors and the order of each key stay.",
		Example: "  quire topic split orders\n  quire topic split orders --at-key customer-4711",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&key, "at-key", "", "split the range of this key, at its position")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var at []byte
		if cmd.Flags().Changed("at-key") {
			at = []byte(key)
		}
		return a.run(func(ctx context.Context, args []string) error {
			return a.reshape(ctx, "split", args[0], func(ctx context.Context, c *client.Client) error {
				return c.SplitTopic(ctx, args[0], at)
			})
		})(cmd, args)
	}
	return cmd
}

func (a *app) topicMergeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "merge NAME",
		Short: "Merge the two neighbouring ranges of a topic that have least",
		Long: "Merge the two neighbouring ranges of a topic that have least.\n" +
			"Writers and readers go on; cursors and the order of each key stay.",
		Example: "  quire topic merge orders",
		Args:    cobra.ExactArgs(1),
		RunE: a.run(func(ctx context.Context, args []string) error {
			return a.reshape(ctx, "merged", args[0], func(ctx context.Context, c *client.Client) error {
				return c.MergeTopic(ctx, args[0])
			})
		}),
	}
}

func (a *app) topicRestripeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restripe NAME",
		Short: "Begin new segments of a topic where they are placed today",
		Long: "Begin a new segment in each range of a topic that takes records, where segments are\n" +
			"placed today. What is stored stays where it is.\n" +
			"Writers and readers go on; cursors and the order of each key stay.",
		Example: "  quire topic restripe orders",
		Args:    cobra.ExactArgs(1),
		RunE: a.run(func(ctx context.Context, args []string) error {
			return a.reshape(ctx, "restriped", args[0], func(ctx context.Context, c *client.Client) error {
				return c.RestripeTopic(ctx, args[0])
			})
		}),
	}
}

// reshape changes a topic's ranges and says how many take records then.
func (a *app) reshape(
	ctx context.Context, done, name string, request func(context.Context, *client.Client) error,
) error {
	return a.ask(ctx, func(ctx context.Context, c *client.Client) error {
		if err := request(ctx, c); err != nil {
			return err
		}
		d, err := c.DescribeTopic(ctx, name)
		if err != nil {
			return err
		}
		n := leaves(descriptionJSON(d))
		if a.json {
			return a.printJSON(map[string]any{done: name, "ranges": n})
		}
		_, err = fmt.Fprintf(a.stdout, "%s %s: %d ranges take records\n", done, name, n)
		return err
	})
}

// leaves counts the ranges that take records.
func leaves(d descriptionOut) int {
	n := 0
	for i := range d.Ranges {
		if len(d.Ranges[i].Children) == 0 {
			n++
		}
	}
	return n
}

// mapWidth is how many characters stand for the keyspace.
const mapWidth = 64

// drawRanges draws the keyspace from left to right and its ranges from the
// oldest down, like layers: those that take records are solid.
func drawRanges(ranges []rangeOut) string {
	var b strings.Builder
	for i := range ranges {
		r := &ranges[i]
		from, to := column(r.first), column(r.last)
		fill := "="
		if len(r.Children) > 0 {
			fill = "-"
		}
		line := strings.Repeat(" ", from) + strings.Repeat(fill, to-from+1) + strings.Repeat(" ", mapWidth-to-1)
		fmt.Fprintf(&b, "%8s |%s|\n", "r"+number(r.ID), line)
	}
	return b.String()
}

// column is where a position stands on the map.
func column(p uint64) int { return int(p / (1 << 63 / mapWidth * 2)) }

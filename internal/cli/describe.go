package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quirelog/quire/client"
)

// topicOut is a topic in JSON. The keys are stable.
type topicOut struct {
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	ID       string            `json:"id"`
	Created  string            `json:"created"`
	Settings map[string]string `json:"settings"`
}

// descriptionOut is a topic in JSON as an operator sees it.
type descriptionOut struct {
	topicOut
	Records uint64     `json:"records"`
	Bytes   uint64     `json:"bytes"`
	Ranges  []rangeOut `json:"ranges"`
}

// rangeOut is a range in JSON. Positions are hexadecimal text, since JSON's
// numbers cannot hold them everywhere.
type rangeOut struct {
	ID       uint64       `json:"id"`
	First    string       `json:"first_position"`
	Last     string       `json:"last_position"`
	Epoch    uint64       `json:"epoch"`
	Start    uint64       `json:"start_offset"`
	End      uint64       `json:"end_offset"`
	Records  uint64       `json:"records"`
	Bytes    uint64       `json:"bytes"`
	Segments []segmentOut `json:"segments"`
	// Parents are the ranges that this one continues; one that has Children
	// takes no more records.
	Parents  []uint64 `json:"parents"`
	Children []uint64 `json:"children"`

	first, last uint64
}

type segmentOut struct {
	ID     uint64 `json:"id"`
	Epoch  uint64 `json:"epoch"`
	Start  uint64 `json:"start_offset"`
	End    uint64 `json:"end_offset"`
	Sealed bool   `json:"sealed"`
	Bytes  uint64 `json:"bytes"`
}

func topicJSON(t client.Topic) topicOut {
	settings := make(map[string]string, len(t.Settings))
	for k, v := range t.Settings {
		settings[strings.ReplaceAll(k, "-", "_")] = v
	}
	return topicOut{t.Name, t.Type, t.ID, jsonTime(t.Created), settings}
}

func descriptionJSON(d client.Description) descriptionOut {
	out := descriptionOut{topicOut: topicJSON(d.Topic), Ranges: []rangeOut{}}
	for _, r := range d.Ranges {
		out.Records += r.Records
		out.Bytes += r.Bytes
		ro := rangeOut{
			r.ID, position(r.First), position(r.Last), r.Epoch, r.Start, r.End, r.Records, r.Bytes,
			[]segmentOut{},
			append([]uint64{}, r.Parents...), append([]uint64{}, r.Children...), r.First, r.Last,
		}
		for _, s := range r.Segments {
			ro.Segments = append(ro.Segments, segmentOut{s.ID, s.Epoch, s.Start, s.End, s.Sealed, s.Bytes})
		}
		out.Ranges = append(out.Ranges, ro)
	}
	return out
}

func position(p uint64) string { return fmt.Sprintf("%016x", p) }

func (a *app) topicDescribeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "describe NAME",
		Short:   "Show a topic as an operator sees it: settings, ranges, segments",
		Example: "  quire topic describe orders",
		Args:    cobra.ExactArgs(1),
		RunE: a.run(func(ctx context.Context, args []string) error {
			return a.ask(ctx, func(ctx context.Context, c *client.Client) error {
				d, err := c.DescribeTopic(ctx, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(descriptionJSON(d))
				}
				return a.printDescription(descriptionJSON(d), d.Settings)
			})
		}),
	}
}

// printDescription prints a heading, the settings, and a line for each range
// and each of its segments.
func (a *app) printDescription(d descriptionOut, settings map[string]string) error {
	fmt.Fprintf(a.stdout, "%s (%s), %d records, %d bytes, created %s, id %s\n\n",
		d.Name, d.Type, d.Records, d.Bytes, d.Created, d.ID)
	var rows [][]string
	for key, value := range settings {
		rows = append(rows, []string{key, value})
	}
	slices.SortFunc(rows, func(x, y []string) int { return strings.Compare(x[0], y[0]) })
	if err := a.table("SETTING VALUE", rows); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	if len(d.Ranges) > 1 {
		fmt.Fprintf(a.stdout, "the keyspace, oldest ranges first, = takes records:\n%s\n", drawRanges(d.Ranges))
	}
	rows = rows[:0]
	for _, r := range d.Ranges {
		rows = append(rows, []string{
			"r" + number(r.ID), r.First + "-" + r.Last, number(r.Epoch), number(r.Start), number(r.End),
			number(r.Bytes), number(r.Records) + " records",
		})
		for _, s := range r.Segments {
			state := "open"
			if s.Sealed {
				state = "sealed"
			}
			rows = append(rows, []string{
				"  s" + number(s.ID), "", number(s.Epoch), number(s.Start), number(s.End), number(s.Bytes), state,
			})
		}
	}
	return a.table("RANGE POSITIONS EPOCH START END BYTES STATE", rows)
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/status"
)

// cause is why a reader gets nothing. The names are stable.
type cause string

const (
	causeEmpty    cause = "empty"
	causeAtEnd    cause = "at_end"
	causeFiltered cause = "filtered_out"
	causeGap      cause = "behind_a_gap"
	causeNothing  cause = "nothing_wrong"
	causeRefused  cause = "refused"
)

// reason is a cause with what happened and what to do.
type reason struct {
	Topic string `json:"topic"`
	Cause cause  `json:"cause"`
	// Code is that of the refusal, if the cause is one.
	Code status.Code `json:"code,omitempty"`
	What string      `json:"what"`
	Do   string      `json:"do"`
}

func (a *app) whyCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "why TOPIC",
		Short: "Say why a reader gets nothing, and what to do",
		Long: "Say why a reader of a topic gets nothing: the one cause, and what to do about it.\n" +
			"Give it the reader's cursor and filter.",
		Example: "  quire why orders --from end\n  quire why orders --from CURSOR --key alice --json",
		GroupID: groupData,
		Args:    cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "start", "where the reader is: start, end, a time (RFC 3339) or its cursor")
	key := flags.String("key", "", "the key that the reader asks for")
	prefix := flags.String("key-prefix", "", "the prefix of the keys that the reader asks for")
	cmd.MarkFlagsMutuallyExclusive("key", "key-prefix")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var filter *client.FilterOption
		switch {
		case flags.Changed("key"):
			by := client.Key([]byte(*key))
			filter = &by
		case flags.Changed("key-prefix"):
			by := client.KeyPrefix([]byte(*prefix))
			filter = &by
		}
		return a.run(func(ctx context.Context, args []string) error {
			return a.ask(ctx, func(ctx context.Context, c *client.Client) error {
				r, err := why(ctx, c, args[0], fromOf(from), filter)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(r)
				}
				_, err = fmt.Fprintf(a.stdout, "%s: %s\ndo: %s\n", r.Cause, r.What, r.Do)
				return err
			})
		})(cmd, args)
	}
	return cmd
}

// why looks for the first cause that holds. An error is one of asking, not a
// cause.
func why(ctx context.Context, c *client.Client, topic string, from client.From, filter *client.FilterOption) (reason, error) {
	r := reason{Topic: topic}
	next, err := c.Fetch(ctx, topic, from, client.MaxRecords(1), client.MaxBytes(1))
	var coded *status.Error
	switch {
	case errors.As(err, &coded) && isCause(coded.Code):
		r.Cause, r.Code, r.What, r.Do = causeRefused, coded.Code, coded.Message, status.Lookup(coded.Code).Do
		return r, nil
	case err != nil:
		return r, err
	case next.Gap != nil:
		r.Cause = causeGap
		r.What = fmt.Sprintf("records are missing before the next one: %v", &client.GapError{Gap: *next.Gap})
		r.Do = "go on with the cursor behind the gap; keep more with `quire topic set " + topic + " retention-age=…` if readers are that late"
		return r, nil
	case len(next.Records) == 0:
		return atEnd(ctx, c, r)
	case filter == nil:
		r.Cause = causeNothing
		r.What = fmt.Sprintf("the next record was appended at %s and waits to be read", jsonTime(next.Records[0].AppendTime))
		r.Do = "look at the reader: it does not ask, its window is shut, or it waits for something else"
		return r, nil
	}
	return filtered(ctx, c, r, from, *filter)
}

// isCause says whether a refusal explains a reader that gets nothing.
func isCause(code status.Code) bool {
	switch code {
	case status.TopicNotFound, status.CursorInvalid, status.CursorTopicGone, status.DataCorrupt:
		return true
	}
	return false
}

// atEnd tells a reader that has everything from a topic that has nothing.
func atEnd(ctx context.Context, c *client.Client, r reason) (reason, error) {
	d, err := c.DescribeTopic(ctx, r.Topic)
	if err != nil {
		return r, err
	}
	if d.Records() == 0 {
		r.Cause, r.What = causeEmpty, "the topic has no records"
		r.Do = "write some with `quire produce " + r.Topic + "`; if there were some, retention has removed them"
		return r, nil
	}
	r.Cause = causeAtEnd
	r.What = fmt.Sprintf("the reader has read all %d records that are there", d.Records())
	r.Do = "wait for more: look at whoever writes to the topic"
	return r, nil
}

// filtered looks whether the filter leaves anything of what is to come.
func filtered(
	ctx context.Context, c *client.Client, r reason, from client.From, filter client.FilterOption,
) (reason, error) {
	rest, err := c.Read(ctx, r.Topic, from, filter)
	if err != nil {
		return r, err
	}
	for rec, err := range rest.All() {
		if err != nil {
			return r, err
		}
		r.Cause = causeNothing
		r.What = fmt.Sprintf("a record that the filter picks was appended at %s and waits to be read", jsonTime(rec.AppendTime))
		r.Do = "look at the reader: it does not ask, its window is shut, or it waits for something else"
		return r, nil
	}
	r.Cause = causeFiltered
	r.What = "there are records to come, and none that the filter picks"
	r.Do = "check the key or the prefix; without it the reader gets the others"
	return r, nil
}

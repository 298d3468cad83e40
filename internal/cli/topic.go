package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quirelog/quire/client"
)

func (a *app) topicCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topic",
		Short:   "Create, list, describe, change, delete, split and merge topics",
		Example: "  quire topic create orders\n  quire topic list",
		GroupID: groupData,
	}
	cmd.AddCommand(
		a.topicCreateCommand(), a.topicListCommand(),
		a.completesTopic(a.topicDescribeCommand(), cobra.ShellCompDirectiveNoFileComp),
		a.completesTopic(a.topicSetCommand(), cobra.ShellCompDirectiveNoFileComp),
		a.completesTopic(a.topicDeleteCommand(), cobra.ShellCompDirectiveNoFileComp),
		a.completesTopic(a.topicSplitCommand(), cobra.ShellCompDirectiveNoFileComp),
		a.completesTopic(a.topicMergeCommand(), cobra.ShellCompDirectiveNoFileComp),
		a.completesTopic(a.topicRestripeCommand(), cobra.ShellCompDirectiveNoFileComp),
	)
	return cmd
}

// needsSubcommand is the function of a command that only groups others.
func needsSubcommand(cmd *cobra.Command, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if len(args) > 0 {
		return fmt.Errorf("unknown command %q for %q: it has %s",
			args[0], cmd.CommandPath(), strings.Join(names, ", "))
	}
	return fmt.Errorf("%q needs one of %s", cmd.CommandPath(), strings.Join(names, ", "))
}

func (a *app) topicCreateCommand() *cobra.Command {
	var topicType string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a topic",
		Example: "  quire topic create orders\n" +
			"  quire topic create events --retention-age 168h --segment-bytes 67108864",
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&topicType, "type", "log", "what compaction may drop: log (nothing), cache or counter")
	// The broker is the one judge of a setting's value, so these are text here.
	settings := []struct{ name, usage string }{
		{"replicas", "on how many stores each record is kept: auto or a number"},
		{"ack", "who has a record when it is acknowledged: quorum or primary"},
		{"fsync", "when appends are synced: always, never or an interval such as 100ms"},
		{"segment-bytes", "size at which a segment is sealed"},
		{"segment-age", "age at which a segment is sealed"},
		{"retention-bytes", "how many bytes are kept; 0 keeps all"},
		{"retention-age", "how long records are kept; 0 keeps them"},
		{"max-value-bytes", "largest value of a record"},
	}
	for _, s := range settings {
		flags.String(s.name, "", s.usage)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg := client.TopicConfig{Type: topicType, Settings: map[string]string{}}
		for _, s := range settings {
			if f := cmd.Flags().Lookup(s.name); f.Changed {
				cfg.Settings[s.name] = f.Value.String()
			}
		}
		return a.run(func(ctx context.Context, args []string) error {
			return a.topicAnswer(ctx, "created", func(ctx context.Context, c *client.Client) (client.Topic, error) {
				return c.CreateTopic(ctx, args[0], cfg)
			})
		})(cmd, args)
	}
	return cmd
}

func (a *app) topicSetCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "set NAME key=value …",
		Short:   "Change settings of a topic",
		Long:    "Change settings of a topic. The keys are those that `quire topic describe` prints.",
		Example: "  quire topic set orders retention-age=168h segment-bytes=67108864",
		Args:    cobra.MinimumNArgs(2),
		RunE: a.run(func(ctx context.Context, args []string) error {
			changes, err := settingsOf(args[1:])
			if err != nil {
				return err
			}
			return a.topicAnswer(ctx, "changed", func(ctx context.Context, c *client.Client) (client.Topic, error) {
				return c.AlterTopic(ctx, args[0], changes)
			})
		}),
	}
}

// settingsOf reads key=value arguments. Both spellings of a key are taken, the
// flags' and the JSON's.
func settingsOf(args []string) (map[string]string, error) {
	changes := make(map[string]string, len(args))
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		key = strings.ReplaceAll(key, "_", "-")
		if !ok || key == "" {
			return nil, usage("%q is not of the form key=value", arg)
		}
		if _, twice := changes[key]; twice {
			return nil, usage("%s is there twice", key)
		}
		changes[key] = value
	}
	return changes, nil
}

// topicAnswer makes a request that answers with a topic, and prints it.
func (a *app) topicAnswer(
	ctx context.Context, done string, request func(context.Context, *client.Client) (client.Topic, error),
) error {
	return a.ask(ctx, func(ctx context.Context, c *client.Client) error {
		t, err := request(ctx, c)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(topicJSON(t))
		}
		_, err = fmt.Fprintf(a.stdout, "%s %s (%s)\n", done, t.Name, t.Type)
		return err
	})
}

func (a *app) topicDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a topic and its records",
		Example: "  quire topic delete orders",
		Args:    cobra.ExactArgs(1),
		RunE: a.run(func(ctx context.Context, args []string) error {
			return a.ask(ctx, func(ctx context.Context, c *client.Client) error {
				if err := c.DeleteTopic(ctx, args[0]); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]string{"deleted": args[0]})
				}
				_, err := fmt.Fprintf(a.stdout, "deleted %s\n", args[0])
				return err
			})
		}),
	}
}

func (a *app) topicListCommand() *cobra.Command {
	var internal bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List topics, sorted by name",
		Example: "  quire topic list --json",
		Args:    cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, _ []string) error {
			topics, err := a.listTopics(ctx, internal)
			if err != nil {
				return err
			}
			rows := make([][]string, 0, len(topics))
			for _, t := range topics {
				if a.json {
					if err := a.printJSON(topicJSON(t)); err != nil {
						return err
					}
					continue
				}
				rows = append(rows, []string{
					t.Name, t.Type, t.Settings["replicas"], t.Settings["ack"], t.Settings["fsync"],
					jsonTime(t.Created),
				})
			}
			if a.json {
				return nil
			}
			return a.table("NAME TYPE REPLICAS ACK FSYNC CREATED", rows)
		}),
	}
	cmd.Flags().BoolVar(&internal, "internal", false, "list the broker's own topics too")
	return cmd
}

func (a *app) listTopics(ctx context.Context, internal bool) (topics []client.Topic, err error) {
	var opts []client.ListOption
	if internal {
		opts = append(opts, client.Internal())
	}
	err = a.ask(ctx, func(ctx context.Context, c *client.Client) error {
		for t, err := range c.Topics(ctx, opts...) {
			if err != nil {
				return err
			}
			topics = append(topics, t)
		}
		return nil
	})
	slices.SortFunc(topics, func(x, y client.Topic) int { return strings.Compare(x.Name, y.Name) })
	return topics, err
}

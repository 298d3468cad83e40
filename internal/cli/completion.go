package cli

import (
	"time"

	"github.com/spf13/cobra"
)

// completionLimit is how long a person may wait for topic names after a tab.
const completionLimit = time.Second

// completesTopic lets the shell complete the first argument of cmd with the
// names of topics, if a broker answers, and the others as directive says.
func (a *app) completesTopic(cmd *cobra.Command, others cobra.ShellCompDirective) *cobra.Command {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, others
		}
		a.timeout = min(a.timeout, completionLimit)
		topics, err := a.listTopics(cmd.Context(), false)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := make([]string, 0, len(topics))
		for _, t := range topics {
			names = append(names, t.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

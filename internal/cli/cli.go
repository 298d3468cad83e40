// Package cli is the command line: each command parses its flags, asks one of
// the packages below it to do the work, and prints. stdout is the answer,
// stderr the story; the exit status comes from the status table. Scripts rely
// on the names, the JSON keys and the exit statuses of this package.
//
// Only cmd/quire and tests call it.
package cli

import (
	"context"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/quirelog/quire/status"
)

// app is what all commands share: the streams, the environment and the global
// flags.
type app struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string

	addr    string
	json    bool
	timeout time.Duration
}

// Main runs one command line and returns its exit status. args are without the
// program's name; environ has the form of os.Environ. Canceling ctx is like an
// interrupt from the keyboard.
func Main(
	ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string,
) int {
	// A reader of stdout that goes away (head, less) must reach us as an
	// error of the write, so that the command can end in its own way.
	signal.Ignore(syscall.SIGPIPE)

	a := &app{stdin: stdin, stdout: &answer{stdout}, stderr: stderr, environ: environ}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(a.stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return a.exit(cmd, err)
}

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "quire",
		Short: "A durable log that many kinds of reader read",
		Long: "Quire is one durable, append-only log for streams of records, ordered per key.\n" +
			"`quire serve` is the broker, `quire demo` shows what it does, and the other\n" +
			"commands talk to a broker.",
		Example: "  quire demo\n" +
			"  quire serve --data ./quire-data\n" +
			"  quire topic create orders\n" +
			"  echo hello | quire produce orders\n" +
			"  quire consume orders",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.addr, "addr", a.getenv("QUIRE_ADDR", defaultAddr),
		"address of the broker, HOST:PORT; also from QUIRE_ADDR")
	flags.BoolVar(&a.json, "json", false, "print one JSON object a line")
	flags.DurationVar(&a.timeout, "timeout", 30*time.Second,
		"give up when the broker does not answer for so long")
	root.AddGroup(
		&cobra.Group{ID: groupBroker, Title: "The broker:"},
		&cobra.Group{ID: groupData, Title: "Topics and records:"},
	)
	// One line a command: what another package brings is attached here.
	root.AddCommand(
		a.serveCommand(),
		a.demoCommand(),
		a.doctorCommand(),
		a.benchCommand(),
		a.topicCommand(),
		a.completesTopic(a.produceCommand(), cobra.ShellCompDirectiveDefault),
		a.completesTopic(a.consumeCommand(), cobra.ShellCompDirectiveNoFileComp),
		a.completesTopic(a.whyCommand(), cobra.ShellCompDirectiveNoFileComp),
		a.versionCommand(),
	)
	for _, cmd := range root.Commands() {
		if cmd.HasSubCommands() {
			cmd.RunE = needsSubcommand
		}
	}
	return root
}

const (
	defaultAddr = "127.0.0.1:4600"

	groupBroker = "broker"
	groupData   = "data"
)

// run makes a command's function out of f: the interrupt and termination
// signals cancel its context, and a second one ends the process as if nobody
// had asked for the first.
func (a *app) run(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if a.timeout <= 0 {
			return usage("--timeout is %s; it must be more than nothing", a.timeout)
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		return ours(f(ctx, args))
	}
}

// usage is the error of a command line that is not well formed.
func usage(format string, args ...any) error {
	return status.New(status.UsageError, format, args...)
}

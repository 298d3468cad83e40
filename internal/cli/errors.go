package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quirelog/quire/status"
)

// cliError is an error with what only the command line knows of it: another
// exit status than its code has, or a better hint.
type cliError struct {
	err  error
	exit int
	hint string
	// told: it has been printed already.
	told bool
}

func (e *cliError) Error() string { return e.err.Error() }

func (e *cliError) Unwrap() error { return e.err }

// withHint gives err a hint of its own, for where the table's is too general.
func withHint(err error, format string, args ...any) error {
	return &cliError{err: err, hint: fmt.Sprintf(format, args...)}
}

// failed gives err the exit status of a command that began its work and did
// not complete it.
func failed(err error) error { return &cliError{err: err, exit: 1} }

// ours gives an error that a command returned its code, so that what is left
// without one comes from the parser of the command line.
func ours(err error) error {
	var coded *status.Error
	switch {
	case err == nil || isPipe(err) || errors.As(err, &coded):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(status.Timeout, "no answer came in time: %w", err)
	case errors.Is(err, context.Canceled):
		return status.New(status.Canceled, "stopped by a signal")
	}
	return status.New(status.Internal, "%w", err)
}

// exit prints what cmd's err says and returns the exit status.
func (a *app) exit(cmd *cobra.Command, err error) int {
	if err == nil || isPipe(err) {
		return 0
	}
	var coded *status.Error
	if !errors.As(err, &coded) {
		// Unknown commands and flags, and arguments that are too few or too many.
		err = withHint(status.New(status.UsageError, "%s", firstLine(err.Error())),
			"see `%s --help`", cmd.CommandPath())
	}
	return a.tell(err)
}

// tell prints err once and returns its exit status.
func (a *app) tell(err error) int {
	err = ours(err)
	var coded *status.Error
	if !errors.As(err, &coded) {
		return 0
	}
	row := status.Lookup(coded.Code)
	hint, exit, told := row.Do, row.Exit, false
	var own *cliError
	for e := err; errors.As(e, &own); e = own.err {
		if own.hint != "" {
			hint = own.hint
		}
		if own.exit != 0 {
			exit = own.exit
		}
		told = told || own.told
	}
	if !told {
		code := " (" + string(coded.Code) + ")"
		message := strings.TrimSuffix(oneLine(err.Error()), code)
		fmt.Fprintf(a.stderr, "quire: %s%s\nhint: %s\n", message, code, hint)
	}
	return exit
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// oneLine keeps a message that quotes foreign bytes to the one line that
// scripts expect.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

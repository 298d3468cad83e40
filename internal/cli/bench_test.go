package cli_test

import (
	"maps"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestBenchScripts runs the load generator for moments: what it measures is
// not looked at here, but that it does, what it prints and how it ends.
func TestBenchScripts(t *testing.T) {
	commands := maps.Clone(scriptCommands)
	commands["tells"] = tells
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/bench",
		RequireExplicitExec: true,
		Cmds:                commands,
		Setup: func(e *testscript.Env) error {
			e.Setenv("QUIRE_ADDR", "127.0.0.1:1")
			e.Values[processKey{}] = &processes{}
			return nil
		},
	})
}

// tells PATTERN waits until the program in the background has told it on
// stderr.
func tells(ts *testscript.TestScript, _ bool, args []string) {
	p := of(ts).other
	p.stderr.match(ts, p, regexp.MustCompile("(?m)"+args[0]))
}

package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quirelog/quire/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"quire": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
		},
	})
}

// TestScripts runs the command line as a script would. Beside the usual
// commands of testscript the scripts have those of scriptCommands.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                scriptCommands,
		Setup: func(e *testscript.Env) error {
			e.Setenv("LONG", strings.Repeat("x", 5000))
			e.Setenv("QUIRE_ADDR", "127.0.0.1:1")
			e.Values[processKey{}] = &processes{}
			return nil
		},
	})
}

// scriptCommands are the commands that the scripts have of their own.
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"exits":      exits,
	"serve":      serve,
	"shutdown":   shutdown,
	"kill9":      kill9,
	"pause":      pause,
	"background": background,
	"say":        say,
	"flood":      flood,
	"prints":     prints,
	"interrupt":  interrupt,
	"interrupts": interrupts,
	"ended":      ended,
	"firstline":  firstline,
	"cursor":     cursor,
	"cmpnames":   cmpnames,
	"envsubst":   envsubst,
	"numbers":    numbers,
	"flip":       flip,
	"empty":      empty,
}

// exits STATUS PROGRAM ARGS… is exec for a program that ends with STATUS.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	err = ts.Exec(args[1], args[2:]...)
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// cursor NAME puts the cursor that the last command printed, with or without
// --json, into the variable NAME.
func cursor(ts *testscript.TestScript, _ bool, args []string) {
	out := strings.TrimSpace(ts.ReadFile("stderr"))
	last := out[strings.LastIndexByte(out, '\n')+1:]
	if m := jsonCursor.FindStringSubmatch(ts.ReadFile("stdout")); m != nil {
		last = m[1]
	}
	if !plainCursor.MatchString(last) {
		ts.Fatalf("the last line is no cursor: %q", last)
	}
	ts.Setenv(args[0], last)
}

var (
	jsonCursor  = regexp.MustCompile(`\{"type":"cursor","cursor":"([^"]*)"\}\n$`)
	plainCursor = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`)
)

// cmpnames NAMES… compares the first column of stdout, without its heading.
// Names may be printed with the scope that they are short for.
func cmpnames(ts *testscript.TestScript, _ bool, args []string) {
	var got []string
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		name, _, _ := strings.Cut(line, " ")
		got = append(got, strings.TrimPrefix(name, "default/default/"))
	}
	if want := append([]string{"NAME"}, args...); strings.Join(got, " ") != strings.Join(want, " ") {
		ts.Fatalf("names are %v, want %v", got, want)
	}
}

// envsubst FILE replaces $LONG in FILE.
func envsubst(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.ReplaceAll(ts.ReadFile(args[0]), "$LONG", ts.Getenv("LONG"))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
}

// numbers FILE N writes the numbers from 1 to N, one a line.
func numbers(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o666))
}

// flip DIR TEXT flips a bit where TEXT stands in one of the files below DIR.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	flipped := false
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || flipped || strings.Contains(d.Name(), "journal") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if at := bytes.Index(b, []byte(args[1])); at >= 0 {
			b[at] ^= 1
			flipped = true
			return os.WriteFile(path, b, 0o666)
		}
		return nil
	}))
	if !flipped {
		ts.Fatalf("no file below %s has %q in it", args[0], args[1])
	}
}

// empty DIR fails if there is something in DIR.
func empty(ts *testscript.TestScript, _ bool, args []string) {
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(entries) > 0 {
		ts.Fatalf("%s is not empty: %v", args[0], entries)
	}
}

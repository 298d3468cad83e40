package gate

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// step is a command of the README and what it prints.
type step struct {
	command string
	output  []string
}

// TestReadmeTellsTheTruth repeats the first five minutes of the README and
// compares what the commands print. Times, addresses and cursors differ from
// run to run; a cursor that a command printed is the one that a later command
// is given.
func TestReadmeTellsTheTruth(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(string(repository(t).files["README.md"]), "\n## The first five minutes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	steps := parseSteps(section)
	if len(steps) < 5 {
		t.Fatalf("only %d commands", len(steps))
	}
	r := newReader(t)
	for _, s := range steps {
		r.do(s)
	}
}

// parseSteps takes the commands out of the indented blocks of a text.
func parseSteps(text string) (steps []step) {
	for line := range strings.Lines(text) {
		line, code := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if command, ok := strings.CutPrefix(line, "$ "); ok && code {
			steps = append(steps, step{command: command})
		} else if code && len(steps) > 0 {
			last := &steps[len(steps)-1]
			last.output = append(last.output, line)
		}
	}
	return steps
}

// reader follows the README in a directory of its own.
type reader struct {
	t   *testing.T
	dir string
	// address is the broker's, which listens where there is room.
	address string
	broker  *exec.Cmd
	// cursors are those of the README and of this run.
	cursors map[string]string
}

func newReader(t *testing.T) *reader {
	r := &reader{t: t, dir: t.TempDir(), address: "127.0.0.1:1", cursors: map[string]string{}}
	base, err := filepath.Abs(root())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(base, "internal"), filepath.Join(r.dir, "internal")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kill)
	return r
}

func (r *reader) do(s step) {
	r.t.Helper()
	var got []string
	switch {
	case strings.HasPrefix(s.command, "go build "):
		run(r.t, nil, "go", "build", "-o", filepath.Join(r.dir, "quire"), "./cmd/quire")
	case s.command == "./quire serve &":
		got = []string{r.serve()}
	case s.command == "kill -9 $!":
		r.kill()
	default:
		got = r.shell(s.command)
	}
	if !slices.EqualFunc(got, s.output, func(got, want string) bool { return steady(got) == steady(want) }) {
		r.t.Fatalf("README.md: $ %s\nprints\n%s\nand not\n%s", s.command, strings.Join(got, "\n"), strings.Join(s.output, "\n"))
	}
	for i, want := range s.output {
		if c := cursorToken.FindString(want); c != "" {
			r.cursors[c] = cursorToken.FindString(got[i])
		}
	}
}

// serve starts the broker and gives the line that says that it is ready.
func (r *reader) serve() string {
	r.broker = exec.Command("./quire", "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	r.broker.Dir = r.dir
	stderr, err := r.broker.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.broker.Start(); err != nil {
		r.t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	var said []string
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "quire ready listen="); ok {
			r.address, _, _ = strings.Cut(rest, " ")
			return lines.Text()
		}
		said = append(said, lines.Text())
	}
	r.t.Fatalf("the broker is not ready: %v\n%s", lines.Err(), strings.Join(said, "\n"))
	return ""
}

// kill ends the broker the hard way, if one runs.
func (r *reader) kill() {
	if r.broker == nil {
		return
	}
	_ = r.broker.Process.Kill()
	_ = r.broker.Wait()
	r.broker = nil
}

// shell runs a command and gives the lines that it prints on either stream.
func (r *reader) shell(command string) []string {
	for readme, now := range r.cursors {
		command = strings.ReplaceAll(command, readme, now)
	}
	cmd := exec.CommandContext(r.t.Context(), "sh", "-c", command)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "QUIRE_ADDR="+r.address)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

// cursorToken is a cursor, as it is printed.
var cursorToken = regexp.MustCompile(`\bc[A-Za-z0-9_-]{30,}`)

// unsteady is what differs from run to run.
var unsteady = regexp.MustCompile(cursorToken.String() + `|127\.0\.0\.1:\d+|seconds=[0-9.]+`)

func steady(line string) string { return unsteady.ReplaceAllString(line, "…") }

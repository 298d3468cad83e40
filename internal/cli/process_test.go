package cli_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a script waits for a process before it fails.
const patience = time.Minute

// processes are the processes of one script: its broker and its other one.
type processes struct{ broker, other *process }

type processKey struct{}

func of(ts *testscript.TestScript) *processes { return ts.Value(processKey{}).(*processes) }

// process is a process in the background whose output can be waited for.
type process struct {
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr *transcript
	exited         chan error
}

// start starts a program of the script's environment.
func start(ts *testscript.TestScript, args []string) *process {
	p := &process{cmd: exec.Command(args[0], args[1:]...), exited: make(chan error, 1)}
	p.stdout, p.stderr = newTranscript(), newTranscript()
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Env = append(os.Environ(), "QUIRE_ADDR="+ts.Getenv("QUIRE_ADDR"),
		"QUIRE_DATA="+ts.Getenv("QUIRE_DATA"), "QUIRE_CONFIG="+ts.Getenv("QUIRE_CONFIG"))
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	ts.Check(err)
	ts.Check(p.cmd.Start())
	go func() { p.exited <- p.cmd.Wait() }()
	ts.Defer(func() { _ = p.cmd.Process.Kill() })
	return p
}

// wait waits for the end of p and shows its output to the script.
func (p *process) wait(ts *testscript.TestScript) (status int) {
	select {
	case err := <-p.exited:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			status = exit.ExitCode()
		} else {
			ts.Check(err)
		}
	case <-time.After(patience):
		ts.Fatalf("the process does not end; stderr:\n%s", p.stderr)
	}
	_, _ = io.WriteString(ts.Stdout(), p.stdout.String())
	_, _ = io.WriteString(ts.Stderr(), p.stderr.String())
	return status
}

// serve FLAGS… starts a broker on free ports and waits until it is ready. Its
// data are in the directory data, unless a flag or variable says otherwise.
func serve(ts *testscript.TestScript, _ bool, args []string) {
	line := []string{"quire", "serve"}
	if !slices.Contains(args, "--listen") && !slices.Contains(args, "--config") {
		line = append(line, "--listen", "127.0.0.1:0")
	}
	if !slices.Contains(args, "--config") {
		line = append(line, "--http", "127.0.0.1:0")
		if !slices.Contains(args, "--data") {
			line = append(line, "--data", "data")
		}
	}
	p := start(ts, append(line, args...))
	of(ts).broker = p
	m := p.stderr.match(ts, p, regexp.MustCompile(`(?m)^quire ready listen=\S+:(\d+) http=(\S+)$`))
	ts.Setenv("QUIRE_ADDR", "127.0.0.1:"+m[1])
	ts.Setenv("HTTP_ADDR", m[2])
}

// shutdown stops the broker as a supervisor does; it must end cleanly.
func shutdown(ts *testscript.TestScript, _ bool, _ []string) {
	p := of(ts).broker
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	if got := p.wait(ts); got != 0 {
		ts.Fatalf("the broker ended with status %d; stderr:\n%s", got, p.stderr)
	}
}

// kill9 ends the broker the hard way.
func kill9(ts *testscript.TestScript, _ bool, _ []string) {
	p := of(ts).broker
	ts.Check(p.cmd.Process.Kill())
	p.wait(ts)
}

// pause stops the broker where it is, for the rest of the script: its
// connections stay, and it answers nothing.
func pause(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(of(ts).broker.cmd.Process.Signal(syscall.SIGSTOP))
}

// background PROGRAM ARGS… starts a program.
func background(ts *testscript.TestScript, _ bool, args []string) { of(ts).other = start(ts, args) }

// say TEXT writes a line to the program in the background.
func say(ts *testscript.TestScript, _ bool, args []string) {
	_, err := io.WriteString(of(ts).other.stdin, args[0]+"\n")
	ts.Check(err)
}

// flood writes so many lines to the program in the background that it must have
// taken the first of them in before the last are written: more than a pipe, its
// reader and the chunks behind it hold.
func flood(ts *testscript.TestScript, _ bool, _ []string) {
	const bytes = 1 << 20
	_, err := io.WriteString(of(ts).other.stdin, strings.Repeat("a line of a flood\n", bytes/18))
	ts.Check(err)
}

// prints PATTERN waits until the program in the background has printed it.
func prints(ts *testscript.TestScript, _ bool, args []string) {
	p := of(ts).other
	p.stdout.match(ts, p, regexp.MustCompile(args[0]))
}

// interrupt STATUS interrupts the program in the background, which must end
// with STATUS.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(of(ts).other.cmd.Process.Signal(os.Interrupt))
	ended(ts, neg, args)
}

// interrupts interrupts the program in the background again and again, until
// it is gone. It must go by the signal, without a farewell.
func interrupts(ts *testscript.TestScript, _ bool, _ []string) {
	p := of(ts).other
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for gone := false; !gone; {
		select {
		case <-again.C:
			_ = p.cmd.Process.Signal(os.Interrupt) // an error means that it is gone
		case err := <-p.exited:
			p.exited <- err
			gone = true
		}
	}
	if got := p.wait(ts); got != -1 {
		ts.Fatalf("exit status %d, want an end by the signal", got)
	}
}

// ended STATUS waits for the program in the background, which must end with
// STATUS.
func ended(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := of(ts).other.wait(ts); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// firstline PROGRAM ARGS… reads the first line of a program and then closes
// its stdout. The program must end with status 0.
func firstline(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "QUIRE_ADDR="+ts.Getenv("QUIRE_ADDR"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	ts.Check(out.Close())
	err = cmd.Wait()
	_, _ = io.WriteString(ts.Stdout(), line)
	_, _ = io.WriteString(ts.Stderr(), stderr.String())
	ts.Check(err)
}

// transcript is output that can be waited for.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newTranscript() *transcript { return &transcript{more: make(chan struct{})} }

func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.more)
	t.more = make(chan struct{})
	return t.text.Write(b)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// match waits until the output of p matches.
func (t *transcript) match(ts *testscript.TestScript, p *process, pattern *regexp.Regexp) []string {
	late := time.After(patience)
	for {
		t.mu.Lock()
		more, m := t.more, pattern.FindStringSubmatch(t.text.String())
		t.mu.Unlock()
		if m != nil {
			return m
		}
		select {
		case <-more:
		case err := <-p.exited:
			p.exited <- err
			if m := pattern.FindStringSubmatch(t.String()); m != nil {
				return m
			}
			ts.Fatalf("the process ended without %s: %v; stderr:\n%s", pattern, err, p.stderr)
		case <-late:
			ts.Fatalf("no %s came; stderr:\n%s", pattern, p.stderr)
		}
	}
}

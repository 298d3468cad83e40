package bench

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quirelog/quire/status"
)

// broker is a broker that runs as a process of its own.
type broker struct {
	cmd        *exec.Cmd
	addr, http string
	// launched is when the process was started, ready how long it took then
	// until it served.
	launched time.Time
	ready    time.Duration
	said     *tail
	exited   chan struct{}
	err      error // of the process, once exited
}

const (
	// startLimit is how long a broker may take until it is ready.
	startLimit = 10 * time.Minute
	// stopLimit is how long it may take to stop cleanly.
	stopLimit = 30 * time.Second
)

// launch starts a broker on the directory and waits until it is ready.
func launch(ctx context.Context, opts Options, dir string) (*broker, error) {
	args := append(opts.Program[1:len(opts.Program):len(opts.Program)],
		"--data", dir, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "warn")
	b := &broker{cmd: exec.Command(opts.Program[0], args...), said: &tail{}, exited: make(chan struct{})}
	b.cmd.Env = opts.Env
	stderr, err := b.cmd.StderrPipe()
	if err != nil {
		return nil, status.New(status.Internal, "start a broker: %w", err)
	}
	b.launched = time.Now()
	if err := b.cmd.Start(); err != nil {
		return nil, status.New(status.Internal, "start a broker: %w", err)
	}
	ready := make(chan string, 1)
	go func() {
		defer close(b.exited)
		b.listen(stderr, ready)
		b.err = b.cmd.Wait()
	}()
	late := time.NewTimer(startLimit)
	defer late.Stop()
	select {
	case line := <-ready:
		b.ready = time.Since(b.launched)
		b.addr, b.http = field(line, "listen"), field(line, "http")
		return b, nil
	case <-b.exited:
		return nil, status.New(status.Unavailable, "the broker ended before it was ready: %s", b.said)
	case <-late.C:
		err = status.New(status.Timeout, "the broker was not ready after %s: %s", startLimit, b.said)
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.kill()
	return nil, err
}

// listen reads what the broker says until it ends, and finds the line that
// says that it is ready.
func (b *broker) listen(stderr io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "quire ready ") {
			select {
			case ready <- line:
			default:
			}
			continue
		}
		b.said.add(line)
	}
	_, _ = io.Copy(io.Discard, stderr) // a line that is too long for the scanner
}

// field finds name=value in a line.
func field(line, name string) string {
	for _, f := range strings.Fields(line) {
		if value, ok := strings.CutPrefix(f, name+"="); ok {
			return value
		}
	}
	return ""
}

// kill ends the broker the hard way, with SIGKILL where there are signals, and
// returns when it is gone.
func (b *broker) kill() {
	_ = b.cmd.Process.Kill()
	<-b.exited
}

// stop ends the broker as a supervisor does.
func (b *broker) stop() error {
	if b.cmd.Process.Signal(syscall.SIGTERM) != nil {
		b.kill() // it has ended already, or there are no signals here
		return nil
	}
	late := time.NewTimer(stopLimit)
	defer late.Stop()
	select {
	case <-b.exited:
	case <-late.C:
		b.kill()
		return status.New(status.Timeout, "the broker did not stop within %s: %s", stopLimit, b.said)
	}
	if b.err != nil {
		return status.New(status.Internal, "the broker did not stop cleanly: %w: %s", b.err, b.said)
	}
	return nil
}

// tail keeps the last few lines of an output.
type tail struct {
	mu    sync.Mutex
	lines []string
}

const tailLines = 4

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	if len(t.lines) > tailLines {
		t.lines = t.lines[1:]
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, " | ")
}

package demo

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/quirelog/quire/status"
)

// broker is a broker that runs as a process of its own, so that it can be
// killed as a power cut would.
type broker struct {
	cmd  *exec.Cmd
	addr string
	// recovery is how long it took from the start of the process until it was
	// ready.
	recovery time.Duration
	said     *tail
	exited   chan struct{}
}

// startLimit is how long a broker may take until it is ready.
const startLimit = 30 * time.Second

// launch starts a broker and waits until it is ready.
func launch(ctx context.Context, opts Options) (*broker, error) {
	args := append(opts.Program[1:len(opts.Program):len(opts.Program)],
		"--data", opts.Dir, "--listen", "127.0.0.1:0", "--http", "off")
	b := &broker{cmd: exec.Command(opts.Program[0], args...), said: &tail{}, exited: make(chan struct{})}
	b.cmd.Env = opts.Env
	stderr, err := b.cmd.StderrPipe()
	if err != nil {
		return nil, status.New(status.Internal, "start a broker: %w", err)
	}
	begin := time.Now()
	if err := b.cmd.Start(); err != nil {
		return nil, status.New(status.Internal, "start a broker: %w", err)
	}
	ready := make(chan string, 1)
	go func() {
		defer close(b.exited)
		b.listen(stderr, ready)
		_ = b.cmd.Wait()
	}()
	late := time.NewTimer(startLimit)
	defer late.Stop()
	select {
	case b.addr = <-ready:
		b.recovery = time.Since(begin)
		return b, nil
	case <-b.exited:
		return nil, status.New(status.Unavailable, "the broker ended before it was ready: %s", b.lastWords())
	case <-late.C:
		err = status.New(status.Timeout, "the broker was not ready after %s: %s", startLimit, b.lastWords())
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.kill()
	return nil, err
}

// listen reads what the broker says until it ends, and finds its address.
func (b *broker) listen(stderr io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "quire ready "); ok {
			for _, field := range strings.Fields(rest) {
				if addr, ok := strings.CutPrefix(field, "listen="); ok {
					ready <- addr
				}
			}
			continue
		}
		b.said.add(line)
	}
	_, _ = io.Copy(io.Discard, stderr)
}

// kill ends the broker the hard way (SIGKILL where there are signals) and
// returns when it is gone.
func (b *broker) kill() {
	_ = b.cmd.Process.Kill()
	<-b.exited
}

func (b *broker) pid() int { return b.cmd.Process.Pid }

// lastWords are the last lines that the broker wrote.
func (b *broker) lastWords() string { return b.said.String() }

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

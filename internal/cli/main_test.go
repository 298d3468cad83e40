package cli_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quirelog/quire/internal/cli"
	"github.com/quirelog/quire/internal/daemon"
	"github.com/quirelog/quire/internal/node"
)

// failing is a stdout that fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestAnAnswerThatCannotBeWrittenIsAFailureUnlessItsReaderHadEnough(t *testing.T) {
	for _, tt := range []struct {
		err  error
		exit int
		said string
	}{
		{syscall.ENOSPC, 1, "quire: cannot write the answer: no space left on device (internal)\n"},
		{syscall.EPIPE, 0, ""},
		{io.ErrClosedPipe, 0, ""},
	} {
		var stderr bytes.Buffer
		exit := cli.Main(t.Context(), []string{"version"}, nil, failing{tt.err}, &stderr, nil)
		if exit != tt.exit || !strings.HasPrefix(stderr.String(), tt.said) || tt.said == "" && stderr.Len() > 0 {
			t.Errorf("%v: exit status %d, stderr %q", tt.err, exit, &stderr)
		}
	}
}

// broker runs a broker in this process and returns its address.
func broker(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{
			Node: node.Config{Dir: dir}, Listen: "127.0.0.1:0",
			Ready: func(native, _ net.Addr) { ready <- native.String() },
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case addr := <-ready:
		return addr
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return ""
	}
}

// sluggish is a proxy that stops passing on what the broker answers once it is
// told to.
type sluggish struct {
	net.Listener
	target string
	stuck  atomic.Bool
}

func (s *sluggish) serve() {
	for {
		c, err := s.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", s.target)
		if err != nil {
			_ = c.Close()
			return
		}
		go func() {
			_, _ = io.Copy(b, c)
			_ = b.Close()
		}()
		go func() { _, _ = io.Copy(writerFunc(func(p []byte) (int, error) { return s.answer(c, p) }), b) }()
	}
}

func (s *sluggish) answer(c net.Conn, p []byte) (int, error) {
	if s.stuck.Load() {
		return len(p), nil
	}
	return c.Write(p)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// hook is a stdin that calls do before its second line.
type hook struct {
	do    func()
	lines int
}

func (h *hook) Read(p []byte) (int, error) {
	h.lines++
	switch h.lines {
	case 1:
		return copy(p, "one\n"), nil
	case 2:
		h.do()
		return copy(p, "two\n"), nil
	}
	return 0, io.EOF
}

func TestAProduceGivesUpWhenNoAnswerComesForTheTimeOfTheFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &sluggish{Listener: l, target: broker(t)}
	defer proxy.Close()
	go proxy.serve()
	environ := []string{"QUIRE_ADDR=" + l.Addr().String()}
	if exit := cli.Main(t.Context(), []string{"topic", "create", "t"}, nil, io.Discard, io.Discard, environ); exit != 0 {
		t.Fatalf("topic create: exit status %d", exit)
	}
	var stdout, stderr bytes.Buffer
	begin := time.Now()
	exit := cli.Main(t.Context(), []string{"produce", "t", "--timeout", "500ms"},
		&hook{do: func() { proxy.stuck.Store(true) }}, &stdout, &stderr, environ)
	if exit != 1 || !strings.Contains(stderr.String(), "no record was acknowledged for 500ms (timeout)") {
		t.Errorf("exit status %d, stdout %q, stderr %q", exit, &stdout, &stderr)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	exit = cli.Main(t.Context(), []string{"topic", "list", "--timeout", "500ms"}, nil, io.Discard, &stderr, environ)
	if exit != 1 && exit != 5 {
		t.Errorf("a list that is not answered ends with %d", exit)
	}
}

func TestCancelingTheContextIsAnInterrupt(t *testing.T) {
	environ := []string{"QUIRE_ADDR=" + broker(t)}
	if exit := cli.Main(t.Context(), []string{"topic", "create", "t"}, nil, io.Discard, io.Discard, environ); exit != 0 {
		t.Fatalf("topic create: exit status %d", exit)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	exit := cli.Main(ctx, []string{"consume", "t"}, nil, io.Discard, &stderr, environ)
	if exit != 1 || !strings.Contains(stderr.String(), "(canceled)") {
		t.Errorf("exit status %d, stderr %q", exit, &stderr)
	}
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// interrupt asks a process to end cleanly.
const interrupt = syscall.SIGTERM

// server is a nats-server in a process of its own.
type server struct {
	cmd    *exec.Cmd
	url    string
	exited chan struct{}
}

// config is the server's configuration: a file store on a directory, defaults
// for everything that is not about where, and syncs.
const config = `listen: "127.0.0.1:-1"
jetstream {
	store_dir: %q
	%s
}
`

// serverLimit is how long the server may take to start, and to stop.
const serverLimit = 30 * time.Second

// serve starts a server with its data in dir.
func serve(ctx context.Context, program, dir string, always bool) (*server, error) {
	sync := ""
	if always {
		sync = "sync_interval: always"
	}
	file := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, filepath.Join(dir, "data"), sync), 0o600); err != nil {
		return nil, err
	}
	s := &server{cmd: exec.Command(program, "-c", file), exited: make(chan struct{})}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	go func() {
		defer close(s.exited)
		s.listen(stderr, ready)
		_ = s.cmd.Wait()
	}()
	select {
	case s.url = <-ready:
		return s, nil
	case <-s.exited:
		return nil, fmt.Errorf("nats-server ended before it was ready")
	case <-time.After(serverLimit):
		err = fmt.Errorf("nats-server was not ready after %s", serverLimit)
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.stop()
	return nil, err
}

// listen reads the server's log and finds its address and that it is ready.
func (s *server) listen(log io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(log)
	addr := ""
	for lines.Scan() {
		if _, after, ok := strings.Cut(lines.Text(), "Listening for client connections on "); ok {
			addr = strings.TrimSpace(after)
		}
		if strings.HasSuffix(lines.Text(), "Server is ready") {
			ready <- "nats://" + addr
			break
		}
	}
	_, _ = io.Copy(io.Discard, log)
}

// stop ends the server, cleanly if it can.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(interrupt)
	select {
	case <-s.exited:
	case <-time.After(serverLimit):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
}

// usage is the CPU time and the memory that the server has used so far.
func (s *server) usage() (cpu time.Duration, memory uint64, err error) {
	p, err := procfs.NewProc(s.cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	stat, err := p.Stat()
	if err != nil {
		return 0, 0, err
	}
	return time.Duration(stat.CPUTime() * float64(time.Second)), uint64(stat.ResidentMemory()), nil
}

package native

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quirelog/quire/status"
)

// acceptPause is the longest pause after a failed accept.
const acceptPause = time.Second

// Server serves a broker on any number of listeners.
type Server struct {
	broker  Broker
	cfg     Config
	metrics *metrics
	// produces and answers are the budgets that all connections share.
	produces *budget
	answers  *budget
	// producing counts the produces that the broker has not answered.
	producing atomic.Int64
	// over ends, by end, when all connections are cut.
	over    context.Context
	end     context.CancelFunc
	tasks   sync.WaitGroup // connections
	refused chan struct{}  // a token for each connection that is being refused
	warnTLS sync.Once

	mu        sync.Mutex
	closing   bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
}

// New makes a server. It fails if cfg is out of its bounds or its metrics are
// registered already.
func New(broker Broker, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Server{
		broker:    broker,
		cfg:       cfg,
		metrics:   m,
		produces:  newBudget(cfg.ProduceBytesInAll),
		answers:   newBudget(cfg.QueuedBytesInAll),
		refused:   make(chan struct{}, maxRefusals),
		listeners: map[net.Listener]struct{}{},
		conns:     map[*conn]struct{}{},
	}
	s.over, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Serve accepts connections of ln until Shutdown or Close, and then returns
// nil, or until ln fails for good. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	if !s.listen(ln) {
		return ln.Close()
	}
	defer s.unlisten(ln)
	var pause time.Duration
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			s.metrics.accepted.Inc()
			s.admit(nc)
		case s.stopping():
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			// The process has no file descriptors left, most likely. Existing
			// connections go on, and some of them will end.
			pause = min(max(2*pause, 5*time.Millisecond), acceptPause)
			s.cfg.Log.Error("accept failed", "listener", ln.Addr().String(), "error", err, "retry_in", pause)
			select {
			case <-time.After(pause):
			case <-s.over.Done():
			}
		}
	}
}

// admit begins the connection nc, or refuses it.
func (s *Server) admit(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		_ = nc.Close()
		return
	}
	if n := len(s.conns); n >= s.cfg.MaxConnections {
		s.metrics.limit(limitConnections)
		s.refuse(nc, status.New(status.LimitReached, "the broker has %d connections, which is the most", n))
		return
	}
	c := newConn(s, nc)
	s.conns[c] = struct{}{}
	s.metrics.connections.Inc()
	s.tasks.Go(func() {
		c.run()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		s.metrics.connections.Dec()
	})
}

func (s *Server) listen(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.listeners[ln] = struct{}{}
	}
	return !s.closing
}

func (s *Server) unlisten(ln net.Listener) {
	_ = ln.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, ln)
}

func (s *Server) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// Shutdown stops accepting and reading requests, lets those in flight finish
// and their answers be written, and tells each client that this is the end.
// Long polls and subscriptions end with unavailable. When ctx ends first,
// what is left is cut and the error is that of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	for ln := range s.listeners {
		_ = ln.Close()
	}
	for c := range s.conns {
		c.stop(errShutdown)
	}
	s.mu.Unlock()

	stop := context.AfterFunc(ctx, s.end)
	s.tasks.Wait()
	if !stop() {
		return context.Cause(ctx)
	}
	s.end()
	return nil
}

// Close cuts all connections and waits until they are gone.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Shutdown(ctx) // that they were cut is what Close is for
	return nil
}

var errShutdown = status.New(status.Unavailable, "the broker is shutting down")

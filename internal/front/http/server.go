// Package httpfront is the broker's door for machines that look after it:
// liveness, readiness, metrics, and profiles for a person on the same host.
// It has no rules of its own and asks the broker one question, whether it is
// ready.
//
// The command line composes it beside the native front.
package httpfront

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Broker is what this front asks of a broker.
type Broker interface {
	// Ready is nil when the broker serves, and else says why it does not.
	Ready() error
}

// Limits of the front. It serves probes and scrapers, so they are small.
const (
	// MaxConnections bounds the open connections; more wait to be accepted.
	MaxConnections = 256
	// MaxHeaderBytes bounds a request's header.
	MaxHeaderBytes = 16 << 10
	// ReadTimeout bounds the reading of a request, from its first byte.
	ReadTimeout = 10 * time.Second
	// WriteTimeout bounds an answer; a profile may take this long.
	WriteTimeout = 2 * time.Minute
	// IdleTimeout is how long a connection may wait for its next request.
	IdleTimeout = time.Minute
)

// Server serves one listener.
type Server struct {
	broker   Broker
	http     *http.Server
	draining atomic.Bool
}

// New makes a server that serves the metrics of metrics and logs to log.
func New(broker Broker, metrics prometheus.Gatherer, log *slog.Logger) *Server {
	s := &Server{broker: broker}
	s.http = &http.Server{
		Handler:           s.routes(metrics, log),
		ReadHeaderTimeout: ReadTimeout,
		ReadTimeout:       ReadTimeout,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve accepts connections of l until Shutdown or an error of l. It returns
// nil after Shutdown.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(limit(l, MaxConnections))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Drain makes readiness say no, so that nobody sends new work here.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown stops accepting and waits for the requests under way until ctx
// ends; then it closes their connections.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	if err := s.http.Shutdown(ctx); err != nil {
		return s.http.Close()
	}
	return nil
}

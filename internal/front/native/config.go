package native

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quirelog/quire/internal/wire"
)

// Config has the limits of a server. A zero field has its default.
type Config struct {
	// Name is what clients are told of the broker: program and version.
	// Default: quire.
	Name string
	// Log gets what an operator should know. Default: nothing is logged.
	Log *slog.Logger
	// Registerer gets the metrics. Default: they are not registered.
	Registerer prometheus.Registerer

	// MaxConnections bounds the open connections. Default 10,000, at most
	// 1,000,000.
	MaxConnections int
	// MaxInFlight bounds the requests in flight on a connection. Default and
	// most: 1,024.
	MaxInFlight int

	// ProduceBytes bounds the batches of one connection that are being read or
	// wait for the broker's answer. Default 64 MiB, at least a frame, 16 MiB.
	ProduceBytes int64
	// ProduceBytesInAll bounds the same for all connections together. Default
	// 1 GiB, at least ProduceBytes.
	ProduceBytesInAll int64
	// QueuedBytes bounds the answers of one connection that wait to be
	// written. Default 64 MiB, at least a frame, 16 MiB.
	QueuedBytes int64
	// QueuedBytesInAll bounds the same for all connections together. Default
	// 1 GiB, at least QueuedBytes.
	QueuedBytesInAll int64

	// HandshakeTimeout is how long a new connection has for its handshake.
	// Default 10 s.
	HandshakeTimeout time.Duration
	// FrameTimeout is how long a frame may take from its first byte to its
	// last. Between frames a connection may be idle for ever. Default 60 s.
	FrameTimeout time.Duration
	// WriteStall is how long a client may take nothing while answers wait for
	// it. While QueuedBytesInAll is used up it is only pressedStall. Default
	// 30 s.
	WriteStall time.Duration
}

// withDefaults fills in the defaults and checks the bounds.
func (c Config) withDefaults() (Config, error) {
	if c.Name == "" {
		c.Name = "quire"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	const most = 1 << 40
	err := errors.Join(
		bound("MaxConnections", &c.MaxConnections, 10_000, 1, 1_000_000),
		bound("MaxInFlight", &c.MaxInFlight, wire.MaxInFlight, 1, wire.MaxInFlight),
		bound("ProduceBytes", &c.ProduceBytes, 64<<20, wire.MaxFrame, most),
		bound("QueuedBytes", &c.QueuedBytes, 64<<20, wire.MaxFrame, most),
		bound("HandshakeTimeout", &c.HandshakeTimeout, 10*time.Second, 1, time.Hour),
		bound("FrameTimeout", &c.FrameTimeout, time.Minute, 1, time.Hour),
		bound("WriteStall", &c.WriteStall, 30*time.Second, 1, time.Hour),
	)
	// These have those of one connection as their lower bounds.
	return c, errors.Join(
		err,
		bound("ProduceBytesInAll", &c.ProduceBytesInAll, max(1<<30, c.ProduceBytes), c.ProduceBytes, most),
		bound("QueuedBytesInAll", &c.QueuedBytesInAll, max(1<<30, c.QueuedBytes), c.QueuedBytes, most),
	)
}

// bound sets a field that is zero to its default and checks its bounds.
func bound[T ~int | ~int64](name string, field *T, fallback, low, high T) error {
	if *field == 0 {
		*field = fallback
	}
	if *field < low || *field > high {
		return fmt.Errorf("native front: %s is %v, want %v to %v", name, *field, low, high)
	}
	return nil
}

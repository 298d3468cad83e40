package native

import (
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
	for _, f := range []struct {
		name               string
		field              *int64
		fallback, low, top int64
	}{
		{"ProduceBytes", &c.ProduceBytes, 64 << 20, wire.MaxFrame, 1 << 40},
		{"ProduceBytesInAll", &c.ProduceBytesInAll, max(1<<30, c.ProduceBytes), c.ProduceBytes, 1 << 40},
		{"QueuedBytes", &c.QueuedBytes, 64 << 20, wire.MaxFrame, 1 << 40},
		{"QueuedBytesInAll", &c.QueuedBytesInAll, max(1<<30, c.QueuedBytes), c.QueuedBytes, 1 << 40},
		{"HandshakeTimeout", (*int64)(&c.HandshakeTimeout), int64(10 * time.Second), 1, int64(time.Hour)},
		{"FrameTimeout", (*int64)(&c.FrameTimeout), int64(time.Minute), 1, int64(time.Hour)},
		{"WriteStall", (*int64)(&c.WriteStall), int64(30 * time.Second), 1, int64(time.Hour)},
	} {
		if err := check(f.name, f.field, f.fallback, f.low, f.top); err != nil {
			return c, err
		}
	}
	for _, f := range []struct {
		name          string
		field         *int
		fallback, top int64
	}{
		{"MaxConnections", &c.MaxConnections, 10_000, 1_000_000},
		{"MaxInFlight", &c.MaxInFlight, wire.MaxInFlight, wire.MaxInFlight},
	} {
		v := int64(*f.field)
		if err := check(f.name, &v, f.fallback, 1, f.top); err != nil {
			return c, err
		}
		*f.field = int(v)
	}
	return c, nil
}

func check(name string, field *int64, fallback, low, top int64) error {
	if *field == 0 {
		*field = fallback
	}
	if *field < low || *field > top {
		return fmt.Errorf("native front: %s is %d, want %d to %d", name, *field, low, top)
	}
	return nil
}

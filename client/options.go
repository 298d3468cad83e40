package client

import (
	"context"
	"net"
	"strings"
	"time"
)

// Option configures a [Client].
type Option func(*config)

// Dialer opens a connection to a broker.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Defaults and bounds of a client.
const (
	// DefaultAddr is the address that an empty one stands for.
	DefaultAddr = "127.0.0.1:4600"
	// DefaultDialTimeout bounds one attempt to connect, handshake included.
	DefaultDialTimeout = 5 * time.Second
	// DefaultReconnectTimeout is how long a request waits for a connection.
	DefaultReconnectTimeout = 15 * time.Second
	// MaxAddrs is the most addresses a client takes.
	MaxAddrs = 64
)

// config is what the options set.
type config struct {
	addrs            []string
	dial             Dialer
	name             string
	lazy             bool
	dialTimeout      time.Duration
	reconnectTimeout time.Duration
	produceRetries   int
}

func newConfig(addr string, opts []Option) (*config, error) {
	cfg := &config{
		name:             "quire-go",
		dialTimeout:      DefaultDialTimeout,
		reconnectTimeout: DefaultReconnectTimeout,
		dial:             defaultDialer().DialContext,
	}
	for _, opt := range opts {
		opt(cfg)
	}
	if addr == "" {
		addr = DefaultAddr
	}
	for a := range strings.SplitSeq(addr, ",") {
		if a = strings.TrimSpace(a); a != "" {
			cfg.addrs = append(cfg.addrs, a)
		}
	}
	return cfg, cfg.check(addr)
}

func (cfg *config) check(addr string) error {
	switch {
	case len(cfg.addrs) == 0:
		return invalid("%q has no address in it", addr)
	case len(cfg.addrs) > MaxAddrs:
		return invalid("%d addresses, at most %d", len(cfg.addrs), MaxAddrs)
	case len(cfg.name) > 256:
		return invalid("a client name of %d bytes, at most 256", len(cfg.name))
	case cfg.dialTimeout <= 0:
		return invalid("a dial timeout of %v, which is not above zero", cfg.dialTimeout)
	case cfg.reconnectTimeout < 0:
		return invalid("a reconnect timeout of %v", cfg.reconnectTimeout)
	case cfg.produceRetries < 0:
		return invalid("%d produce retries", cfg.produceRetries)
	}
	return nil
}

// defaultDialer notices a peer that has vanished within half a minute.
func defaultDialer() *net.Dialer {
	return &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4,
	}}
}

// WithDialer opens connections by dial, which is given "tcp" and an address of
// the list. The default is a net.Dialer with keep-alives.
func WithDialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(cfg *config) { cfg.dial = dial }
}

// WithName sets the name under which the broker's log knows this client; at
// most 256 bytes, default "quire-go".
func WithName(name string) Option {
	return func(cfg *config) { cfg.name = name }
}

// WithLazyDial makes [Dial] return at once; the first request connects.
func WithLazyDial() Option {
	return func(cfg *config) { cfg.lazy = true }
}

// WithDialTimeout bounds one attempt to connect to one address, handshake
// included; default 5 s.
func WithDialTimeout(d time.Duration) Option {
	return func(cfg *config) { cfg.dialTimeout = d }
}

// WithReconnectTimeout is how long a request or subscription waits for a
// connection before it ends with [status.Unavailable]; default 15 s, 0 is as
// long as its context lets it.
func WithReconnectTimeout(d time.Duration) Option {
	return func(cfg *config) { cfg.reconnectTimeout = d }
}

// WithProduceRetries is how often [Client.Produce] sends a batch again whose
// outcome is unknown; default 0. With retries the batch may be there more than
// once, each time whole.
func WithProduceRetries(n int) Option {
	return func(cfg *config) { cfg.produceRetries = n }
}

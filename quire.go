// Package quire embeds a Quire broker in a program: the same broker that
// `quire serve` runs, without a socket.
//
//	broker, err := quire.Open("data")
//	…
//	defer broker.Close()
//	c, err := broker.Client(ctx)
//
// The client is that of package client, over connections in memory.
package quire

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/internal/front/native"
	"github.com/quirelog/quire/internal/node"
)

// Broker is an embedded broker. It is safe for concurrent use.
type Broker struct {
	node   *node.Broker
	server *native.Server
	ln     *pipeListener
}

type config struct {
	log *slog.Logger
}

// Option changes how a broker is opened.
type Option func(*config)

// WithLogger gives the broker's log a home. Default: it is dropped.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// Open opens the data directory dir, making it if it is not there, recovers
// what a crash left, and starts a broker on it. One process may have a
// directory open. Errors are [github.com/quirelog/quire/status.Error] with the
// codes data_locked, data_corrupt, data_newer, data_read_only or disk_full.
func Open(dir string, opts ...Option) (*Broker, error) {
	var cfg config
	for _, o := range opts {
		o(&cfg)
	}
	n, err := node.Open(node.Config{Dir: dir, Log: cfg.log})
	if err != nil {
		return nil, err
	}
	server, err := native.New(native.Node(n), native.Config{Log: cfg.log})
	if err != nil {
		_ = n.Close()
		return nil, err
	}
	b := &Broker{node: n, server: server, ln: newPipeListener()}
	go func() { _ = server.Serve(b.ln) }() // ends with Shutdown
	return b, nil
}

// Client connects a client to the broker, through memory. Close it when it is
// not needed any more; closing the broker ends it too.
func (b *Broker) Client(ctx context.Context, opts ...client.Option) (*client.Client, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return b.ln.dial(ctx) }
	return client.Dial(ctx, "embedded:0", append([]client.Option{client.WithDialer(dial)}, opts...)...)
}

// Done is closed when the broker has stopped for ever because its disk failed;
// Err says why. Close it then, and open it again: it recovers what was
// acknowledged.
func (b *Broker) Done() <-chan struct{} { return b.node.Done() }

// Err is why the broker stopped; nil while it works.
func (b *Broker) Err() error { return b.node.Err() }

// drainTime is how long Close waits for requests in flight.
const drainTime = 10 * time.Second

// Close answers what is in flight, for at most 10 s, and releases the data
// directory. It is idempotent.
func (b *Broker) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	_ = b.server.Shutdown(ctx) // what did not drain in time was cut
	return b.node.Close()
}

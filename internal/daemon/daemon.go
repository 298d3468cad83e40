// Package daemon is a broker with its doors open: it opens a node, listens,
// serves the fronts, and stops everything in order. The command line and the
// program that injects faults both run it, so that what is tested under faults
// is what is shipped.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	httpfront "github.com/quirelog/quire/internal/front/http"
	"github.com/quirelog/quire/internal/front/native"
	"github.com/quirelog/quire/internal/node"
)

// DrainLimit is how long a stopping daemon waits for requests under way.
const DrainLimit = 10 * time.Second

// Config is what a daemon is told. Node.Dir and Listen must be set.
type Config struct {
	// Node configures the broker itself. Its Log and Registry are used by the
	// fronts too; their defaults are a log that is dropped and a registry of
	// its own.
	Node node.Config
	// Name is what clients are told of the broker: program and version.
	Name string
	// Listen is the address of the native front.
	Listen string
	// HTTP is the address of the HTTP front; empty for none.
	HTTP string
	// Insecure allows addresses that are not loopback.
	Insecure bool
	// Ready, if not nil, is called once when the daemon serves. http is nil
	// without an HTTP front.
	Ready func(native, http net.Addr)
}

// Run opens the broker and serves it until ctx ends, the store fails or a
// listener does. It returns nil only after a clean stop: nothing that was
// acknowledged needs recovery then.
func Run(ctx context.Context, cfg Config) error {
	if err := checkAddresses(cfg); err != nil {
		return err
	}
	if cfg.Node.Log == nil {
		cfg.Node.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Node.Registry == nil {
		cfg.Node.Registry = prometheus.NewRegistry()
	}
	broker, err := node.Open(cfg.Node)
	if err != nil {
		return err
	}
	d := &daemon{cfg: cfg, broker: broker, failed: make(chan error, 2)}
	if err := d.listen(); err != nil {
		return errors.Join(err, broker.Close())
	}
	if err := d.serve(); err != nil {
		return errors.Join(err, broker.Close())
	}
	if cfg.Ready != nil {
		cfg.Ready(addrOf(d.nativeListener), addrOf(d.httpListener))
	}
	err = d.wait(ctx)
	d.stop()
	if e := broker.Close(); err == nil {
		err = e
	}
	return err
}

// daemon is one run.
type daemon struct {
	cfg    Config
	broker *node.Broker

	nativeListener, httpListener net.Listener

	native *native.Server
	http   *httpfront.Server
	fronts sync.WaitGroup
	// failed has the errors of fronts; it has room for both.
	failed chan error
}

func (d *daemon) listen() (err error) {
	if d.nativeListener, err = listen(d.cfg.Listen); err != nil {
		return err
	}
	if d.cfg.HTTP == "" {
		return nil
	}
	if d.httpListener, err = listen(d.cfg.HTTP); err != nil {
		return errors.Join(err, d.closeListeners())
	}
	return nil
}

func (d *daemon) closeListeners() error {
	err := d.nativeListener.Close()
	if d.httpListener != nil {
		err = errors.Join(err, d.httpListener.Close())
	}
	return err
}

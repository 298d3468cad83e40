package daemon

import (
	"context"
	"errors"
	"fmt"

	httpfront "github.com/quirelog/quire/internal/front/http"
	"github.com/quirelog/quire/internal/front/native"
	"github.com/quirelog/quire/status"
)

// serve starts the fronts.
func (d *daemon) serve() (err error) {
	d.native, err = native.New(native.Node(d.broker), native.Config{
		Name: d.cfg.Name, Log: d.cfg.Node.Log, Registerer: d.cfg.Node.Registry,
	})
	if err != nil {
		return errors.Join(err, d.closeListeners())
	}
	d.run("native", func() error { return d.native.Serve(d.nativeListener) })
	if d.httpListener != nil {
		d.http = httpfront.New(d.broker, d.cfg.Node.Registry, d.cfg.Node.Log)
		d.run("http", func() error { return d.http.Serve(d.httpListener) })
	}
	return nil
}

// run runs one front until it is stopped.
func (d *daemon) run(name string, serve func() error) {
	d.fronts.Go(func() {
		if err := serve(); err != nil {
			d.failed <- fmt.Errorf("serve %s: %w", name, err)
		}
	})
}

// wait returns when the daemon is to stop: nil if it was asked to.
func (d *daemon) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		d.cfg.Node.Log.Info("stopping", "drain_limit", DrainLimit)
		return nil
	case <-d.broker.Done():
		return status.New(status.StoreFailed, "the broker stopped: %w", d.broker.Err())
	case err := <-d.failed:
		return err
	}
}

// stop takes no new work and lets what is under way end, for a while. Nobody
// is sent here any more from the first moment, but health and metrics answer
// until the last.
func (d *daemon) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), DrainLimit)
	defer cancel()
	if d.http != nil {
		d.http.Drain()
	}
	if err := d.native.Shutdown(ctx); err != nil {
		d.cfg.Node.Log.Warn("requests were cut off", "err", err)
	}
	if d.http != nil {
		if err := d.http.Shutdown(ctx); err != nil {
			d.cfg.Node.Log.Warn("http requests were cut off", "err", err)
		}
	}
	d.fronts.Wait()
}

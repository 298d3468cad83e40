package client

import "context"

// Client is a connection to a broker, or to a cluster. Make one with [Dial],
// share it, and close it.
type Client struct {
	cfg  *config
	link *link

	// ctx ends when the client is closed, and all tasks end with it.
	ctx    context.Context
	cancel context.CancelFunc
	tasks  *tasks
}

// Dial connects to a broker at addr, which is host:port or a list of them
// separated by commas: the client talks to one at a time and moves on to the
// next when it loses it. Empty is [DefaultAddr].
//
// Dial fails when no address answers, so that a wrong address is noticed at
// once; ctx bounds only this first attempt. Later the client connects again
// by itself when a request needs it, waiting a little longer after each
// failure. [WithLazyDial] leaves the first connection to the first request.
func Dial(ctx context.Context, addr string, opts ...Option) (*Client, error) {
	cfg, err := newConfig(addr, opts)
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, tasks: new(tasks)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.link = newLink(c.ctx, cfg, c.tasks)
	if cfg.lazy {
		return c, nil
	}
	if err := c.link.once(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection and everything that uses it: requests that were
// sent end with an unknown outcome, producers are given up, subscriptions
// stop. It returns when all goroutines of the client have ended, so it must
// not be called from a producer's callback. Close the producers first to have
// their records written. Closing again does nothing.
func (c *Client) Close() error {
	c.cancel()
	c.tasks.stop()
	return nil
}

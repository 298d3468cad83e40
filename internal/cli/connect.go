package cli

import (
	"context"
	"strings"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/status"
)

// getenv reads a variable of the environment that Main was given.
func (a *app) getenv(name, fallback string) string {
	for _, pair := range a.environ {
		if k, v, ok := strings.Cut(pair, "="); ok && k == name && v != "" {
			return v
		}
	}
	return fallback
}

// dial connects to the broker.
func (a *app) dial(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	c, err := client.Dial(ctx, a.addr,
		client.WithName("quire/"+buildVersion().Version),
		client.WithDialTimeout(a.timeout), client.WithReconnectTimeout(a.timeout))
	if status.CodeOf(err) == status.Unavailable {
		err = withHint(err, "start one with `quire serve`, or name another address with --addr or QUIRE_ADDR")
	}
	return c, err
}

// ask runs one request and its connection under the time limit.
func (a *app) ask(ctx context.Context, request func(context.Context, *client.Client) error) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	return request(limited, c)
}

package native

import (
	"context"

	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
)

// subscribe begins a subscription.
func (c *conn) subscribe(f wire.Frame) error {
	var m quirev1.SubscribeRequest
	if err := f.Unmarshal(&m); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(c.stopping)
	w := &window{}
	if ok, err := c.enter(f, &request{cancel: cancel, window: w}); !ok {
		cancel(nil)
		return err
	}
	w.grant(m.GetCredit().GetRecords(), m.GetCredit().GetBytes())
	id := f.ID
	c.tasks.Go(func() {
		defer cancel(nil)
		c.fail(wire.TypeSubscribeRequest, id, told(ctx, c.push(ctx, id, w, &m)))
	})
	return nil
}

// push sends what the subscription gives until that ends, and says why.
func (c *conn) push(ctx context.Context, id uint64, w *window, m *quirev1.SubscribeRequest) error {
	req, err := subscribeRequest(m)
	if err != nil {
		return err
	}
	sub, err := c.srv.broker.Subscribe(ctx, req)
	if err != nil {
		return err
	}
	defer sub.Close()
	w.attach(sub)
	for {
		// While the client does not read, nothing more is read for it.
		some, err := c.room(ctx, 1)
		if err != nil {
			return err
		}
		c.answers.release(some)
		d, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		if err := c.pushOne(ctx, id, &d); err != nil {
			return err
		}
	}
}

func (c *conn) pushOne(ctx context.Context, id uint64, d *node.Delivery) error {
	held, err := c.room(ctx, deliverySize(d))
	if err != nil {
		return err
	}
	message, payload := delivery(d)
	return c.out.add(wire.TypeDelivery, id, message, payload, held, d.Release)
}

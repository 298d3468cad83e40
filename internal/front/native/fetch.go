package native

import (
	"context"
	"time"

	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
)

const (
	// maxFetch is the most that a fetch reads at once, which is also the
	// default.
	maxFetch = 8 << 20
	// maxPoll is the most that a long poll has read when it gets its first
	// record, if that is not larger itself.
	maxPoll = 64 << 10
)

// fetch begins a fetch.
func (c *conn) fetch(f wire.Frame) error {
	var m quirev1.FetchRequest
	if err := f.Unmarshal(&m); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(c.cut)
	if ok, err := c.enter(f, &request{cancel: cancel}); !ok {
		cancel(nil)
		return err
	}
	id := f.ID
	c.tasks.Go(func() {
		defer cancel(nil)
		d, held, err := c.read(ctx, cancel, fetchRequest(&m))
		if err != nil {
			c.fail(wire.TypeFetchRequest, id, err)
			return
		}
		message, payload := delivery(&d)
		c.answer(wire.TypeFetchRequest, id, wire.TypeDelivery, message, payload, held, d.Release)
	})
	return nil
}

// read reads for a fetch, with held bytes borrowed for its answer.
//
// Room for the answer comes before the answer: a client that asks for a lot
// and reads nothing makes fetches wait, not memory fill. A long poll cannot
// hold room while it waits. It waits without, for little; if what comes is
// more than that, it is thrown away and read again once there is room.
func (c *conn) read(
	ctx context.Context, cancel context.CancelCauseFunc, req node.FetchRequest,
) (node.Delivery, int64, error) {
	end := time.Now().Add(req.Wait)
	for {
		d, held, err := c.readNow(ctx, req)
		left := time.Until(end)
		if err != nil || !empty(&d) || left <= 0 {
			return d, held, err
		}
		c.answers.release(held)
		if d.Cursor != "" {
			req.Start = node.Start{Kind: node.StartCursor, Cursor: d.Cursor}
		}
		first, err := c.poll(ctx, cancel, req, left)
		if err != nil {
			return first, 0, err
		}
		if size := deliverySize(&first); size <= maxPoll {
			held, err := c.room(ctx, size)
			return first, held, err
		}
	}
}

// readNow borrows room and reads what is there.
func (c *conn) readNow(ctx context.Context, req node.FetchRequest) (node.Delivery, int64, error) {
	room := int64(maxFetch)
	if req.MaxBytes > 0 {
		room = min(room, int64(req.MaxBytes))
	}
	held, err := c.room(ctx, room)
	if err != nil {
		return node.Delivery{}, 0, err
	}
	req.Wait = 0
	d, err := c.srv.broker.Fetch(ctx, req)
	if err != nil {
		c.answers.release(held)
		return d, 0, told(ctx, err)
	}
	if size := deliverySize(&d); size < held {
		c.answers.release(held - size)
		held = size
	}
	return d, held, nil
}

func empty(d *node.Delivery) bool { return len(d.Slices) == 0 && d.Gap == nil }

// poll waits for a first record, as long as the connection takes requests.
func (c *conn) poll(
	ctx context.Context, cancel context.CancelCauseFunc, req node.FetchRequest, wait time.Duration,
) (node.Delivery, error) {
	stop := context.AfterFunc(c.stopping, func() { cancel(context.Cause(c.stopping)) })
	defer stop()
	req.Wait = wait
	if req.MaxBytes == 0 || req.MaxBytes > maxPoll {
		req.MaxBytes = maxPoll
	}
	d, err := c.srv.broker.Fetch(ctx, req)
	return d, told(ctx, err)
}

// room waits until n more bytes of answers may wait to be written.
func (c *conn) room(ctx context.Context, n int64) (int64, error) {
	if c.answers.short(n) {
		c.srv.metrics.limit(limitQueuedBytes)
	}
	n, err := c.answers.acquire(ctx, n)
	if err == nil && c.cut.Err() != nil {
		// What became free is what a cut connection gave back. ctx, which
		// derives from its end, may hear of that a moment later.
		c.answers.release(n)
		return 0, context.Cause(c.cut)
	}
	return n, err
}

// told is err, or if ctx has ended the reason for that.
func told(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

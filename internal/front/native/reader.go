package native

import (
	"context"
	"errors"
	"os"

	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// maxMessage bounds the message of a request. Names, cursors, keys and
// settings are all that is in one.
const maxMessage = 64 << 10

// requestTypes are what a client may send after the handshake, and whether
// it gets an answer.
var requestTypes = map[wire.Type]bool{
	wire.TypeCreateTopicRequest:   true,
	wire.TypeListTopicsRequest:    true,
	wire.TypeDescribeTopicRequest: true,
	wire.TypeAlterTopicRequest:    true,
	wire.TypeDeleteTopicRequest:   true,
	wire.TypeProduceRequest:       true,
	wire.TypeFetchRequest:         true,
	wire.TypeSubscribeRequest:     true,
	wire.TypeCredit:               false,
	wire.TypeCancel:               false,
	wire.TypeSplitTopicRequest:    true,
	wire.TypeMergeTopicRequest:    true,
	wire.TypeCloseProducerRequest: true,
	wire.TypeOpenProducerRequest:  true,
	wire.TypeRestripeTopicRequest: true,
}

// readRequests reads frames and begins what they ask for, until the connection
// ends. It never waits for a request that it began.
func (c *conn) readRequests() error {
	for {
		// A client that does not read its answers is not read from either.
		if !c.out.wait(c.srv.cfg.MaxInFlight) {
			return context.Cause(c.cut)
		}
		f, held, err := c.readFrame()
		if err != nil {
			return err
		}
		if err := c.begin(f, held); err != nil {
			return &violation{f.ID, err}
		}
	}
}

// readFrame reads a frame. For the payload of a produce it borrows held bytes
// first.
func (c *conn) readFrame() (f wire.Frame, held int64, err error) {
	if err := c.reader.Wait(); err != nil {
		return f, 0, err
	}
	timed := false
	whole := func(n int) {
		// Frames that are here already, which most small ones are, need no
		// clock.
		if c.reader.Buffered() < n {
			timed = true
			c.expect(c.srv.cfg.FrameTimeout)
		}
	}
	whole(wire.HeaderSize)
	h, err := c.reader.Header()
	if err == nil {
		err = checkHeader(h)
	}
	if err != nil {
		return f, 0, c.slowFrame(c.readError(h.ID, err))
	}
	if held, err = c.borrow(h.Payload); err != nil {
		return f, 0, err
	}
	whole(h.Message + h.Payload)
	if f, err = c.reader.Body(); err != nil {
		c.produces.release(held)
		return f, 0, c.slowFrame(c.readError(h.ID, err))
	}
	if timed {
		c.expect(0)
	}
	c.srv.metrics.bytesIn.Add(float64(wire.HeaderSize + h.Message + h.Payload))
	return f, held, nil
}

// checkHeader refuses, before it is read, what no client may send.
func checkHeader(h wire.Header) error {
	_, known := requestTypes[h.Type]
	switch {
	case !known:
		return status.New(status.ProtocolViolation, "%v is not a request", h.Type)
	case h.ID == 0:
		return status.New(status.ProtocolViolation, "%v has the id 0, which is not one for requests", h.Type)
	case h.Message > maxMessage:
		return status.New(status.FrameTooLarge,
			"%v of %d bytes is over the limit of %d", h.Type, h.Message, maxMessage)
	case h.Payload > 0 && !h.Type.HasPayload():
		return status.New(status.ProtocolViolation, "%v has a payload and may have none", h.Type)
	}
	return nil
}

// borrow waits for room for a payload of n bytes.
func (c *conn) borrow(n int) (int64, error) {
	if n == 0 {
		return 0, nil
	}
	if c.produces.short(int64(n)) {
		c.srv.metrics.limit(limitProduceBytes)
	}
	return c.produces.acquire(c.stopping, int64(n))
}

func (c *conn) slowFrame(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && c.stopping.Err() == nil {
		c.srv.metrics.limit(limitFrameTime)
	}
	return err
}

// begin begins what f asks for. An error is the client's violation of the
// protocol; held is with the request or given back.
func (c *conn) begin(f wire.Frame, held int64) error {
	switch f.Type {
	case wire.TypeProduceRequest:
		return c.produce(f, held)
	case wire.TypeFetchRequest:
		return c.fetch(f)
	case wire.TypeSubscribeRequest:
		return c.subscribe(f)
	case wire.TypeCredit:
		return c.credit(f)
	case wire.TypeCancel:
		return c.cancelRequest(f)
	}
	return c.topic(f)
}

// enter takes the request f in. It is false when there are too many; the
// client has been told then. An error is a violation.
func (c *conn) enter(f wire.Frame, r *request) (bool, error) {
	err := c.requests.begin(f.ID, r)
	if status.CodeOf(err) != status.LimitReached {
		return err == nil, err
	}
	c.srv.metrics.limit(limitInFlight)
	c.srv.metrics.ended(f.Type, err)
	c.tell(f.ID, err)
	return false, nil
}

// produce hands a batch to the broker. It is called for one produce after the
// other, so that their order stays.
func (c *conn) produce(f wire.Frame, held int64) error {
	var m quirev1.ProduceRequest
	err := f.Unmarshal(&m)
	ok := false
	if err == nil {
		ok, err = c.enter(f, uncancelable)
	}
	if !ok {
		c.produces.release(held)
		return err
	}
	id := f.ID
	req := node.ProduceRequest{Topic: m.Topic, Batch: f.Payload, Bands: int(m.Bands)}
	c.srv.producing.Add(1)
	c.srv.broker.Produce(req, func(res node.ProduceResult, err error) {
		alone := c.srv.producing.Add(-1) == 0
		c.produces.release(held)
		if err != nil {
			c.fail(wire.TypeProduceRequest, id, err)
			return
		}
		m := &quirev1.ProduceResponse{
			AppendTimeUs: int64(res.AppendTime), Cuts: positions(res.Cuts), Repeated: res.Repeated,
		}
		c.acknowledge(id, m, alone)
	})
	return nil
}

// credit passes credit on. A subscription that has ended meanwhile needs none.
func (c *conn) credit(f wire.Frame) error {
	var m quirev1.Credit
	if err := f.Unmarshal(&m); err != nil {
		return err
	}
	r := c.requests.get(f.ID)
	switch {
	case r == nil:
	case r.window == nil:
		return status.New(status.ProtocolViolation, "request %d is no subscription and takes no credit", f.ID)
	default:
		r.window.grant(m.Records, m.Bytes)
	}
	return nil
}

// cancelRequest ends a request early. One that cannot be, or has ended
// meanwhile, takes its course.
func (c *conn) cancelRequest(f wire.Frame) error {
	var m quirev1.Cancel
	if err := f.Unmarshal(&m); err != nil {
		return err
	}
	if r := c.requests.get(f.ID); r != nil && r.cancel != nil {
		r.cancel(errCanceled)
	}
	return nil
}

var errCanceled = status.New(status.Canceled, "the client canceled the request")

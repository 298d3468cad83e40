package client

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/quirelog/quire/internal/wire"
)

// call is a request with one answer.
type call struct {
	typ     wire.Type
	req     wire.Message
	payload []byte
	// What the answer must be, and where it goes.
	want wire.Type
	resp wire.Message
	// again is how often the request may be sent again when its outcome is
	// unknown; always is without limit.
	again int
	// cancel says that the broker is told when the caller gives up.
	cancel bool
	// doing says what the call is, after "while".
	doing string

	// unknown says that it was sent before, had no answer, and is not one that
	// changes nothing.
	unknown bool
}

const always = -1

// do makes the call, again where that is safe, and gives the payload of its
// answer.
func (c *Client) do(ctx context.Context, call call) ([]byte, error) {
	payload, err := c.tryAll(ctx, &call)
	if call.unknown {
		err = afterUnknown(err)
	}
	return payload, err
}

func (c *Client) tryAll(ctx context.Context, call *call) ([]byte, error) {
	p := patience{tries: refusedTries}
	for {
		cn, err := c.link.get(ctx, &p)
		if err != nil {
			return nil, err
		}
		payload, err := call.on(ctx, cn)
		if err == nil {
			return payload, nil
		}
		_, broken := asBroken(err)
		switch {
		case broken && call.mayRepeat(err):
		case !broken && p.bear(ctx, err, c.cfg.reconnectTimeout):
		default:
			return nil, outcome(err, call.again != always)
		}
	}
}

// on makes the call once.
func (call *call) on(ctx context.Context, cn *conn) ([]byte, error) {
	proto.Reset(call.resp)
	r := &reply{want: call.want, resp: call.resp, done: make(chan struct{})}
	id, err := cn.start(ctx, call.typ, call.req, call.payload, r)
	if err != nil {
		return nil, err
	}
	select {
	case <-r.done:
		return r.payload, r.err
	case <-ctx.Done():
	}
	if call.cancel {
		cn.cancel(id)
	}
	return nil, contextError(ctx, call.doing)
}

// mayRepeat says whether the call may be made again after a connection broke.
func (call *call) mayRepeat(err error) bool {
	broken, _ := asBroken(err)
	switch {
	case final(broken.cause):
		return false
	case !broken.sent || call.again == always:
		return true
	case call.again > 0:
		call.again--
		call.unknown = true
		return true
	}
	return false
}

// reply is the handler of a call. It is read after done is closed.
type reply struct {
	want    wire.Type
	resp    wire.Message
	payload []byte
	err     error
	done    chan struct{}
}

func (r *reply) answer(f wire.Frame) (bool, error) {
	if err := expect(f, r.want, r.resp); err != nil {
		return false, err
	}
	r.payload = f.Payload
	close(r.done)
	return true, nil
}

func (r *reply) fail(err error) {
	r.err = err
	close(r.done)
}

package native

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// conn is one connection. Its run is the reader; the writer is another
// goroutine, and so is each request that may wait.
type conn struct {
	srv    *Server
	nc     net.Conn
	reader *wire.Reader
	out    *outbox
	// produces and answers bound the bytes on their way in and out.
	produces allowance
	answers  allowance
	requests requests
	topics   chan struct{}  // a token for each request about topics that runs
	tasks    sync.WaitGroup // requests that have a goroutine

	// cut ends when the connection is cut: everything stops. stopping ends
	// before that, when no more requests are read; what waits for something to
	// happen stops, and the rest finishes. Its cause says why.
	cut      context.Context
	kill     context.CancelCauseFunc
	stopping context.Context
	cancel   context.CancelCauseFunc

	deadline sync.Mutex // held while the read deadline is set
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		srv:      s,
		nc:       nc,
		reader:   wire.NewReader(nc, wire.MaxHandshakeFrame),
		produces: allowance{newBudget(s.cfg.ProduceBytes), s.produces},
		answers:  allowance{newBudget(s.cfg.QueuedBytes), s.answers},
		requests: requests{limit: s.cfg.MaxInFlight},
		topics:   make(chan struct{}, topicRequests),
	}
	c.out = newOutbox(c.answers.release, wire.NewAtOnce(nc))
	c.cut, c.kill = context.WithCancelCause(s.over)
	c.stopping, c.cancel = context.WithCancelCause(c.cut)
	return c
}

// run serves the connection to its end. All that it started has ended then,
// except for produces that the broker has not answered on a connection that
// was cut.
func (c *conn) run() {
	stop := context.AfterFunc(c.cut, c.abandon)
	var writer sync.WaitGroup
	writer.Go(c.write)

	err := c.handshake()
	if err == nil {
		err = c.readRequests()
	}
	polite := c.leave(err)
	c.stop(reason(err))
	answered := false
	select {
	case <-c.requests.last():
		answered = true
	case <-c.cut.Done():
	}
	c.tasks.Wait()
	// The goodbye says that what has no answer had no effect.
	if polite && answered && errors.Is(context.Cause(c.stopping), errShutdown) {
		c.tell(0, errShutdown)
	}
	c.out.close()
	writer.Wait()
	if polite && c.cut.Err() == nil {
		linger(c.nc)
	}
	stop()
	c.abandon()
	c.kill(err)
}

// abandon drops what is not written and closes the connection.
func (c *conn) abandon() {
	c.out.kill()
	_ = c.nc.Close()
}

// stop makes the reader stop, and all that waits for something to happen.
func (c *conn) stop(cause error) {
	c.cancel(cause)
	c.deadline.Lock()
	defer c.deadline.Unlock()
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // a connection that is gone needs none
}

// expect gives the client until d from now for what it has begun; 0 is for
// ever. A stopped connection stays stopped.
func (c *conn) expect(d time.Duration) {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	if c.stopping.Err() != nil {
		return
	}
	var t time.Time
	if d > 0 {
		t = time.Now().Add(d)
	}
	_ = c.nc.SetReadDeadline(t) // a connection that is gone says so when it is read
}

// reason is what the requests are told that wait when the reader ends with err.
func reason(err error) error {
	if status.CodeOf(err) == status.Internal {
		return status.New(status.Canceled, "the connection ended: %w", err)
	}
	return err
}

// violation is an error that ends the connection. id is the request that it
// speaks of, 0 for none.
type violation struct {
	id  uint64
	err error
}

func (v *violation) Error() string { return v.err.Error() }
func (v *violation) Unwrap() error { return v.err }

// leave tells the client why the reader ended with err, if there is something
// to tell. It says whether the client may still be there to read.
func (c *conn) leave(err error) bool {
	log := c.srv.cfg.Log.With("client", c.nc.RemoteAddr().String())
	var v *violation
	switch {
	case c.stopping.Err() != nil, errors.Is(err, errAnswered):
		return c.cut.Err() == nil
	case errors.Is(err, io.EOF):
		// The client is gone, or has asked all that it wanted to.
		return true
	case errors.As(err, &v):
		log.Debug("connection refused", "error", v.err)
		if status.CodeOf(v.err) == status.FrameTooLarge {
			c.srv.metrics.limit(limitFrame)
		}
		c.tell(v.id, v.err)
		return true
	case errors.Is(err, os.ErrDeadlineExceeded):
		log.Debug("connection too slow", "error", err)
		c.tell(0, status.New(status.Timeout, "what was begun did not arrive in time"))
		return true
	}
	log.Debug("connection lost", "error", err)
	c.kill(err)
	return false
}

// answer ends the request id of type t with message m of type as, and batches
// behind it for which held bytes were borrowed. done, if not nil, is called
// when they are written.
func (c *conn) answer(t wire.Type, id uint64, as wire.Type, m wire.Message, payload [][]byte, held int64, done func()) {
	c.requests.end(id)
	c.answered(t, id, c.out.add(as, id, m, payload, held, done))
}

// answered settles the request id of type t, whose answer is queued unless there
// is an err.
func (c *conn) answered(t wire.Type, id uint64, err error) {
	if err != nil {
		c.tell(id, err)
	}
	c.requests.settle()
	c.srv.metrics.ended(t, err)
}

// acknowledge ends the produce id. When it was the only one under way at the
// server, its answer is written by the caller: there is nothing to gather it
// with, and handing it over to the writer would cost more than writing it.
func (c *conn) acknowledge(id uint64, m *quirev1.ProduceResponse, alone bool) {
	if !alone {
		c.answer(wire.TypeProduceRequest, id, wire.TypeProduceResponse, m, nil, 0, nil)
		return
	}
	c.requests.end(id)
	n, err := c.out.addAlone(wire.TypeProduceResponse, id, m)
	c.srv.metrics.bytesOut.Add(float64(n))
	c.answered(wire.TypeProduceRequest, id, err)
}

// fail ends the request id of type t with err.
func (c *conn) fail(t wire.Type, id uint64, err error) {
	c.requests.end(id)
	c.answered(t, id, err)
}

// tell sends an Error. That one always fits into a frame.
func (c *conn) tell(id uint64, err error) {
	m := wire.ErrorMessage(err)
	var refusal *node.Refusal
	if errors.As(err, &refusal) {
		m.Cuts, m.Appended = positions(refusal.Cuts), refusal.Appended
	}
	_ = c.out.add(wire.TypeError, id, m, nil, 0, nil)
}

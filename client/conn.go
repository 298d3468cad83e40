package client

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// maxMessage bounds the message of a request. A broker ends the connection of
// a client that sends more.
const maxMessage = 64 << 10

// conn is one connection to a broker, from its handshake until it breaks. It
// has two goroutines: the reader hands each frame to the request that it
// answers, and the writer sends whatever is waiting in one write. When either
// fails, the reader tells every request that is left.
type conn struct {
	nc     net.Conn
	reader *wire.Reader
	out    outbox
	// slots has one token for each request in flight, at most as many as the
	// broker allows.
	slots chan struct{}
	// ended is closed when no more requests are taken.
	ended chan struct{}

	mu      sync.Mutex
	waiting map[uint64]*request
	lastID  uint64
	cause   error // why the connection ended, the first reason
}

// request is one that waits for an answer.
type request struct {
	handler
	// sent says that the broker may have the whole frame. The outbox sets it.
	sent bool
}

// handler gets what comes back for a request. The methods are called by the
// connection's reader, one after the other, and must not block.
type handler interface {
	// answer takes a frame and says whether it was the last one. The frame's
	// message is valid during the call, its payload for ever. An error says
	// that the frame makes no sense; it ends the connection.
	answer(f wire.Frame) (last bool, err error)
	// fail says that no more frames come: err is the broker's refusal or a
	// *brokenError.
	fail(err error)
}

// newConn runs a connection that has shaken hands, until it breaks or ctx ends.
func newConn(ctx context.Context, nc net.Conn, r *wire.Reader, inFlight int, tasks *tasks) (*conn, error) {
	cn := &conn{
		nc:      nc,
		reader:  r,
		slots:   make(chan struct{}, inFlight),
		ended:   make(chan struct{}),
		waiting: make(map[uint64]*request),
		lastID:  helloID,
	}
	cn.out.init(nc)
	written := make(chan struct{})
	run := func() {
		stop := context.AfterFunc(ctx, func() { cn.end(closedError("client")) })
		defer stop()
		go cn.write(written)
		cn.read(written)
	}
	if !tasks.run(run) {
		return nil, closedError("client")
	}
	return cn, nil
}

// broken says whether the connection takes no more requests.
func (cn *conn) broken() bool {
	select {
	case <-cn.ended:
		return true
	default:
		return false
	}
}

// end stops the connection for the given cause. Both goroutines notice.
func (cn *conn) end(cause error) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.cause != nil {
		return
	}
	cn.cause = cause
	close(cn.ended)
	_ = cn.nc.Close()
}

// start sends a request whose answers go to h. It waits while too many
// requests are in flight or too much waits to be sent. After an error nothing
// was sent and h hears nothing; a *brokenError says that another connection
// may do. The payload must not change until h has heard the end.
func (cn *conn) start(
	ctx context.Context, typ wire.Type, msg wire.Message, payload []byte, h handler,
) (id uint64, err error) {
	if ctx.Err() != nil {
		return 0, contextError(ctx, "sending a request")
	}
	if n := msg.SizeVT(); n > maxMessage {
		return 0, status.New(status.FrameTooLarge,
			"the names and cursors of a request have %d bytes, at most %d", n, maxMessage)
	}
	select {
	case cn.slots <- struct{}{}:
	case <-cn.ended:
		return 0, cn.brokenBy(false)
	case <-ctx.Done():
		return 0, contextError(ctx, "waiting for one of the requests in flight to end")
	}
	if err := cn.out.hold(ctx, cn.ended, len(payload)); err != nil {
		<-cn.slots
		if ctx.Err() != nil {
			return 0, err
		}
		return 0, cn.brokenBy(false)
	}
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.cause != nil {
		<-cn.slots
		return 0, &brokenError{cause: cn.cause}
	}
	id = cn.lastID + 1
	r := &request{handler: h}
	// Within the lock, so that frames are sent in the order of their ids.
	if err := cn.out.put(typ, id, msg, payload, r, len(payload), len(cn.waiting) == 0); err != nil {
		<-cn.slots
		return 0, err
	}
	cn.lastID, cn.waiting[id] = id, r
	return id, nil
}

// tell sends a small frame that concerns the request id and has no answer of
// its own. On a broken connection it does nothing.
func (cn *conn) tell(typ wire.Type, id uint64, msg wire.Message) {
	if !cn.broken() {
		_ = cn.out.put(typ, id, msg, nil, nil, 0, false) // it fails for large messages only
	}
}

// cancel asks the broker to end the request id early. Its handler still hears
// the end.
func (cn *conn) cancel(id uint64) { cn.tell(wire.TypeCancel, id, &quirev1.Cancel{}) }

func (cn *conn) brokenBy(sent bool) *brokenError {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return &brokenError{cause: cn.cause, sent: sent}
}

// write sends what the outbox has until the connection ends.
func (cn *conn) write(written chan<- struct{}) {
	defer close(written)
	for {
		select {
		case <-cn.out.wake:
			if err := cn.out.flush(cn.nc); err != nil {
				cn.end(err)
				return
			}
		case <-cn.ended:
			return
		}
	}
}

// read hands out answers until the connection ends, then waits for the writer,
// so that it is settled what was sent, and fails what is left.
func (cn *conn) read(written <-chan struct{}) {
	var err error
	for err == nil {
		var f wire.Frame
		if f, err = cn.reader.Next(); err == nil {
			err = cn.dispatch(f)
		}
	}
	cn.end(err)
	<-written
	cn.mu.Lock()
	left := cn.waiting
	cn.waiting = nil
	cn.mu.Unlock()
	var bye *goodbyeError
	answered := errors.As(err, &bye)
	for _, r := range left {
		r.fail(&brokenError{cause: cn.cause, sent: r.sent && !answered})
	}
}

// goodbyeError is how a broker ends a connection in order: it has answered all
// requests that it began, and those without an answer had no effect.
type goodbyeError struct{ error }

func (e *goodbyeError) Unwrap() error { return e.error }

func (cn *conn) dispatch(f wire.Frame) error {
	cn.mu.Lock()
	r, known := cn.waiting[f.ID], f.ID <= cn.lastID
	cn.mu.Unlock()
	switch {
	case f.Type == wire.TypeError:
		err := refused(f)
		if f.ID == 0 && status.CodeOf(err) == status.Unavailable {
			return &goodbyeError{err}
		}
		if f.ID == 0 {
			return err
		}
		if r != nil {
			cn.forget(f.ID)
			r.fail(err)
		}
		return nil
	case r != nil:
		last, err := r.answer(f)
		if last && err == nil {
			cn.forget(f.ID)
		}
		return err
	case !known || f.ID == 0:
		return status.New(status.ProtocolViolation, "the broker answered request %d, which was not made", f.ID)
	}
	// The answer of a request crossed its end on the way.
	return nil
}

// forget frees the place of a request that has ended.
func (cn *conn) forget(id uint64) {
	cn.mu.Lock()
	delete(cn.waiting, id)
	cn.mu.Unlock()
	<-cn.slots
}

// refused is the error that an Error frame carries.
func refused(f wire.Frame) error {
	var e quirev1.Error
	if err := f.Unmarshal(&e); err != nil {
		return err
	}
	if len(e.Cuts) > 0 {
		return &movedError{wire.StatusError(&e), e.Cuts}
	}
	return wire.StatusError(&e)
}

// expect checks the type of an answer and decodes its message.
func expect(f wire.Frame, typ wire.Type, into wire.Message) error {
	if f.Type != typ {
		return status.New(status.ProtocolViolation, "the broker answered with %v instead of %v", f.Type, typ)
	}
	return f.Unmarshal(into)
}

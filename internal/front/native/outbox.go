package native

import (
	"sync"

	"github.com/quirelog/quire/internal/wire"
)

// The sizes of an outbox.
const (
	// copyBelow: a smaller payload is copied behind its message, because that
	// costs less than one more buffer in the write.
	copyBelow = 1 << 10
	// keptBuffer is the largest buffer that is kept for the next load, so that
	// an idle connection stays small.
	keptBuffer = 16 << 10
)

// outbox gathers answers for a connection's writer. Heads, and payloads that
// are small, lie one behind the other in one buffer; large payloads are only
// referred to. There are two loads: one fills while the other is written.
type outbox struct {
	mu      sync.Mutex
	more    sync.Cond // something was added, or no more will be
	room    sync.Cond // something was written, or nothing more will be
	filling load
	spare   load
	frames  int  // added and not yet written
	closed  bool // no more is taken; what there is will be written
	dead    bool // nothing more will be written
	release func(int64)
	atOnce  *wire.AtOnce
}

// load is a run of frames.
type load struct {
	buf    []byte
	pieces []piece
	frames int
}

// piece is a payload that goes behind buf[:at], and what was borrowed for it.
type piece struct {
	at      int
	payload [][]byte
	held    int64
	done    func() // called when the payload is written; may be nil
}

func newOutbox(release func(int64), atOnce *wire.AtOnce) *outbox {
	o := &outbox{release: release, atOnce: atOnce}
	o.more.L, o.room.L = &o.mu, &o.mu
	return o
}

// add queues a frame. held is what was borrowed for it; the outbox gives that
// back when the frame was written or cannot be, and calls done, if not nil,
// when it was written or copied. It fails only for a frame
// over the limit; on a closed connection the frame is dropped.
func (o *outbox) add(t wire.Type, id uint64, m wire.Message, payload [][]byte, held int64, done func()) error {
	size := 0
	for _, p := range payload {
		size += len(p)
	}
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		o.release(held)
		return nil
	}
	l := &o.filling
	buf, err := wire.AppendFrame(l.buf, t, id, m, size)
	if err != nil {
		o.mu.Unlock()
		o.release(held)
		return err
	}
	l.buf = buf
	if size > 0 && size < copyBelow {
		for _, p := range payload {
			l.buf = append(l.buf, p...)
		}
		if done != nil {
			done()
		}
		payload, done = nil, nil
	}
	if len(payload) > 0 || held > 0 {
		l.pieces = append(l.pieces, piece{at: len(l.buf), payload: payload, held: held, done: done})
	}
	l.frames++
	o.frames++
	o.mu.Unlock()
	o.more.Signal()
	return nil
}

// addAlone is add for a small frame without a payload that no other will follow
// soon. If the outbox is empty it is written by the caller, unless that would
// have to wait. It gives how many bytes that were.
func (o *outbox) addAlone(t wire.Type, id uint64, m wire.Message) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, nil
	}
	l := &o.filling
	buf, err := wire.AppendFrame(l.buf, t, id, m, 0)
	if err != nil {
		return 0, err
	}
	if o.frames == 0 {
		n = o.atOnce.Write(buf)
		if n == len(buf) {
			l.buf = buf[:0]
			return n, nil
		}
		buf = append(buf[:0], buf[n:]...)
	}
	l.buf = buf
	l.frames++
	o.frames++
	o.more.Signal()
	return n, nil
}

// wait returns when fewer than n frames wait to be written. It is false when
// nothing more will be written.
func (o *outbox) wait(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.frames >= n && !o.dead {
		o.room.Wait()
	}
	return !o.dead
}

// take waits for something to write. It is false when no more will come.
func (o *outbox) take() (load, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.filling.frames == 0 && !o.closed {
		o.more.Wait()
	}
	l := o.filling
	o.filling, o.spare = o.spare, load{}
	return l, l.frames > 0
}

// written says that l was written, all of it.
func (o *outbox) written(l load) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frames -= l.frames
	if cap(l.buf) <= keptBuffer {
		clear(l.pieces)
		o.spare = load{buf: l.buf[:0], pieces: l.pieces[:0]}
	}
	o.room.Signal()
}

// close lets take return what there is and then end.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.more.Signal()
}

// kill drops what there is.
func (o *outbox) kill() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.dead = true, true
	for _, p := range o.filling.pieces {
		o.release(p.held)
	}
	o.filling = load{}
	o.more.Signal()
	o.room.Signal()
}

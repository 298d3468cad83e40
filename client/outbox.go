package client

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quirelog/quire/internal/wire"
)

const (
	// maxWaiting bounds the bytes of requests that wait to be sent; a request
	// that finds less may go over it.
	maxWaiting = 16 << 20
	// copyBelow: a smaller payload is copied behind its message, because that
	// costs less than one more buffer in the write.
	copyBelow = 4 << 10
	// maxWrite is how much is given to one write, which must be through within
	// writeStall: a broker that takes nothing for so long is gone.
	maxWrite   = 1 << 20
	writeStall = 30 * time.Second
	// keepBelow is the largest buffer that is kept for the next write.
	keepBelow = 256 << 10
)

// outbox gathers frames for a connection's writer. Heads, and payloads that
// are small, lie one behind the other in one buffer; large payloads are only
// referred to.
type outbox struct {
	wake   chan struct{} // has a token when there is something to send
	atOnce *wire.AtOnce

	mu      sync.Mutex
	waiting parcel
	writing bool          // the writer has a parcel
	spare   parcel        // memory for the next parcel
	held    int           // bytes that have room here
	freed   chan struct{} // closed when there is room again; nil if nobody waits
}

// parcel is a run of frames.
type parcel struct {
	buf    []byte
	frames []frame
	size   int // in all
	held   int // what was held for it
}

// frame is one frame of a parcel: buf up to end, then payload.
type frame struct {
	end     int
	payload []byte
	request *request // nil for a frame without an answer
}

func (o *outbox) init(nc net.Conn) {
	o.wake = make(chan struct{}, 1)
	o.atOnce = wire.NewAtOnce(nc)
}

// hold waits until less than maxWaiting is to be sent, and then makes room for
// n bytes.
func (o *outbox) hold(ctx context.Context, ended <-chan struct{}, n int) error {
	for {
		o.mu.Lock()
		if o.held < maxWaiting {
			o.held += n
			o.mu.Unlock()
			return nil
		}
		if o.freed == nil {
			o.freed = make(chan struct{})
		}
		freed := o.freed
		o.mu.Unlock()
		select {
		case <-freed:
		case <-ended:
			return ErrClosed
		case <-ctx.Done():
			return contextError(ctx, "waiting for earlier requests to be sent")
		}
	}
}

// put adds a frame for which held bytes have room. One that no other will
// follow soon is written by the caller if nothing else waits and it need not
// wait itself. It fails only if the frame is over the limit of one.
func (o *outbox) put(
	typ wire.Type, id uint64, msg wire.Message, payload []byte, r *request, held int, alone bool,
) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := &o.waiting
	p.held += held
	before := len(p.buf)
	var err error
	if p.buf, err = wire.AppendFrame(p.buf, typ, id, msg, len(payload)); err != nil {
		return err
	}
	if len(payload) < copyBelow {
		p.buf = append(p.buf, payload...)
		payload = nil
	}
	p.frames = append(p.frames, frame{end: len(p.buf), payload: payload, request: r})
	p.size += len(p.buf) - before + len(payload)
	if alone && !o.writing && len(p.frames) == 1 && payload == nil && o.writeAtOnce() {
		return nil
	}
	signal(o.wake)
	return nil
}

// writeAtOnce writes what it can of the one frame that waits, and says whether
// that was all. The rest is left for the writer.
func (o *outbox) writeAtOnce() bool {
	p := &o.waiting
	n := o.atOnce.Write(p.buf)
	if n < len(p.buf) {
		p.buf = append(p.buf[:0], p.buf[n:]...)
		p.frames[0].end, p.size = len(p.buf), len(p.buf)
		return false
	}
	p.mark(n)
	o.free(p.held)
	clear(p.frames)
	*p = parcel{buf: p.buf[:0], frames: p.frames[:0]}
	return true
}

// take gives all that waits.
func (o *outbox) take() parcel {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.waiting
	o.waiting, o.spare = o.spare, parcel{}
	o.writing = true
	o.free(p.held)
	return p
}

// free gives back room. The caller has the lock.
func (o *outbox) free(held int) {
	o.held -= held
	if o.freed != nil {
		close(o.freed)
		o.freed = nil
	}
}

// flush writes all that waits to w. If it fails, the requests whose frame is
// not on its way whole are left marked as not sent.
func (o *outbox) flush(w net.Conn) error {
	p := o.take()
	var sent int
	var err error
	for piece := range p.pieces() {
		var n int64
		if err = w.SetWriteDeadline(time.Now().Add(writeStall)); err == nil {
			n, err = piece.WriteTo(w)
		}
		sent += int(n)
		if err != nil {
			break
		}
	}
	if err == nil && sent < p.size {
		err = io.ErrShortWrite
	}
	p.mark(sent)
	o.recycle(p)
	return err
}

// recycle keeps the memory of a parcel that is written.
func (o *outbox) recycle(p parcel) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = false
	if cap(p.buf) > keepBelow {
		return
	}
	clear(p.frames)
	o.spare = parcel{buf: p.buf[:0], frames: p.frames[:0]}
}

// pieces cuts the parcel into writes of about maxWrite.
func (p *parcel) pieces() func(yield func(net.Buffers) bool) {
	return func(yield func(net.Buffers) bool) {
		var piece net.Buffers
		size, from := 0, 0
		// add takes b into the piece, and gives the piece away when it is full.
		add := func(b []byte) bool {
			for len(b) > 0 {
				n := min(len(b), maxWrite-size)
				piece = append(piece, b[:n])
				size += n
				if b = b[n:]; size == maxWrite {
					full := piece
					piece, size = nil, 0
					if !yield(full) {
						return false
					}
				}
			}
			return true
		}
		for _, f := range p.frames {
			if f.payload == nil {
				continue // its bytes go with the next that has one, or at the end
			}
			if !add(p.buf[from:f.end]) || !add(f.payload) {
				return
			}
			from = f.end
		}
		if add(p.buf[from:]) && size > 0 {
			yield(piece)
		}
	}
}

// mark notes which requests are on their way whole in the first sent bytes.
func (p *parcel) mark(sent int) {
	payloads := 0
	for _, f := range p.frames {
		payloads += len(f.payload)
		if f.end+payloads > sent {
			return
		}
		if f.request != nil {
			f.request.sent = true
		}
	}
}

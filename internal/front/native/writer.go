package native

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/quirelog/quire/status"
)

const (
	// maxWrite is about how much is given to one write: what was borrowed for
	// it comes back when it is done.
	maxWrite = 1 << 20
	// keptList is the longest list of buffers that is kept for the next write.
	keptList = 64
	// writeTick is how often a write that makes no progress is looked at.
	writeTick = 2 * time.Second
	// pressedStall stands in for Config.WriteStall while other connections
	// wait for what this one holds.
	pressedStall = 2 * writeTick
)

// write sends what the outbox gathers until that is closed. When the client
// takes no more the connection is cut.
func (c *conn) write() {
	var list net.Buffers
	for {
		l, ok := c.out.take()
		if !ok {
			return
		}
		w := loadWriter{conn: c, load: l, list: list}
		if w.write() != nil {
			return
		}
		c.out.written(l)
		if list = w.list[:0]; cap(list) > keptList {
			list = nil
		}
	}
}

// loadWriter writes one load in pieces of about maxWrite.
type loadWriter struct {
	conn *conn
	load load
	at   int         // how much of load.buf is written or in list
	list net.Buffers // what is written next
	size int         // bytes in list
	held int64       // what was borrowed for it
	done []func()    // to be called when it is written
}

// write writes the load. Whether it can or not, it gives back what was
// borrowed.
func (w *loadWriter) write() error {
	var err error
	for _, p := range w.load.pieces {
		w.held += p.held
		if p.done != nil {
			w.done = append(w.done, p.done)
		}
		if len(p.payload) > 0 {
			w.heads(p.at)
		}
		for _, b := range p.payload {
			w.list = append(w.list, b)
			w.size += len(b)
		}
		if w.size >= maxWrite && err == nil {
			err = w.flush()
		}
	}
	w.heads(len(w.load.buf))
	if err == nil {
		err = w.flush()
	}
	w.conn.answers.release(w.held)
	return err
}

// heads adds the heads up to load.buf[:end].
func (w *loadWriter) heads(end int) {
	if end > w.at {
		w.list = append(w.list, w.load.buf[w.at:end])
		w.size += end - w.at
		w.at = end
	}
}

func (w *loadWriter) flush() error {
	work := w.list // writing consumes the slice, and leaves the array to use again
	err := w.conn.writeAll(&work)
	if err != nil {
		// Before anything is given back, so that nobody borrows it for an
		// answer that cannot be written either.
		w.conn.kill(err)
	}
	clear(w.list)
	for _, done := range w.done {
		done()
	}
	w.done = w.done[:0]
	w.conn.answers.release(w.held)
	w.list, w.size, w.held = w.list[:0], 0, 0
	return err
}

// writeAll writes bufs in one call if the client takes them. A client that
// takes them slowly may take its time; one that takes nothing is cut.
func (c *conn) writeAll(bufs *net.Buffers) error {
	tick := min(writeTick, c.srv.cfg.WriteStall)
	var stalled time.Duration
	for len(*bufs) > 0 {
		if err := c.nc.SetWriteDeadline(time.Now().Add(tick)); err != nil {
			return err
		}
		n, err := bufs.WriteTo(c.nc)
		c.srv.metrics.bytesOut.Add(float64(n))
		if err == nil {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if stalled += tick; n > 0 {
			stalled = 0
		}
		limit := c.srv.cfg.WriteStall
		if c.answers.shared.starved() {
			limit = min(limit, pressedStall)
		}
		if stalled >= limit {
			c.srv.metrics.limit(limitWriteStall)
			return status.New(status.SlowConsumer, "the client took nothing for %v", stalled)
		}
	}
	return nil
}

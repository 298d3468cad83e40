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
	// writeTick is how often a write that makes no progress is looked at.
	writeTick = 2 * time.Second
	// pressedStall stands in for Config.WriteStall while other connections
	// wait for what this one holds.
	pressedStall = 2 * writeTick
)

// write sends what the outbox gathers until that is closed. When the client
// takes no more the connection is over.
func (c *conn) write() {
	var bufs net.Buffers
	for {
		l, ok := c.out.take()
		if !ok {
			return
		}
		if err := c.writeLoad(l, &bufs); err != nil {
			c.kill(err)
			return
		}
		c.out.written(l)
	}
}

// writeLoad sends a load, and gives back what its pieces had borrowed. bufs
// is memory to work in.
func (c *conn) writeLoad(l load, bufs *net.Buffers) error {
	at, size := 0, 0   // how far of l.buf is in bufs; bytes in bufs
	var borrowed int64 // for what is in bufs
	list := (*bufs)[:0]
	send := func() error {
		work := list // WriteTo consumes the slice, not the array
		err := c.writeAll(&work)
		clear(list)
		c.answers.release(borrowed)
		list, size, borrowed = list[:0], 0, 0
		return err
	}
	var err error
	for _, p := range l.pieces {
		borrowed += p.held
		if err != nil {
			continue
		}
		if len(p.payload) > 0 {
			list = append(list, l.buf[at:p.at])
			size += p.at - at
			at = p.at
			for _, b := range p.payload {
				list = append(list, b)
				size += len(b)
			}
		}
		if size >= maxWrite {
			err = send()
		}
	}
	if at < len(l.buf) {
		list = append(list, l.buf[at:])
	}
	if err == nil {
		err = send()
	}
	c.answers.release(borrowed)
	*bufs = list
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

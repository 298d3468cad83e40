package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
)

// Producer writes many records to one topic, gathered into batches. It keeps
// the order of Send: records of one batch are written together, and batches
// one after the other. Make one with [Client.NewProducer]; it may be used by
// many goroutines.
//
// Without a [Linger] it waits for nothing but the requests that are under way:
// what is sent meanwhile gathers and goes with the next, so that a lone record
// is fast and many fill large batches.
//
// When a batch fails, its records are not written, their callbacks are told,
// and later batches go on. With [status.Unknown] they may have been written, or
// may be written a moment later, after records that were sent after them: the
// broker may still find them in a connection that broke on this side.
type Producer struct {
	c     *Client
	topic *quirev1.ProduceRequest
	cfg   producerConfig
	err   error // an option that is out of bounds

	// ctx ends when the client is closed or Close gives up.
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the producer's tasks have ended

	// wake tells the sender, settledAny the completer, that there may be
	// something to do.
	wake       chan struct{}
	settledAny chan struct{}

	mu sync.Mutex
	// cur gathers; ready is full and waits to be sent; flight was sent at least
	// once and is not completed. All are in the order of Send. flying counts
	// those of flight that the connection has.
	cur    *pack
	ready  []*pack
	flight []*pack
	flying int
	// returned says that batches of flight came back and are to be sent again.
	returned bool
	// builders is how many there are, spares are those that no pack has.
	builders int
	spares   []*batch.Builder

	// accepted and completed count records; flushTo is up to which one nobody
	// wants to wait for more.
	accepted, completed, flushTo uint64
	buffered                     int
	patience                     patience
	closing                      bool
	ended                        bool // the sender has given up everything
	// moved is closed when completed grows or the producer closes; nil if
	// nobody waits.
	moved chan struct{}
	// failed and first are what went wrong since the last Flush.
	failed uint64
	first  error
}

// NewProducer makes a producer for topic. Close it to write what it holds and
// to free it; closing the client gives it up. An option that is out of bounds
// is reported by Send.
func (c *Client) NewProducer(topic string, opts ...ProducerOption) *Producer {
	p := &Producer{
		c:          c,
		topic:      &quirev1.ProduceRequest{Topic: topic},
		done:       make(chan struct{}),
		wake:       make(chan struct{}, 1),
		settledAny: make(chan struct{}, 1),
	}
	p.cfg, p.err = newProducerConfig(opts)
	p.ctx, p.cancel = context.WithCancel(c.ctx)
	p.cur = p.newPack()
	if p.err != nil || !c.tasks.run(p.run) {
		p.cancel()
		p.ended = true
		close(p.done)
	}
	return p
}

// Send takes a record to be written. It returns as soon as the producer has
// it, and has then copied its bytes; it waits, as long as ctx lets it, only
// while [MaxBuffered] is reached. An error means that the record was not taken
// and done is not called: the record is over its limits, or there was no room
// in time, or the producer is closed.
//
// done, which may be nil, is called once when it is known what became of the
// record; with nil when it is stored. The calls are made one after the other
// in the order of Send, by a goroutine of the producer, which they must not
// hold up: done must not call Send, Flush or Close of the same producer, and
// not Close of its client.
//
// A record without a Time gets the time of the call.
func (p *Producer) Send(ctx context.Context, rec record.Record, done func(error)) error {
	if rec.Time.IsZero() {
		rec.Time = time.Now()
	}
	size := sizeOf(&rec)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || p.ended || p.buffered+size > p.cfg.maxBuffered {
		if err := p.waitForRoom(ctx, size); err != nil {
			return err
		}
	}
	if !p.cur.fits(size, &p.cfg) {
		p.turn()
	}
	return p.add(&rec, done)
}

// add adds a record to the pack that gathers, or to the next one.
func (p *Producer) add(rec *record.Record, done func(error)) error {
	k := p.cur
	before := k.builder.Size()
	err := k.builder.AddRecord(rec)
	if errors.Is(err, batch.ErrFull) {
		p.turn()
		k, before = p.cur, p.cur.builder.Size()
		err = k.builder.AddRecord(rec)
	}
	if err != nil {
		return refusedRecord(0, 1, err)
	}
	k.records++
	p.accepted++
	k.last = p.accepted
	taken := k.builder.Size() - before
	if done != nil {
		k.dones = append(k.dones, done)
		taken += doneSize
	}
	k.bytes += taken
	p.buffered += taken
	if k.records == 1 {
		if p.cfg.linger > 0 {
			k.since = time.Now()
		}
		signal(p.wake)
	}
	if !k.fits(1, &p.cfg) {
		p.turn()
	}
	return nil
}

// doneSize is what a callback takes of the buffer.
const doneSize = 16

// sizeOf is about what rec takes in a batch.
func sizeOf(rec *record.Record) int {
	n := 16 + len(rec.Key) + len(rec.Value) + doneSize
	for i := range rec.Headers {
		n += 4 + len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	return n
}

// turn puts the pack that gathers behind those that are ready, and begins
// another. If the sender is behind with sealing, the pack is sealed here, so
// that there are never more than maxBuilders: their memory stays warm, and
// what is buffered has its exact size. The caller holds the lock.
func (p *Producer) turn() {
	k := p.cur
	if len(p.spares) == 0 && p.builders == maxBuilders {
		k.payload = k.builder.Finish()
		p.spare(k)
	}
	p.ready = append(p.ready, k)
	p.cur = p.newPack()
	signal(p.wake)
}

// maxBuilders is how many builders a producer has at most: one that is filled,
// one that is sealed, and two so that neither waits for the other.
const maxBuilders = 4

func (p *Producer) newPack() *pack {
	k := &pack{p: p}
	if n := len(p.spares); n > 0 {
		k.builder, p.spares = p.spares[n-1], p.spares[:n-1]
	} else {
		k.builder = batch.NewBuilder(p.cfg.batchOptions())
		p.builders++
	}
	return k
}

// spare takes the builder of a pack that needs it no more. The caller holds
// the lock.
func (p *Producer) spare(k *pack) {
	p.spares = append(p.spares, k.builder)
	k.builder = nil
}

// waitForRoom returns when there is room for size more bytes. It is called
// with the lock, gives it up while it waits, and returns with it.
func (p *Producer) waitForRoom(ctx context.Context, size int) error {
	for {
		switch {
		case p.err != nil:
			return p.err
		case p.closing || p.ended || p.ctx.Err() != nil:
			return closedError("producer")
		case p.buffered == 0 || p.buffered+size <= p.cfg.maxBuffered:
			return nil
		}
		moved := p.whenMoved()
		p.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() != nil {
			return contextError(ctx, fmt.Sprintf("waiting for room in the producer's buffer of %d bytes; "+
				"the record was not taken", p.cfg.maxBuffered))
		}
	}
}

// whenMoved gives a channel that is closed when something completes. The
// caller holds the lock.
func (p *Producer) whenMoved() <-chan struct{} {
	if p.moved == nil {
		p.moved = make(chan struct{})
	}
	return p.moved
}

// wakeWaiters wakes everyone that waits for whenMoved. The caller holds the
// lock.
func (p *Producer) wakeWaiters() {
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

// signal leaves a token in a channel of capacity one.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

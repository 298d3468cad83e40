package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
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
// Records are numbered, so that the broker recognizes what it has: a batch
// without an answer is sent again as long as the client tries to reach a broker
// (see [WithReconnectTimeout]) and for an hour at most, and is there once,
// through restarts of the broker, splits and merges. The numbers are those of
// this Producer: what another one sends, also of the same program started again,
// is new to the broker.
//
// When a batch fails, its records are not written, their callbacks are told,
// and later batches go on. [status.Unknown] says that they may have been written,
// and is what is left when the time is over or the producer is closed.
type Producer struct {
	c     *Client
	topic *quirev1.ProduceRequest
	cfg   producerConfig
	err   error // an option that is out of bounds

	// id and session are in every batch, so that the broker recognizes one that
	// it has. They are the sender's, and there from the first batch on.
	id      batch.ProducerID
	session uint64

	// ctx ends when the client is closed or Close gives up.
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the producer's tasks have ended

	// wake tells the sender, settledAny the completer, that there may be
	// something to do.
	wake       chan struct{}
	settledAny chan struct{}

	mu sync.Mutex
	// lanes gather, one for each band of keys that the broker keeps together; a
	// lane without records is nil. cuts are where they begin, but for the first.
	// ready is full and waits to be sent; flight was sent at least once and is
	// not completed. Within a lane all are in the order of Send. flying counts
	// those of flight that the connection has.
	lanes []*pack
	cuts  []ident.Position
	era   int // of these cuts, counted
	// batchBytes is the size at which a batch is full: at most half of the buffer
	// gathers, so that full batches are there while others are under way.
	batchBytes int
	ready      []*pack
	flight     []*pack
	flying     int
	// order says, in the order of Send, in which packs the records are that are
	// not completed.
	order []span
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
	p.setLanes(1)
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
	return p.add(&rec, size, done)
}

// span is so many records in a row, in one pack.
type span struct {
	k *pack
	n int
}

// laneOf is where a record with this sequence gathers.
func (p *Producer) laneOf(rec *record.Record, sequence uint64) int {
	if len(p.cuts) == 0 {
		return 0
	}
	return p.laneAt(p.positionOf(rec.Key, sequence))
}

func (p *Producer) laneAt(at ident.Position) int {
	lane, begins := slices.BinarySearch(p.cuts, at)
	if begins {
		lane++
	}
	return lane
}

// learn takes over where the broker keeps keys apart. What has gathered is sent
// before anything that comes now. The caller holds the lock.
func (p *Producer) learn(cuts []uint64) {
	if len(cuts) == 0 {
		return
	}
	if slices.EqualFunc(p.cuts, cuts, func(a ident.Position, b uint64) bool { return uint64(a) == b }) {
		return
	}
	p.turnAll()
	p.cuts = p.cuts[:0]
	for _, c := range cuts {
		if c > 0 { // it says that there is one lane only
			p.cuts = append(p.cuts, ident.Position(c))
		}
	}
	p.setLanes(len(p.cuts) + 1)
	p.era++
}

// setLanes begins with so many empty lanes.
func (p *Producer) setLanes(n int) {
	p.lanes = make([]*pack, n)
	p.batchBytes = min(p.cfg.batchBytes, max(p.cfg.maxBuffered/(2*n), 1))
}

// oldest is the pack that has gathered for longest, or nil.
func (p *Producer) oldest() (lane int, k *pack) {
	for i, other := range p.lanes {
		if other != nil && (k == nil || other.first < k.first) {
			lane, k = i, other
		}
	}
	return lane, k
}

// add adds a record of about size bytes to the pack that gathers in its lane, or
// to the next one.
func (p *Producer) add(rec *record.Record, size int, done func(error)) error {
	sequence := p.accepted + 1
	lane := p.laneOf(rec, sequence)
	k := p.lanes[lane]
	if k != nil && !k.fits(size) {
		p.turn(lane)
		k = nil
	}
	before, err := 0, batch.ErrFull
	if k != nil {
		before = k.builder.Size()
		if err = k.builder.AddNumbered(rec, sequence); errors.Is(err, batch.ErrFull) {
			p.turn(lane)
		}
	}
	if errors.Is(err, batch.ErrFull) {
		k = p.newPack(lane)
		before = k.builder.Size()
		if err = k.builder.AddNumbered(rec, sequence); err != nil {
			p.spare(k)
		} else {
			p.lanes[lane] = k
		}
	}
	if err != nil {
		return refusedRecord(0, 1, err)
	}
	p.took(k, k.builder.Size()-before, done)
	if !k.fits(1) {
		p.turn(lane)
	}
	return nil
}

// took notes a record that a pack has taken.
func (p *Producer) took(k *pack, bytes int, done func(error)) {
	k.records++
	p.accepted++
	if n := len(p.order); n > 0 && p.order[n-1].k == k {
		p.order[n-1].n++
	} else {
		p.order = append(p.order, span{k, 1})
		bytes += spanSize
	}
	if done != nil {
		for len(k.dones) < k.records-1 {
			k.dones = append(k.dones, nil)
		}
		k.dones = append(k.dones, done)
		bytes += doneSize
	}
	k.bytes += bytes
	k.last = p.accepted
	p.buffered += bytes
	if k.records == 1 {
		k.first = p.accepted
		if p.cfg.linger > 0 {
			k.since = time.Now()
		}
		signal(p.wake)
	}
}

// spanSize is what an entry of the order takes of the buffer.
const spanSize = 16

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

// turn puts the pack that gathers in a lane behind those that are ready. If the
// sender is behind with sealing, the pack is sealed here, so that there are
// never more than maxBuilders beside those that gather: their memory stays warm,
// and what is buffered has its exact size. The caller holds the lock.
func (p *Producer) turn(lane int) {
	k := p.lanes[lane]
	p.lanes[lane] = nil
	if len(p.spares) == 0 && p.builders >= maxBuilders+len(p.lanes)-1 {
		k.payload = k.builder.Finish()
		p.spare(k)
	}
	p.ready = append(p.ready, k)
	signal(p.wake)
}

// turnAll makes all that has gathered ready, the oldest first. The caller holds
// the lock.
func (p *Producer) turnAll() {
	for {
		lane, k := p.oldest()
		if k == nil {
			return
		}
		p.turn(lane)
	}
}

// maxBuilders is how many builders a producer with one lane has at most: one that
// is filled, one that is sealed, and two so that neither waits for the other.
const maxBuilders = 4

func (p *Producer) newPack(lane int) *pack {
	k := &pack{p: p, era: p.era, band: p.bandOf(lane)}
	if n := len(p.spares); n > 0 {
		k.builder, p.spares = p.spares[n-1], p.spares[:n-1]
	} else {
		k.builder = new(batch.Builder)
		p.builders++
	}
	k.builder.Reset(p.cfg.batchOptions(&k.fields))
	return k
}

// spare takes the builder of a pack that needs it no more. The caller holds
// the lock.
func (p *Producer) spare(k *pack) {
	k.builder.Reset(batch.Options{}) // it shall not keep the pack
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

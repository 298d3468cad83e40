package client

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/quirelog/quire/record"
)

// GapError is yielded by an iteration in the place of records that the reader
// does not get. The iteration goes on after it.
type GapError struct{ Gap }

func (e *GapError) Error() string { return e.String() }

// Subscription has records pushed to it as they are written. Make one with
// [Client.Subscribe], iterate over [Subscription.All] and close it.
type Subscription struct {
	c     *Client
	topic string
	cfg   subscribeConfig
	ctx   context.Context

	closed  chan struct{}
	close   sync.Once
	unwatch func() bool // ends the watch on ctx

	pos position

	// What follows is the iterator's. busy says that there is one.
	busy     atomic.Bool
	resume   string // the cursor after everything that was taken from a stream
	walker   walker
	cursor   string // the cursor after the delivery in hand; empty if none
	gap      *Gap   // of the delivery in hand, not yielded yet
	owed     credit
	patience patience
	failed   error // why the subscription has ended

	mu     sync.Mutex
	stream *stream // the subscription on the present connection; nil if none
}

// Subscribe begins to push the records of topic to the program, from the given
// place on. ctx is for the whole life of the subscription. The broker sends
// ahead as much as the [Window] allows and more as the program consumes. When
// the connection breaks, the subscription continues on another without loss
// or repetition.
//
// The error says at once if there is no such topic or the cursor is not one of
// its own.
func (c *Client) Subscribe(
	ctx context.Context, topic string, from From, opts ...SubscribeOption,
) (*Subscription, error) {
	cfg := subscribeConfig{records: DefaultWindowRecords, bytes: DefaultWindowBytes}
	for _, opt := range opts {
		opt.setSubscribe(&cfg)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	// Where it begins becomes a cursor before anything else, so that "end" is
	// the end at this moment even if the connection breaks before a record
	// came.
	d, err := c.fetch(ctx, topic, from, fetchConfig{maxRecords: 1, maxBytes: 1})
	if err != nil {
		return nil, err
	}
	s := &Subscription{
		c: c, topic: topic, cfg: cfg, ctx: ctx,
		closed: make(chan struct{}),
		resume: d.begin(),
		walker: walker{topic: topic},
	}
	s.pos.jump(s.resume)
	if s.stream, err = s.open(); err != nil {
		return nil, err
	}
	s.unwatch = context.AfterFunc(ctx, s.shut)
	return s, nil
}

// begin is the cursor before everything that the delivery has.
func (d *delivery) begin() string {
	if d.start != "" {
		return d.start
	}
	return d.cursor
}

// All iterates over the records as they come, until the subscription is
// closed. Where records are missing it yields a [*GapError] and goes on; after
// any other error it ends. An iteration that was left continues with the next
// one where it was. There may be one at a time.
func (s *Subscription) All() iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if !s.busy.CompareAndSwap(false, true) {
			yield(record.Record{}, invalid("the subscription has another iteration running"))
			return
		}
		defer s.busy.Store(false)
		for {
			rec, err := s.next()
			if err == errEnd {
				return
			}
			if !yield(rec, err) || s.failed != nil {
				return
			}
		}
	}
}

// Cursor is where the subscription is: after the last record that the
// iteration yielded. It may be called while the iteration runs.
func (s *Subscription) Cursor() string { return s.pos.cursor() }

// Close ends the subscription and its iteration. Closing again does nothing.
func (s *Subscription) Close() error {
	s.shut()
	s.unwatch()
	return nil
}

func (s *Subscription) shut() {
	s.close.Do(func() {
		close(s.closed)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stream != nil {
			s.stream.cancel()
		}
	})
}

// next gives the next record or gap. When the subscription has ended it gives
// errEnd, or the reason and sets failed.
func (s *Subscription) next() (record.Record, error) {
	for s.failed == nil {
		if s.ended() {
			if s.ctx.Err() == nil {
				return record.Record{}, errEnd
			}
			return record.Record{}, s.fail(contextError(s.ctx, "reading "+s.topic))
		}
		if g := s.gap; g != nil {
			s.gap = nil
			return record.Record{}, &GapError{*g}
		}
		rec, at, ok, err := s.walker.next()
		switch {
		case err != nil:
			return record.Record{}, s.fail(err)
		case ok:
			s.pos.move(at)
			s.consumed(credit{records: 1})
			return rec, nil
		}
		if err := s.advance(); err != nil {
			return record.Record{}, s.fail(err)
		}
	}
	return record.Record{}, s.failed
}

func (s *Subscription) ended() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// fail ends the subscription for a reason.
func (s *Subscription) fail(err error) error {
	s.failed = err
	_ = s.Close()
	return err
}

// advance puts the next delivery in hand, and gives back the credit of the one
// that was.
func (s *Subscription) advance() error {
	if s.cursor != "" {
		s.pos.jump(s.cursor)
		s.cursor = ""
	}
	d, err := s.take()
	if err != nil || d == nil {
		return err
	}
	s.pos.jump(d.begin())
	s.cursor, s.gap, s.resume = d.cursor, d.gap, d.cursor
	s.walker.reset(d)
	return nil
}

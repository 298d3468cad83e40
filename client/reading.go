package client

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/quirelog/quire/internal/lineage"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// readStep is how much a [Reading] fetches at once. Two such deliveries, the one
// in hand and the next, stay in a processor's cache; larger ones do not, and
// are slower by a third.
const readStep = 1 << 20

// Reading reads a topic up to where its end was when the reading was made.
// Make one with [Client.Read] and iterate over [Reading.All].
type Reading struct {
	c     *Client
	ctx   context.Context
	topic string
	cfg   readConfig
	end   lineage.Cursor

	pos position

	busy atomic.Bool
	// What follows is the iterator's.
	walker walker
	d      *delivery // in hand
	gap    *Gap      // of the delivery in hand, not yielded yet
	places []lineage.Entry
	last   bool         // the delivery in hand goes up to the end or over it
	cut    bool         // records over the end were left out
	ahead  chan fetched // the fetch that is under way; nil if none
	failed error
	over   bool
}

// fetched is the outcome of a fetch.
type fetched struct {
	d   delivery
	err error
}

// Read reads the records of topic from the given place up to what is its end
// now; what is written later is not read. The next records are fetched while
// the program consumes. ctx is for the whole reading.
//
// The error says at once if there is no such topic or the cursor is not one of
// its own.
func (c *Client) Read(ctx context.Context, topic string, from From, opts ...ReadOption) (*Reading, error) {
	r := &Reading{c: c, ctx: ctx, topic: topic, walker: walker{topic: topic}}
	for _, opt := range opts {
		opt.setRead(&r.cfg)
	}
	if err := checkFilter(r.cfg.filter); err != nil {
		return nil, err
	}
	end, err := c.fetch(ctx, topic, End(), fetchConfig{maxRecords: 1, maxBytes: 1})
	if err != nil {
		return nil, err
	}
	if r.end, err = lineage.Decode(end.begin()); err != nil {
		return nil, status.New(status.ProtocolViolation, "the broker's cursor cannot be read: %w", err)
	}
	if from.kind == fromEnd {
		r.pos.jump(end.begin())
		r.over = true
		return r, nil
	}
	d, err := c.fetch(ctx, topic, from, fetchConfig{filter: r.cfg.filter, maxBytes: readStep})
	if err != nil {
		return nil, err
	}
	return r, r.open(&d)
}

// All iterates over the records. Where records are missing it yields a
// [*GapError] and goes on; after any other error it ends. An iteration that
// was left continues with the next one where it was. There may be one at a
// time.
func (r *Reading) All() iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if !r.busy.CompareAndSwap(false, true) {
			yield(record.Record{}, invalid("the reading has another iteration running"))
			return
		}
		defer r.busy.Store(false)
		r.fetchAhead()
		for {
			rec, err := r.next()
			if err == errEnd {
				return
			}
			if !yield(rec, err) || r.failed != nil {
				return
			}
		}
	}
}

// Cursor is where the reading is: after the last record that the iteration
// yielded, and at the end when it is over. It may be called while the
// iteration runs.
func (r *Reading) Cursor() string { return r.pos.cursor() }

// open puts a delivery in hand.
func (r *Reading) open(d *delivery) error {
	r.d, r.gap = d, d.gap
	r.walker.reset(d)
	r.jump(d.begin())
	start, err := lineage.Decode(d.begin())
	if err == nil {
		r.places = start.Entries
		var at lineage.Cursor
		at, err = lineage.Decode(d.cursor)
		r.last = d.atEnd || reached(at, r.end)
	}
	if err != nil {
		return status.New(status.ProtocolViolation, "the broker's cursor cannot be read: %w", err)
	}
	return nil
}

// jump moves to a cursor of the broker's. Once records were left out the
// broker's cursors are over the end, and only single steps count.
func (r *Reading) jump(cursor string) {
	if !r.cut {
		r.pos.jump(cursor)
	}
}

// next gives the next record or gap, errEnd at the end, or the reason why
// there are no more and sets failed.
func (r *Reading) next() (record.Record, error) {
	for r.failed == nil {
		if r.over {
			return record.Record{}, errEnd
		}
		if r.ctx.Err() != nil {
			r.failed = contextError(r.ctx, "reading "+r.topic)
			break
		}
		if g := r.gap; g != nil {
			r.gap = nil
			return record.Record{}, &GapError{*g}
		}
		rec, at, ok, err := r.walker.next()
		switch {
		case err != nil:
			r.failed = err
		case ok && r.beyond(at):
			r.cut = true // the rest of the delivery may have other ranges
		case ok:
			r.pos.move(at)
			return rec, nil
		default:
			r.failed = r.advance()
		}
	}
	return record.Record{}, r.failed
}

// beyond says whether the record before the place was written after the
// reading began.
func (r *Reading) beyond(at place) bool {
	if at.entry >= len(r.places) {
		return false
	}
	id := r.places[at.entry].Place.Range
	for i := range r.end.Entries {
		if e := &r.end.Entries[i]; e.Place.Range == id {
			return at.step.Next > e.Place.Offset
		}
	}
	return false
}

// advance puts the next delivery in hand, or ends the reading.
func (r *Reading) advance() error {
	r.jump(r.d.cursor)
	if r.last {
		r.over = true
		return nil
	}
	r.fetchAhead()
	f := <-r.ahead
	r.ahead = nil
	if f.err != nil {
		return f.err
	}
	if f.d.cursor == r.d.cursor && !f.d.atEnd && f.d.gap == nil {
		// Asking again would get the same answer, for ever.
		return status.New(status.ProtocolViolation, "the broker gives no more of topic %s and does not say why", r.topic)
	}
	if err := r.open(&f.d); err != nil {
		return err
	}
	r.fetchAhead()
	return nil
}

// fetchAhead begins to fetch the delivery after the one in hand, if there is
// one and nobody does. It needs nobody to wait for it: it ends with the
// reading's context or the client.
func (r *Reading) fetchAhead() {
	if r.over || r.last || r.ahead != nil {
		return
	}
	ahead, from := make(chan fetched, 1), Cursor(r.d.cursor)
	fetch := func() {
		d, err := r.c.fetch(r.ctx, r.topic, from, fetchConfig{filter: r.cfg.filter, maxBytes: readStep})
		ahead <- fetched{d, err}
	}
	if !r.c.tasks.run(fetch) {
		ahead <- fetched{err: closedError("client")}
	}
	r.ahead = ahead
}

// reached says whether a reader at the cursor at has read everything before
// end.
func reached(at, end lineage.Cursor) bool {
	if at.Topic != end.Topic {
		return false
	}
	for i, j := 0, 0; i < len(at.Entries) && j < len(end.Entries); {
		a, e := &at.Entries[i], &end.Entries[j]
		switch {
		case a.Place.Range == e.Place.Range && a.Place.Offset < e.Place.Offset:
			return false
		case a.Place.Range != e.Place.Range && a.Place.Epoch <= e.Place.Epoch:
			// Descendants have higher epochs, so this is an ancestor.
			return false
		}
		if a.Band.Last <= e.Band.Last {
			i++
		}
		if e.Band.Last <= a.Band.Last {
			j++
		}
	}
	return true
}

package producers

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// client is a producer that keeps to the rules.
type client struct {
	id      batch.ProducerID
	session uint64
	next    uint64 // the last sequence given
	sent    []*sent
	// view is which bands the client believes in. They tile the keyspace.
	view []keyspace.Band
}

// sent is a record of the running session.
type sent struct {
	Record
	key              []byte
	acked, abandoned bool
}

func (s *sent) settled() bool { return s.acked || s.abandoned }

// produce makes a record: of one of a few keys, or without one.
func (c *client) produce(t *rapid.T) {
	c.next += rapid.SampledFrom([]uint64{1, 1, 1, 2, 700}).Draw(t, "step")
	r := &sent{Record: Record{Sequence: c.next}}
	if k := rapid.IntRange(-2, 7).Draw(t, "key"); k >= 0 {
		r.key = fmt.Appendf(nil, "key %d", k)
		r.Position = keyspace.PositionOf(r.key)
	} else {
		r.Position = KeylessPosition(c.id, c.session, c.next)
	}
	c.sent = append(c.sent, r)
}

// acked takes an answer.
func (c *client) acked(session uint64, records []Record) {
	for _, r := range records {
		for _, s := range c.sent {
			if session == c.session && s.Sequence == r.Sequence {
				s.acked = true
			}
		}
	}
}

func (c *client) hasSettled(session, sequence uint64) bool {
	if session != c.session {
		return session < c.session
	}
	for _, s := range c.sent {
		if s.Sequence == sequence {
			return s.settled()
		}
	}
	return false
}

// open are the records of a band that are not settled.
func (c *client) open(band keyspace.Band) (open []*sent) {
	for _, s := range c.sent {
		if band.Contains(s.Position) && !s.settled() {
			open = append(open, s)
		}
	}
	return open
}

// floor is the highest sequence at or below which all of the band is settled.
func (c *client) floor(band keyspace.Band) uint64 {
	if open := c.open(band); len(open) > 0 {
		return open[0].Sequence - 1
	}
	return c.next
}

// prev counts what was abandoned above the floor as unsettled.
func (c *client) prev(band keyspace.Band, first uint64) uint64 {
	prev := c.floor(band)
	for _, s := range c.sent {
		if band.Contains(s.Position) && !s.acked && s.Sequence < first {
			prev = max(prev, s.Sequence)
		}
	}
	return prev
}

// refresh learns the ranges there are. Where ranges were merged the client
// keeps to the former bands until what is outstanding there is settled.
func (c *client) refresh(w *world) {
	var view []keyspace.Band
	for _, l := range w.leaves {
		if len(c.open(l.band)) == 0 {
			view = append(view, l.band)
			continue
		}
		for _, b := range c.view {
			if both, some := b.Intersect(l.band); some {
				view = append(view, both)
			}
		}
	}
	c.view = view
}

// send encodes at most n open records of a band, from the i-th on. A batch does
// not reach across a sequence that was abandoned above the floor.
func (c *client) send(t *rapid.T, band keyspace.Band, i, n int) packet {
	open := c.open(band)
	open = open[i:min(i+n, len(open))]
	for k := 1; k < len(open); k++ {
		if c.prev(band, open[k].Sequence) > open[k-1].Sequence {
			open = open[:k]
		}
	}
	p := packet{h: batch.Producer{
		ID: c.id, Session: c.session, First: open[0].Sequence, Band: band,
		Floor: c.floor(band), Prev: c.prev(band, open[0].Sequence),
	}}
	b := batch.NewBuilder(batch.Options{Producer: &p.h})
	for _, s := range open {
		p.records = append(p.records, s.Record)
		if err := b.Add(&batch.Record{Key: s.key, Sequence: s.Sequence}); err != nil {
			t.Fatal(err)
		}
	}
	p.bytes = b.Finish()
	return p
}

// renew begins a new session, whose sequences may continue or begin anew.
func (c *client) renew(continued bool) {
	c.session++
	c.sent = nil
	if !continued {
		c.next = 0
	}
}

// giveUp abandons what is open.
func (c *client) giveUp() {
	for _, s := range c.sent {
		s.abandoned = s.abandoned || !s.acked
	}
}

// cuts are where ranges are split: between the positions of the keys.
func cuts() (cuts []ident.Position) {
	for k := range 8 {
		cuts = append(cuts, keyspace.PositionOf(fmt.Appendf(nil, "key %d", k)))
	}
	return cuts
}

package node

import (
	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// ready brings the state of producers and the segment together, at log time at:
// what a full disk moved out of the log is forgotten, and the state is written
// into the log, at the head of a segment and again now and then. The caller has the
// lock.
func (r *rng) ready(tail segment.Tail, at ident.Timestamp) error {
	if tail.Base < r.handed {
		r.forgetFrom(tail.Base)
		r.carried = r.carried && tail.Base >= r.carryEnd
		r.handed = tail.Base
	}
	if r.carried && r.bytes < r.carryNext {
		return nil
	}
	r.carried = false
	before := r.bytes
	if r.producers.Len() > 0 {
		for rec := range r.producers.Carry(at) {
			if err := r.control(&rec, at); err != nil {
				return err
			}
		}
	}
	// What is known may be large: it takes a sixteenth of the log at most.
	r.carried, r.carryEnd = true, r.handed
	r.carryNext = r.bytes + max(r.b.cfg.CarryBytes, 16*(r.bytes-before))
	return nil
}

// forgetFrom forgets what left the log again. The caller has the lock.
func (r *rng) forgetFrom(at ident.Offset) {
	if r.producers != nil && at < r.handed {
		r.producers.Discard(at)
	}
}

// control appends a record of the broker's own. Nobody waits for it: what rests
// on it comes behind it in the log.
func (r *rng) control(rec *batch.Record, at ident.Timestamp) error {
	b := batch.NewBuilder(batch.Options{Kind: batch.Control})
	rec.Time = at
	if err := b.Add(rec); err != nil {
		return err
	}
	return r.put(b.Finish(), 1, r.seg.Tail(), at, func(error) {})
}

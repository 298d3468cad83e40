package node

import (
	"errors"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/producers"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// numbered is what a range has to know of a batch with a producer's sequences.
type numbered struct {
	fields  batch.Producer
	records []producers.Record
}

// numberedMemory keeps the memory of batches that have been judged.
var numberedMemory = sync.Pool{New: func() any { return new(numbered) }}

// number has the checks of a batch, which go over its records, note their
// sequences and positions. The batch is not checked yet. Every record has a
// position, so the span is that of all of them.
func number(b []byte, limits *batch.Limits, span *keyspace.Band) (*numbered, error) {
	fields, err := batch.ProducerOf(b)
	if err != nil {
		return nil, err
	}
	n := numberedMemory.Get().(*numbered)
	n.fields, n.records = fields, n.records[:0]
	limits.Span = nil
	limits.Each = func(v *batch.View) {
		r := producers.RecordOf(&n.fields, v)
		n.records = append(n.records, r)
		*span = span.With(r.Position)
	}
	return n, nil
}

// release gives back the memory of a batch that has been judged.
func (n *numbered) release() {
	if n != nil {
		numberedMemory.Put(n)
	}
}

// numberedBytes is what a record of a numbered batch takes while it waits.
const numberedBytes = 16

// Refusal is an error of Produce that tells the producer more than its code.
type Refusal struct {
	// Err has code and message.
	Err *status.Error
	// Cuts, with range_moved, are where to cut as in ProduceResult.
	Cuts []ident.Position
	// Appended, with partial_duplicate, are the sequences of the batch that are
	// in the log or settled.
	Appended []uint64
}

func (r *Refusal) Error() string { return r.Err.Error() }

func (r *Refusal) Unwrap() error { return r.Err }

// moved refuses a batch whose producer has to encode it again.
func (s *topicState) moved() *Refusal {
	return &Refusal{
		Err:  status.New(status.RangeMoved, "the records of the batch belong to several ranges; its producer has to cut it"),
		Cuts: s.cuts,
	}
}

// judge answers a batch with a producer's sequences, unless it is to be appended
// at log time at. An answer rests on what is in the log so far, so it is given
// when that is committed (I13). The caller has the lock.
func (r *rng) judge(p *pending, at ident.Timestamp) (answered bool, err error) {
	v := r.producers.Judge(&p.numbered.fields, p.numbered.records, at)
	var res ProduceResult
	var refusal error
	switch v.Decision {
	case producers.Append:
		return false, nil
	case producers.Duplicate:
		res.Repeated = true
		for i := range v.Results {
			res.AppendTime = max(res.AppendTime, v.Results[i].Place.AppendTime)
		}
	default:
		refusal = r.refusal(p, &v)
	}
	done := p.done
	err = r.seg.Confirm(func(err error) {
		switch {
		case err != nil:
		case refusal != nil:
			err = refusal
		default:
			r.b.metrics.produceRepeated.Inc()
			done(res, nil)
			return
		}
		r.b.metrics.produceErrors.Inc()
		done(ProduceResult{}, err)
	})
	if err == nil {
		p.numbered.release()
	}
	return err == nil, err
}

// refusal is the error of a verdict.
func (r *rng) refusal(p *pending, v *producers.Verdict) error {
	switch v.Err.Code {
	case status.PartialDuplicate:
		refusal := &Refusal{Err: v.Err}
		for i, known := range v.Results {
			if known.Known != producers.NotKnown {
				refusal.Appended = append(refusal.Appended, p.numbered.records[i].Sequence)
			}
		}
		return refusal
	case status.OutOfOrder:
		// The record before may be in another range, of which the producer has not
		// heard.
		if state := r.t.state.Load(); !r.band.Contains(p.numbered.fields.Band.First) || !r.band.Contains(p.numbered.fields.Band.Last) {
			return state.moved()
		}
	}
	return v.Err
}

// accept notes that a batch was handed to the log, its first record at base. The
// caller has the lock.
func (r *rng) accept(n *numbered, base ident.Offset, at ident.Timestamp) {
	if err := r.producers.Accept(&n.fields, n.records, r.seg.Epoch(), base, at); err != nil {
		// It was judged a moment ago: a fault of this program. The log decides.
		r.b.log.Error("the state of producers is read again", "topic", r.t.name, "range", r.id, "err", err)
		r.producers = nil
		r.succeed(succeedRoll)
	}
	n.release()
}

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

// OpenProducer begins a session of a producer that a user has named, and gives
// its id and the session. From the first batch of the session on, a range takes
// nothing of the sessions before. The errors are topic_not_found, invalid_name,
// disk_full and unavailable when too many are begun.
func (b *Broker) OpenProducer(topic, name string) (id batch.ProducerID, session uint64, err error) {
	t, err := b.lookup(topic)
	if err != nil {
		return id, 0, err
	}
	if name == "" || len(name) > MaxProducerName {
		return id, 0, status.New(status.InvalidName, "the name of a producer has 1 to %d bytes, not %d", MaxProducerName, len(name))
	}
	digest := xxh3.HashString128(name).Bytes()
	t.sessionMu.Lock() // those of this process do not get in each other's way
	defer t.sessionMu.Unlock()
	const attempts = 10
	for range attempts {
		var info *catalog.Topic
		b.control.View(func(s *catalog.State) { info, _ = s.Topic(t.id) })
		if info == nil {
			return id, 0, t.over()
		}
		var res catalog.Result
		if res, err = b.propose(catalog.OpenSession{Topic: t.id, Sessions: info.Sessions}); err == nil {
			return producers.ChosenID(digest), res.Topic.Sessions, nil
		}
		if !errors.Is(err, catalog.ErrConflict) {
			return id, 0, err
		}
	}
	return id, 0, status.New(status.Unavailable, "too many producers begin: %w", err)
}

// MaxProducerName bounds the bytes of a producer's name.
const MaxProducerName = 255

// CloseProducer forgets a producer whose id nobody chose: it sends nothing more.
// It waits for nothing, and a producer that is not known is none.
func (b *Broker) CloseProducer(topic string, id batch.ProducerID, session uint64) error {
	t, err := b.lookup(topic)
	if err != nil {
		return err
	}
	for _, r := range t.state.Load().leaves {
		r.closeProducer(id, session)
	}
	return nil
}

func (r *rng) closeProducer(id batch.ProducerID, session uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seg == nil || r.opening || r.ended != nil || r.producers == nil || !r.producers.Closes(id, session) {
		return // it expires
	}
	tail := r.seg.Tail()
	at := max(r.b.clock.timestamp(), tail.LastTime)
	rec := producers.CloseRecord(id, session)
	if err := r.ready(tail, at); err == nil && r.control(&rec, at) == nil {
		r.producers.Close(id, session)
	}
}

// inherit gives the ranges that continue others the state of producers that
// those have, as far as it is known here; the log has the rest. The ranges
// before take no appends any more, and nobody sees next yet.
func (t *topic) inherit(before, next *topicState) (heirs []*rng) {
	for _, r := range next.leaves {
		if slices.Contains(before.leaves, r) {
			continue
		}
		cr, _ := next.info.Range(r.id)
		var parents []*producers.State
		var last ident.Timestamp
		for _, id := range cr.Parents {
			i := slices.IndexFunc(before.leaves, func(p *rng) bool { return p.id == id })
			parent, ok := next.info.Range(id)
			if i < 0 || !ok {
				continue
			}
			p := before.leaves[i]
			p.mu.Lock()
			if p.forgetFrom(parent.End()); p.producers != nil {
				parents, last = append(parents, p.producers), max(last, parent.LastTime)
			}
			p.mu.Unlock()
		}
		if len(parents) == 0 || len(parents) < len(cr.Parents) {
			continue
		}
		state, err := continued(parents, cr.ID, cr.Band, last)
		if err != nil {
			continue // what they were before is not what this is made of
		}
		if r.producers = state; state.Len() > 0 {
			heirs = append(heirs, r)
		}
	}
	return heirs
}

// continued is the state of a range that continues one or two others, when the
// log time of those ended with last.
func continued(parents []*producers.State, id ident.RangeID, band keyspace.Band, last ident.Timestamp) (*producers.State, error) {
	if len(parents) == 1 {
		return parents[0].Child(id, band)
	}
	return producers.Merge(parents[0], parents[1], id, last)
}

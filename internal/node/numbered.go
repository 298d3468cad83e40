package node

import (
	"sync"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/producers"
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
		if both, _ := p.numbered.fields.Band.Intersect(r.band); both != p.numbered.fields.Band {
			return r.t.state.Load().moved()
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

package batch

import (
	"fmt"
	"sync"

	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/record"
)

// Limits are what a producer's batch is checked against.
type Limits struct {
	// MaxValue bounds a value; 0 is record.MaxValue.
	MaxValue int
	// Span, if not nil, becomes the smallest band that has the positions of all
	// keys; it stays not valid, as it has to be, when no record has one.
	Span *keyspace.Band
	// Each, if not nil, is called for every record in turn. The view is
	// overwritten by the next one.
	Each func(*View)
}

// readers keeps the memory for decompressing from check to check.
var readers = sync.Pool{New: func() any { return new(Reader) }}

// Validate is the broker's whole check of a producer's batch, before anything
// is appended: checksums, both sizes of a compressed payload, exact count, the
// bounds of every record, no bytes besides. Whether the keys are where they
// belong is for the caller to judge by their span. A batch that passes can be
// read to its end with a Reader for ever.
func Validate(b []byte, lim Limits) (Header, error) {
	h, err := Check(b)
	if err != nil {
		return Header{}, err
	}
	if h.Kind != Data || h.Sparse {
		return Header{}, fmt.Errorf("%w: a producer's batch is of kind data and not sparse", ErrKind)
	}
	if lim.MaxValue <= 0 {
		lim.MaxValue = record.MaxValue
	}
	r := readers.Get().(*Reader)
	defer func() {
		r.clear()
		readers.Put(r)
	}()
	if err := r.open(h, b); err != nil {
		return Header{}, err
	}
	for r.Next() {
		v := &r.view
		if err := v.limits(&lim); err != nil {
			return Header{}, fmt.Errorf("record %d of %d: %w", int(h.Count)-r.left, h.Count, err)
		}
		if lim.Span != nil && v.Key != nil {
			*lim.Span = lim.Span.With(keyspace.PositionOf(v.Key))
		}
		if lim.Each != nil {
			lim.Each(v)
		}
	}
	if r.err != nil {
		return Header{}, r.err
	}
	return h, nil
}

// limits checks the limits of one record.
func (v *View) limits(lim *Limits) error {
	switch {
	case v.Kind == Checkpoint:
		return fmt.Errorf("%w: a producer writes no checkpoints", ErrKind)
	case len(v.Key) > record.MaxKey:
		return fmt.Errorf("%w: key of %d bytes, at most %d", ErrRecordTooLarge, len(v.Key), record.MaxKey)
	case len(v.Value) > lim.MaxValue:
		return fmt.Errorf("%w: value of %d bytes, at most %d", ErrRecordTooLarge, len(v.Value), lim.MaxValue)
	case v.numHeaders > record.MaxHeaders:
		return fmt.Errorf("%w: %d headers, at most %d", ErrRecordTooLarge, v.numHeaders, record.MaxHeaders)
	case v.headerBytes > record.MaxHeaderBytes:
		return fmt.Errorf("%w: headers of %d bytes, at most %d",
			ErrRecordTooLarge, v.headerBytes, record.MaxHeaderBytes)
	}
	return nil
}

package batch

import (
	"encoding/binary"
	"fmt"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/record"
)

// The bits of a record's flags. The one that is not named must be zero.
const (
	flagKind      = 0x03
	flagKey       = 0x04
	flagExpiry    = 0x08
	flagNotBefore = 0x10
	flagHeaders   = 0x20
	flagOriginal  = 0x40
	flagKnown     = flagKind | flagKey | flagExpiry | flagNotBefore | flagHeaders | flagOriginal
)

// minRecord is the size of the smallest record: length, flags and time.
const minRecord = 3

// Record is a record on its way into a Builder.
type Record struct {
	Kind RecordKind
	// Key is nil for no key; an empty key is a key.
	Key     []byte
	Value   []byte
	Headers []record.Header
	// Time is the producer's timestamp.
	Time ident.Timestamp
	// Expiry and NotBefore are zero for none.
	Expiry    ident.Timestamp
	NotBefore ident.Timestamp
	// Sequence is the producer's number of the record, written only in batches
	// with producer fields.
	Sequence uint64
	// Original is where a restated record stood first.
	Original Original
}

// Original is the place and the append time of the record that a restated
// record copies. The zero value is none: no record has epoch 0.
type Original struct {
	Epoch      ident.Epoch
	Offset     ident.Offset
	AppendTime ident.Timestamp
}

// encoder has what the encoding of a record needs besides the record.
type encoder struct {
	producer bool
	baseTime ident.Timestamp
	// skipped counts the sequences between the record before and this one.
	skipped uint64
}

// form says whether r has an encoding in a batch of kind k.
func (r *Record) form(k Kind) error {
	switch {
	case r.Kind > Checkpoint:
		return fmt.Errorf("%w: unknown kind %d", ErrMalformed, r.Kind)
	case r.Kind == Tombstone && (r.Key == nil || len(r.Value) > 0):
		return fmt.Errorf("%w: a tombstone has a key and no value", ErrMalformed)
	case r.Original != Original{} && (k != Restated || r.Original.Epoch == 0):
		return fmt.Errorf("%w: an original place, outside of a restated batch or without epoch", ErrMalformed)
	}
	return nil
}

// limits checks the sizes that do not depend on the batch.
func (r *Record) limits(maxValue int) error {
	switch {
	case len(r.Key) > record.MaxKey:
		return fmt.Errorf("%w: key of %d bytes, at most %d", ErrRecordTooLarge, len(r.Key), record.MaxKey)
	case len(r.Value) > maxValue:
		return fmt.Errorf("%w: value of %d bytes, at most %d", ErrRecordTooLarge, len(r.Value), maxValue)
	case len(r.Headers) > record.MaxHeaders:
		return fmt.Errorf("%w: %d headers, at most %d", ErrRecordTooLarge, len(r.Headers), record.MaxHeaders)
	}
	n := 0
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	if n > record.MaxHeaderBytes {
		return fmt.Errorf("%w: headers of %d bytes, at most %d", ErrRecordTooLarge, n, record.MaxHeaderBytes)
	}
	return nil
}

func (r *Record) flags() byte {
	f := byte(r.Kind)
	if r.Key != nil {
		f |= flagKey
	}
	if r.Expiry != 0 {
		f |= flagExpiry
	}
	if r.NotBefore != 0 {
		f |= flagNotBefore
	}
	if len(r.Headers) > 0 {
		f |= flagHeaders
	}
	if r.Original != (Original{}) {
		f |= flagOriginal
	}
	return f
}

// since is the zigzag number for t relative to base. The subtraction may wrap;
// so does the addition that undoes it.
func since(t, base ident.Timestamp) uint64 { return zigzag(int64(t) - int64(base)) }

// size is how many bytes append will write after the length.
func (e *encoder) size(r *Record) int {
	n := 1 + uvarintLen(since(r.Time, e.baseTime)) + len(r.Value)
	if e.producer {
		n += uvarintLen(e.skipped)
	}
	if r.Key != nil {
		n += uvarintLen(uint64(len(r.Key))) + len(r.Key)
	}
	if r.Expiry != 0 {
		n += uvarintLen(since(r.Expiry, r.Time))
	}
	if r.NotBefore != 0 {
		n += uvarintLen(since(r.NotBefore, r.Time))
	}
	if o := r.Original; o != (Original{}) {
		n += uvarintLen(uint64(o.Epoch)) + uvarintLen(uint64(o.Offset)) + uvarintLen(since(o.AppendTime, r.Time))
	}
	if len(r.Headers) > 0 {
		n += uvarintLen(uint64(len(r.Headers)))
		for i := range r.Headers {
			h := &r.Headers[i]
			n += uvarintLen(uint64(len(h.Key))) + len(h.Key) + uvarintLen(uint64(len(h.Value))) + len(h.Value)
		}
	}
	return n
}

// append writes r, whose size is known, behind b.
func (e *encoder) append(b []byte, r *Record, size int) []byte {
	b = binary.AppendUvarint(b, uint64(size))
	b = append(b, r.flags())
	if e.producer {
		b = binary.AppendUvarint(b, e.skipped)
	}
	b = binary.AppendUvarint(b, since(r.Time, e.baseTime))
	if r.Expiry != 0 {
		b = binary.AppendUvarint(b, since(r.Expiry, r.Time))
	}
	if r.NotBefore != 0 {
		b = binary.AppendUvarint(b, since(r.NotBefore, r.Time))
	}
	if o := r.Original; o != (Original{}) {
		b = binary.AppendUvarint(b, uint64(o.Epoch))
		b = binary.AppendUvarint(b, uint64(o.Offset))
		b = binary.AppendUvarint(b, since(o.AppendTime, r.Time))
	}
	if r.Key != nil {
		b = binary.AppendUvarint(b, uint64(len(r.Key)))
		b = append(b, r.Key...)
	}
	if len(r.Headers) > 0 {
		b = binary.AppendUvarint(b, uint64(len(r.Headers)))
		for i := range r.Headers {
			h := &r.Headers[i]
			b = binary.AppendUvarint(b, uint64(len(h.Key)))
			b = append(b, h.Key...)
			b = binary.AppendUvarint(b, uint64(len(h.Value)))
			b = append(b, h.Value...)
		}
	}
	return append(b, r.Value...)
}

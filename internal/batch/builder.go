package batch

import (
	"fmt"
	"slices"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/record"
)

// Options say what a Builder builds. The zero value is a plain, uncompressed
// batch of a producer's records.
type Options struct {
	Kind        Kind
	Compression Compression
	// MaxValue bounds a value; 0 is record.MaxValueBound, which is also the
	// most.
	MaxValue int
	// Producer, if not nil, are the producer fields as they are when Finish is
	// called. First is taken from the first record and must exceed Prev.
	Producer *Producer
}

// Builder encodes records into batches. It keeps its working memory from batch
// to batch, at most about twice MaxSize. It is not safe for concurrent use.
type Builder struct {
	opts  Options
	enc   encoder
	first uint64 // sequence of the first record
	last  uint64 // sequence of the last record
	count int
	raw   []byte // the payload so far
	comp  []byte // the payload compressed
	rec   Record // what AddRecord converts into
}

// NewBuilder makes a Builder.
func NewBuilder(o Options) *Builder {
	b := &Builder{}
	b.Reset(o)
	return b
}

// Reset forgets the records that were added since the last Finish, and sets
// the options for the batches to come.
func (b *Builder) Reset(o Options) {
	if o.MaxValue <= 0 || o.MaxValue > record.MaxValueBound {
		o.MaxValue = record.MaxValueBound
	}
	b.opts = o
	b.enc = encoder{producer: o.Producer != nil}
	b.clear()
}

func (b *Builder) clear() {
	b.count, b.raw = 0, b.raw[:0]
}

// Count is how many records were added since the last Finish.
func (b *Builder) Count() int { return b.count }

// Size is how large the batch is without compression.
func (b *Builder) Size() int { return b.payloadAt() + len(b.raw) }

func (b *Builder) payloadAt() int {
	if b.opts.Producer != nil {
		return HeaderSize + ProducerSize
	}
	return HeaderSize
}

// AddRecord adds a record as users make them, see Add. Its AppendTime is
// ignored.
func (b *Builder) AddRecord(r *record.Record) error {
	return b.AddNumbered(r, 0)
}

// AddNumbered adds a record as AddRecord does, with a producer's sequence.
func (b *Builder) AddNumbered(r *record.Record, sequence uint64) error {
	b.rec = Record{
		Key: r.Key, Value: r.Value, Headers: r.Headers, Time: ident.TimestampOf(r.Time), Sequence: sequence,
	}
	err := b.Add(&b.rec)
	b.rec = Record{}
	return err
}

// AddView adds a record of another batch, see Add.
func (b *Builder) AddView(v *View) error {
	b.rec = Record{
		Kind: v.Kind, Key: v.Key, Value: v.Value, Time: v.Time, Expiry: v.Expiry, NotBefore: v.NotBefore,
		Sequence: v.Sequence, Original: v.Original,
	}
	if v.NumHeaders() > 0 {
		b.rec.Headers = v.Shared().Headers
	}
	err := b.Add(&b.rec)
	b.rec = Record{}
	return err
}

// Add adds a record, whose bytes it copies. A record that is refused leaves the
// batch as it was: with ErrFull it fits after a Finish, with ErrRecordTooLarge
// or ErrMalformed never.
func (b *Builder) Add(r *Record) error {
	if err := r.form(b.opts.Kind); err != nil {
		return err
	}
	if err := r.limits(b.opts.MaxValue); err != nil {
		return err
	}
	if err := b.follow(r); err != nil {
		return err
	}
	size := b.enc.size(r)
	whole := uvarintLen(uint64(size)) + size
	if b.count == MaxRecords || b.Size()+whole > MaxSize {
		return b.noRoom(whole)
	}
	b.raw = slices.Grow(b.raw, whole)
	b.raw = b.enc.append(b.raw, r, size)
	b.count++
	b.last = r.Sequence
	return nil
}

// follow relates r to the record before it, or makes it the first.
func (b *Builder) follow(r *Record) error {
	switch {
	case b.count == 0:
		b.first, b.enc.skipped, b.enc.baseTime = r.Sequence, 0, r.Time
	case !b.enc.producer:
	case r.Sequence <= b.last:
		return fmt.Errorf("%w: sequence %d after %d", ErrMalformed, r.Sequence, b.last)
	default:
		b.enc.skipped = r.Sequence - b.last - 1
	}
	return nil
}

func (b *Builder) noRoom(whole int) error {
	if b.payloadAt()+whole > MaxSize {
		return fmt.Errorf("%w: %d bytes, at most %d in a batch", ErrRecordTooLarge, whole, MaxSize)
	}
	return fmt.Errorf("%w: no room for %d bytes behind %d records in %d", ErrFull, whole, b.count, b.Size())
}

// Finish encodes the records that were added since the last Finish as one
// batch, in memory of its own, and begins the next. Without records it gives
// nil. What the broker stamps is zero.
func (b *Builder) Finish() []byte {
	if b.count == 0 {
		return nil
	}
	h := Header{
		Kind:        b.opts.Kind,
		Count:       uint32(b.count),
		RawSize:     uint32(len(b.raw)),
		BaseTime:    b.enc.baseTime,
		HasProducer: b.opts.Producer != nil,
	}
	payload := b.raw
	var smaller bool
	if b.comp, smaller = compress(b.opts.Compression, b.comp, b.raw); smaller {
		h.Compression, payload = b.opts.Compression, b.comp
	}
	out := make([]byte, h.PayloadAt()+len(payload))
	copy(out[h.PayloadAt():], payload)
	if h.HasProducer {
		p := *b.opts.Producer
		p.First = b.first
		p.put(out[HeaderSize:])
	}
	h.encode(out)
	b.clear()
	return out
}

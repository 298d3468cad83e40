package batch

import (
	"iter"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/record"
)

// View is a record as a Reader shows it. Its bytes belong to the batch, or to
// the Reader if the batch was compressed, and are valid until the Reader's next
// Reset; the View itself is overwritten by the next record.
type View struct {
	Kind   RecordKind
	Offset ident.Offset
	// Sequence is zero in batches without producer fields.
	Sequence uint64
	// Key is nil for no key; an empty key is not nil.
	Key   []byte
	Value []byte
	Time  ident.Timestamp
	// AppendTime is the batch's, or the original's of a restated record.
	AppendTime ident.Timestamp
	// Expiry and NotBefore are zero for none.
	Expiry    ident.Timestamp
	NotBefore ident.Timestamp
	// Original is where a restated record stood first; zero if it is none.
	Original Original

	headers     []byte
	numHeaders  int
	headerBytes int
}

// parse decodes what follows the flags, the sequence and the offset of a record.
func (v *View) parse(flags byte, rest []byte, h *Header) bool {
	s := scanner{b: rest}
	v.Kind = RecordKind(flags & flagKind)
	v.Time = h.BaseTime + ident.Timestamp(unzigzag(s.uvarint()))
	v.AppendTime = h.AppendTime
	v.Expiry, v.NotBefore, v.Original = 0, 0, Original{}
	if flags&^(flagKind|flagKey|flagHeaders) != 0 {
		v.parseTimes(flags, &s, h.Kind)
	}
	v.Key = nil
	if flags&flagKey != 0 {
		v.Key = s.field()
	}
	v.headers, v.numHeaders, v.headerBytes = nil, 0, 0
	if flags&flagHeaders != 0 {
		v.parseHeaders(&s)
	}
	v.Value = s.b
	return !s.bad && (v.Kind != Tombstone || v.Key != nil && len(v.Value) == 0)
}

// parseTimes decodes the fields that most records do without.
func (v *View) parseTimes(flags byte, s *scanner, k Kind) {
	if flags&^flagKnown != 0 {
		s.fail()
	}
	if flags&flagExpiry != 0 {
		v.Expiry = v.Time + ident.Timestamp(unzigzag(s.uvarint()))
		s.bad = s.bad || v.Expiry == 0
	}
	if flags&flagNotBefore != 0 {
		v.NotBefore = v.Time + ident.Timestamp(unzigzag(s.uvarint()))
		s.bad = s.bad || v.NotBefore == 0
	}
	if flags&flagOriginal != 0 {
		v.Original = Original{
			Epoch:      ident.Epoch(s.uvarint()),
			Offset:     ident.Offset(s.uvarint()),
			AppendTime: v.Time + ident.Timestamp(unzigzag(s.uvarint())),
		}
		v.AppendTime = v.Original.AppendTime
		s.bad = s.bad || v.Original.Epoch == 0 || k != Restated
	}
}

// parseHeaders walks the headers once, so that Headers need not look for errors.
func (v *View) parseHeaders(s *scanner) {
	n := s.uvarint()
	start := s.b
	if n == 0 || n > uint64(len(start)/2) {
		s.fail()
		return
	}
	v.numHeaders = int(n)
	for range v.numHeaders {
		v.headerBytes += len(s.field()) + len(s.field())
		if s.bad {
			return
		}
	}
	v.headers = start[:len(start)-len(s.b)]
}

// NumHeaders is how many headers the record has.
func (v *View) NumHeaders() int { return v.numHeaders }

// Headers goes over the headers in the producer's order.
func (v *View) Headers() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		s := scanner{b: v.headers}
		for range v.numHeaders {
			if !yield(s.field(), s.field()) {
				return
			}
		}
	}
}

// ToRecord is the record with bytes of its own.
func (v *View) ToRecord() record.Record {
	r := v.Shared()
	own := make([]byte, 0, len(v.Key)+len(v.Value)+v.headerBytes)
	keep := func(b []byte) []byte {
		own = append(own, b...)
		return own[len(own)-len(b) : len(own) : len(own)]
	}
	if r.Key != nil {
		r.Key = keep(r.Key)
	}
	r.Value = keep(r.Value)
	for i := range r.Headers {
		r.Headers[i].Value = keep(r.Headers[i].Value)
	}
	return r
}

// Shared is the record with the bytes of the View. A caller that lets the batch
// (and a Reader of a compressed batch) live as long as the record saves the
// copies.
func (v *View) Shared() record.Record {
	r := record.Record{Key: v.Key, Value: v.Value, Time: v.Time.Time(), AppendTime: v.AppendTime.Time()}
	if v.numHeaders > 0 {
		r.Headers = make([]record.Header, 0, v.numHeaders)
		for k, val := range v.Headers() {
			r.Headers = append(r.Headers, record.Header{Key: string(k), Value: val})
		}
	}
	return r
}

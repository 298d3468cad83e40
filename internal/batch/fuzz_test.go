package batch

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/record"
)

func addSeeds(f *testing.F) {
	for _, g := range goldenBatches() {
		f.Add(golden(f, g.name), true)
	}
	f.Add([]byte{}, false)
	f.Add(golden(f, "plain"), false)
}

// repair puts right what a fuzzer can't: magic, version, size and checksums.
func repair(b []byte, doit bool) {
	if !doit || len(b) < HeaderSize {
		return
	}
	binary.LittleEndian.PutUint32(b[atMagic:], magic)
	binary.LittleEndian.PutUint32(b[atVersion:], Version)
	binary.LittleEndian.PutUint32(b[atSize:], uint32(len(b)))
	reseal(b)
}

// FuzzReader: no bytes make it panic, take more memory than a batch may need,
// or read two encodings of the same records.
func FuzzReader(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte, doit bool) {
		repair(b, doit)
		var r Reader
		err := r.Reset(b)
		if cap(r.raw) > MaxSize+sparseSlack {
			t.Fatalf("%d bytes for a payload", cap(r.raw))
		}
		if err != nil {
			return
		}
		payload, read := reencode(t, &r)
		if r.Err() != nil {
			return
		}
		if read != int(r.header.Count) {
			t.Fatalf("%d records of %d", read, r.header.Count)
		}
		was := b[r.header.PayloadAt():]
		if r.header.Compression != None {
			was = r.raw
		}
		if !r.header.Sparse && !bytes.Equal(payload, was) {
			t.Fatalf("records have two encodings:\n%x\n%x", was, payload)
		}
	})
}

// reencode reads all records and encodes them again.
func reencode(t *testing.T, r *Reader) (payload []byte, n int) {
	enc := encoder{producer: r.header.HasProducer, baseTime: r.header.BaseTime}
	next := r.producer.First
	offset := r.header.Base
	for ; r.Next(); n++ {
		v := r.Record()
		rec := Record{
			Kind: v.Kind, Key: v.Key, Value: v.Value, Time: v.Time, Expiry: v.Expiry, NotBefore: v.NotBefore,
			Sequence: v.Sequence, Original: v.Original,
		}
		for k, val := range v.Headers() {
			rec.Headers = append(rec.Headers, record.Header{Key: string(k), Value: val})
		}
		if len(rec.Headers) != v.NumHeaders() {
			t.Fatalf("%d headers of %d", len(rec.Headers), v.NumHeaders())
		}
		if err := rec.form(r.header.Kind); err != nil {
			t.Fatalf("a record that a Builder refuses: %v", err)
		}
		if v.Offset < offset || v.Sequence < next {
			t.Fatalf("offset %d, sequence %d go back", v.Offset, v.Sequence)
		}
		enc.skipped = v.Sequence - next
		payload = enc.append(payload, &rec, enc.size(&rec))
		next, offset = v.Sequence+1, v.Offset+1
		if !enc.producer {
			next = 0
		}
	}
	return payload, n
}

// FuzzValidate: no bytes make it panic, and what it takes is read to the end
// and within the limits, also after a selection of all.
func FuzzValidate(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte, doit bool) {
		repair(b, doit)
		span := keyspace.Band{First: 1}
		lim := Limits{MaxValue: 100, Span: &span}
		h, err := Validate(b, lim)
		if err != nil {
			return
		}
		if h.Kind != Data || h.Sparse {
			t.Fatalf("took %+v", h)
		}
		var r, s Reader
		if err := r.Reset(b); err != nil {
			t.Fatal(err)
		}
		sparse, n, err := Select(b, 0, int(h.Count), all)
		if err != nil || n != int(h.Count) {
			t.Fatalf("%d of %d records selected: %v", n, h.Count, err)
		}
		if err := s.Reset(sparse); err != nil {
			t.Fatal(err)
		}
		for range h.Count {
			if !r.Next() || !s.Next() {
				t.Fatalf("%v, %v", r.Err(), s.Err())
			}
			v, w := r.Record(), s.Record()
			if len(v.Value) > lim.MaxValue || v.Key != nil && !span.Contains(keyspace.PositionOf(v.Key)) {
				t.Fatalf("took %+v", v)
			}
			if v.Offset != w.Offset || !bytes.Equal(v.Key, w.Key) || !bytes.Equal(v.Value, w.Value) || v.Time != w.Time {
				t.Fatalf("selected %+v of %+v", w, v)
			}
		}
		if r.Next() || s.Next() || r.Err() != nil || s.Err() != nil {
			t.Fatalf("no end: %v, %v", r.Err(), s.Err())
		}
	})
}

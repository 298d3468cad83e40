package batch

import (
	"fmt"

	"github.com/quirelog/quire/internal/ident"
)

// Reader walks the records of a batch:
//
//	if err := r.Reset(b); err != nil { … }
//	for r.Next() {
//		v := r.Record()
//		…
//	}
//	if err := r.Err(); err != nil { … }
//
// It allocates only to decompress, into memory that it keeps for the next
// batch, at most MaxSize. It is not safe for concurrent use.
type Reader struct {
	header   Header
	producer Producer
	view     View
	err      error

	data []byte       // the records not yet read
	left int          // their number
	next ident.Offset // the least offset that the next of them can have
	seq  uint64       // the least sequence that it can have
	raw  []byte       // memory for decompressed payloads

	// The record read last: its flags, and what follows flags, sequence and
	// offset. Select copies them.
	flags byte
	rest  []byte
}

// Reset begins the batch b, after checking its checksums. The Reader keeps b
// until the next Reset and does not change it.
func (r *Reader) Reset(b []byte) error {
	h, err := Check(b)
	if err != nil {
		r.clear()
		r.err = err
		return err
	}
	return r.open(h, b)
}

// open begins the batch b with the header h that Check gave.
func (r *Reader) open(h Header, b []byte) error {
	r.clear()
	r.header = h
	if h.HasProducer {
		if r.producer, r.err = parseProducer(b[HeaderSize:]); r.err != nil {
			return r.err
		}
	}
	r.data = b[h.PayloadAt():]
	if h.Compression != None {
		if cap(r.raw) < int(h.RawSize) {
			r.raw = make([]byte, h.RawSize)
		}
		r.raw = r.raw[:h.RawSize]
		if r.err = decompress(h.Compression, r.raw, r.data); r.err != nil {
			return r.err
		}
		r.data = r.raw
	}
	r.left = int(h.Count)
	r.next = h.Base
	r.seq = r.producer.First
	return nil
}

// clear drops the batch and keeps the memory.
func (r *Reader) clear() { *r = Reader{raw: r.raw} }

// Header is the header of the batch.
func (r *Reader) Header() *Header { return &r.header }

// Producer gives the producer fields, if the batch has them.
func (r *Reader) Producer() (Producer, bool) { return r.producer, r.header.HasProducer }

// Record is the record that Next read. It is overwritten by the next Next.
func (r *Reader) Record() *View { return &r.view }

// Err is what ended the walk early, or nil.
func (r *Reader) Err() error { return r.err }

// Next reads a record. It is false at the end and after an error.
func (r *Reader) Next() bool {
	if r.left == 0 {
		return false
	}
	body, ok := r.body()
	if !ok || !r.place(body) || !r.view.parse(r.flags, r.rest, &r.header) {
		return r.fail("is malformed")
	}
	if r.left--; r.left == 0 && len(r.data) > 0 {
		return r.fail("is the last and not the end")
	}
	return true
}

// Skip passes n records, or all that are left, and looks only at their lengths
// where it can.
func (r *Reader) Skip(n int) {
	for ; n > 0 && r.left > 0; n-- {
		body, ok := r.body()
		if ok && !r.header.Sparse && !r.header.HasProducer {
			r.next++
		} else if !ok || !r.place(body) {
			r.fail("is malformed")
			return
		}
		if r.left--; r.left == 0 && len(r.data) > 0 {
			r.fail("is the last and not the end")
		}
	}
}

// body takes a record with its length off the data.
func (r *Reader) body() ([]byte, bool) {
	s := scanner{b: r.data}
	body := s.field()
	r.data = s.b
	return body, !s.bad
}

// place decodes the head of a record: its flags, its sequence and its offset.
func (r *Reader) place(body []byte) bool {
	if len(body) == 0 {
		return false
	}
	r.flags = body[0]
	first := r.left == int(r.header.Count)
	s := scanner{b: body[1:]}
	if r.header.HasProducer {
		skipped := s.uvarint()
		r.view.Sequence = r.seq + skipped
		r.seq = r.view.Sequence + 1
		// The first record has the sequence of the header, and none wraps.
		if r.view.Sequence < skipped || r.seq == 0 || first && skipped != 0 {
			return false
		}
	}
	var gap uint64
	if r.header.Sparse {
		gap = s.uvarint()
	}
	r.view.Offset = r.next + ident.Offset(gap)
	r.next = r.view.Offset + 1
	r.rest = s.b
	return !s.bad && uint64(r.view.Offset) >= gap && r.next != 0 && !(first && gap != 0)
}

func (r *Reader) fail(what string) bool {
	r.err = fmt.Errorf("%w: record %d of %d %s", ErrCorrupt, int(r.header.Count)-r.left+1, r.header.Count, what)
	r.left = 0
	return false
}

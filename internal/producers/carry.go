package producers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/varint"
)

// ErrCorrupt is wrapped by errors about bytes that Carry or CloseRecord did not
// write.
var ErrCorrupt = errors.New("corrupt state of producers")

// The keys of the control records of this package. FORMAT.md draws their values.
const (
	CarryKey = "producers"
	CloseKey = "producer-close"
)

const (
	// version is the first byte of the values.
	version = 1
	// lastPart is the flag of the last part of a state.
	lastPart = 1
	// partSize is what a part is filled up to. One entry, which is at most a
	// little over MaxWindow, is never cut.
	partSize = 1 << 20
)

// Carry gives the state at log time now as control records, which are to stand
// at the head of a segment in this order, in as many control batches as they
// need. Without expired producers it has one form. Each value has at most
// 1 MiB; they are made one by one.
func (s *State) Carry(now ident.Timestamp) iter.Seq[batch.Record] {
	s.mustBeComplete()
	return func(yield func(batch.Record) bool) {
		var part partWriter
		for _, id := range s.ids() {
			p := s.live(id, now)
			if p == nil {
				continue
			}
			for i := range p.entries {
				item := part.item(id, p, i)
				if len(part.items) > 0 && len(part.items)+len(item) > partSize {
					if !yield(part.record(0)) {
						return
					}
				}
				part.items = append(part.items, item...)
			}
		}
		yield(part.record(lastPart))
	}
}

// Begins says whether a stored batch has the first part of a carried-forward
// state, from which on a fold needs nothing of what comes before.
func Begins(stored []byte) bool {
	var r batch.Reader
	if r.Reset(stored) != nil || r.Header().Kind != batch.Control || !r.Next() || string(r.Record().Key) != CarryKey {
		return false
	}
	in := varint.Scanner{Rest: r.Record().Value}
	in.Take(2)
	return in.Uvarint() == 0 && !in.Bad
}

// partWriter writes the parts of a state.
type partWriter struct {
	index uint64
	last  ident.Timestamp // of the producer before
	items []byte
	one   []byte
}

// item codes entry i of a producer. What the entries of a producer have in
// common stands before the first.
func (w *partWriter) item(id batch.ProducerID, p *producer, i int) []byte {
	b := w.one[:0]
	if i == 0 {
		b = append(b, id[:]...)
		b = binary.AppendUvarint(b, p.session)
		b = varint.AppendDifference(b, uint64(p.last), uint64(w.last))
		b = binary.AppendUvarint(b, uint64(len(p.entries)-1))
		w.last = p.last
	}
	e := &p.entries[i]
	if i < len(p.entries)-1 {
		b = binary.LittleEndian.AppendUint64(b, uint64(e.band.Last))
	}
	b = binary.AppendUvarint(b, e.floor)
	b = binary.AppendUvarint(b, uint64(len(e.set)))
	w.one = append(b, e.set...)
	return w.one
}

// record gives the part so far and begins the next.
func (w *partWriter) record(flags byte) batch.Record {
	value := binary.AppendUvarint([]byte{version, flags}, w.index)
	value = append(value, w.items...)
	w.index++
	w.items = w.items[:0]
	return batch.Record{Key: []byte(CarryKey), Value: value}
}

// carried is a carried-forward state as its parts come in.
type carried struct {
	state *State
	parts uint64
	// size of the items of the part before, which must have been full.
	size int
	// id is the producer before; its entries are not all there while open has
	// some and left is how many are to come.
	id   batch.ProducerID
	last ident.Timestamp
	some bool
	open producer
	left uint64
}

// foldPart takes a part of a carried-forward state. The first part begins anew,
// whatever was begun before: a primary that died in between leaves some parts
// without the rest, and its successor carries the whole state again.
func (s *State) foldPart(value []byte) error {
	in := varint.Scanner{Rest: value}
	head := in.Take(2)
	index := in.Uvarint()
	switch {
	case in.Bad:
		return fmt.Errorf("%w: %d bytes", ErrCorrupt, len(value))
	case head[0] != version:
		return fmt.Errorf("%w: version %d, this program knows %d", ErrCorrupt, head[0], version)
	case head[1]&^lastPart != 0:
		return fmt.Errorf("%w: unknown flags", ErrCorrupt)
	}
	c := s.pending
	if index == 0 {
		c = &carried{state: New(s.id, s.band)}
	}
	if c == nil || index != c.parts {
		return fmt.Errorf("%w: part %d does not follow", ErrCorrupt, index)
	}
	if err := c.part(in.Rest); err != nil {
		return err
	}
	if head[1]&lastPart == 0 {
		s.pending = c
		return nil
	}
	if c.left > 0 {
		return fmt.Errorf("%w: it ends within a producer", ErrCorrupt)
	}
	*s = *c.state
	return nil
}

// part reads the items of one part.
func (c *carried) part(b []byte) error {
	in := varint.Scanner{Rest: b}
	if c.parts > 0 && len(b) == 0 {
		return fmt.Errorf("%w: an empty part", ErrCorrupt)
	}
	for items := 1; len(in.Rest) > 0; items++ {
		if err := c.item(&in); err != nil {
			return err
		}
		size := len(b) - len(in.Rest)
		if items == 1 && c.parts > 0 && c.size+size <= partSize {
			return fmt.Errorf("%w: part %d was not full", ErrCorrupt, c.parts-1)
		}
		if items > 1 && size > partSize {
			return fmt.Errorf("%w: a part of %d bytes", ErrCorrupt, len(b))
		}
	}
	c.size = len(b)
	c.parts++
	return nil
}

func (c *carried) item(in *varint.Scanner) error {
	if c.left == 0 {
		if err := c.producer(in); err != nil {
			return err
		}
	}
	c.left--
	e := entry{band: c.state.band}
	if n := len(c.open.entries); n > 0 {
		e.band.First = c.open.entries[n-1].band.Last + 1
	}
	if c.left > 0 {
		if b := in.Take(8); b != nil {
			e.band.Last = ident.Position(binary.LittleEndian.Uint64(b))
		}
	}
	e.floor = in.Uvarint()
	e.set = slices.Clone(set(in.Take(in.Uvarint())))
	if len(e.set) == 0 {
		e.set = nil
	}
	runs, ok := e.set.parse(e.floor)
	e.top = e.floor
	e.mark(runs)
	if in.Bad || !ok || !e.band.Valid() || c.left > 0 && e.band.Last >= c.state.band.Last {
		return fmt.Errorf("%w: an entry of producer %x", ErrCorrupt, c.id)
	}
	c.open.entries = append(c.open.entries, e)
	if c.left == 0 {
		p := c.open
		c.state.put(c.id, &p)
	}
	return nil
}

// producer reads what the entries of a producer have in common.
func (c *carried) producer(in *varint.Scanner) error {
	id := in.Take(uint64(len(c.id)))
	session := in.Uvarint()
	last := ident.Timestamp(in.Difference(uint64(c.last)))
	more := in.Uvarint()
	if in.Bad || more == ^uint64(0) || c.some && bytes.Compare(id, c.id[:]) <= 0 {
		return fmt.Errorf("%w: a producer after %x", ErrCorrupt, c.id)
	}
	c.id, c.last, c.some, c.left = batch.ProducerID(id), last, true, more+1
	c.open = producer{session: session, last: last}
	return nil
}

// CloseRecord is the control record that closes a producer of a session, see
// Close.
func CloseRecord(id batch.ProducerID, session uint64) batch.Record {
	value := append([]byte{version}, id[:]...)
	return batch.Record{Key: []byte(CloseKey), Value: binary.AppendUvarint(value, session)}
}

func (s *State) foldClose(value []byte) error {
	in := varint.Scanner{Rest: value}
	v := in.Take(1)
	id := in.Take(uint64(len(batch.ProducerID{})))
	session := in.Uvarint()
	if in.Bad || len(in.Rest) > 0 || v[0] != version {
		return fmt.Errorf("%w: a close of %d bytes", ErrCorrupt, len(value))
	}
	if s.pending != nil {
		return fmt.Errorf("%w: a close behind %d parts of a state", ErrLog, s.pending.parts)
	}
	s.Close(batch.ProducerID(id), session)
	return nil
}

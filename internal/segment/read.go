package segment

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
)

// ErrOutOfRange refuses a read of an offset that the segment does not have.
var ErrOutOfRange = errors.New("offset outside the segment")

// Limit bounds a read.
type Limit struct {
	// Bytes are those of the batches; Records are counted from the offset on
	// that is asked for. The batch that reaches Records is the last one, and
	// none but the first may go over Bytes.
	Bytes, Records int
}

// Read gives whole durable batches, the first of which holds the offset from;
// at least one, then as many as the limit admits. At the durable end it gives
// none. Batches that are not in memory are read from the file and verified:
// damage is an error that names file and byte, never a shorter or different
// answer.
func (g *Segment) Read(from ident.Offset, limit Limit) (Batches, error) {
	g.mu.Lock()
	durable, deleted := g.durable, g.deleted
	g.mu.Unlock()
	switch {
	case deleted:
		return Batches{}, ErrOutOfRange
	case from == durable.tail.Base:
		return Batches{}, nil
	case from < g.meta.Base || from > durable.tail.Base:
		return Batches{}, fmt.Errorf("%w: %d not in [%d,%d]", ErrOutOfRange, from, g.meta.Base, durable.tail.Base)
	}
	if out := g.store.tail.get(g, from, durable.tail.Base, limit); len(out) > 0 {
		return Batches{List: out}, nil
	}
	f, err := g.store.handles.get(g)
	if err != nil {
		return Batches{}, err
	}
	defer g.store.handles.put(g)
	pos, err := g.positionBefore(f, from)
	if err != nil {
		return Batches{}, err
	}
	c := collector{g: g, f: f, from: from, limit: limit}
	if err := c.collect(pos, durable.length); err != nil {
		c.out.Release()
		return Batches{}, err
	}
	return c.out, nil
}

// Scan goes over the durable batches that hold the offsets from one up to another,
// read as Read does. A batch is valid until the next one; an error ends the walk.
func (g *Segment) Scan(from, to ident.Offset) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for from < to {
			batches, err := g.Read(from, Limit{Bytes: scanBytes, Records: math.MaxInt32})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, b := range batches.List {
				h, err := batch.ParseHeader(b)
				if from >= to || !yield(b, err) || err != nil {
					batches.Release()
					return
				}
				from = h.End()
			}
			batches.Release()
		}
	}
}

// scanBytes is how much of a segment is in memory while it is scanned.
const scanBytes = 4 << 20

// positionBefore gives the position of a batch at or before the one that
// holds the offset.
func (g *Segment) positionBefore(f vfs.File, from ident.Offset) (int64, error) {
	g.mu.Lock()
	pos, ok := g.ends.find(from)
	g.mu.Unlock()
	if ok {
		return pos, nil
	}
	if from == g.meta.Base {
		return headerSize, nil
	}
	entries, err := g.loadIndex(f)
	if err != nil {
		return 0, err
	}
	return find(entries, g.meta.startEntry(), func(e indexEntry) bool { return e.offset <= from }).pos, nil
}

// collector picks the batches of a read.
type collector struct {
	g     *Segment
	f     vfs.File
	from  ident.Offset
	limit Limit

	out   Batches
	next  ident.Offset
	bytes int
	full  bool

	header [batch.HeaderSize]byte
}

// collect reads from a batch at pos on, skips to the one that holds from, and
// picks verified batches until the limit.
func (c *collector) collect(pos, end int64) error {
	for pos < end && !c.full {
		n, err := c.chunkSize(pos, end)
		if err != nil {
			return err
		}
		mem, buf := newChunk(n)
		picked := len(c.out.List)
		if err := readInto(buf, c.f, c.g.path, pos); err != nil {
			mem.release()
			return err
		}
		used, err := c.take(buf, pos)
		if err != nil {
			mem.release()
			return err
		}
		if len(c.out.List) > picked {
			c.out.chunks = append(c.out.chunks, mem)
		} else {
			mem.release()
		}
		pos += int64(used)
	}
	if len(c.out.List) == 0 {
		return corrupt(c.g.path, pos, "offset %d is not where the index says", c.from)
	}
	c.g.noteEnd(c.next, pos)
	return nil
}

// chunkSize says how much is read at once at pos: a large batch alone, or as
// many small ones as fit.
func (c *collector) chunkSize(pos, end int64) (int, error) {
	const least = 1 << minChunkBits
	if err := readInto(c.header[:], c.f, c.g.path, pos); err != nil {
		return 0, err
	}
	h, err := batch.ParseHeader(c.header[:])
	if err != nil {
		return 0, corrupt(c.g.path, pos, "%v", err)
	}
	if int64(h.Size) > end-pos {
		return 0, corrupt(c.g.path, pos, "a batch reaches past the durable end")
	}
	return int(min(max(int64(h.Size), least), end-pos)), nil
}

// take goes over the whole batches in buf, which is at pos of the file,
// verifies those that it picks, and says how much of buf it is done with.
func (c *collector) take(buf []byte, pos int64) (int, error) {
	used := 0
	for len(buf)-used >= batch.HeaderSize && !c.full {
		at := pos + int64(used)
		h, err := batch.ParseHeader(buf[used:])
		if err != nil {
			return 0, corrupt(c.g.path, at, "%v", err)
		}
		size := int(h.Size)
		switch {
		case size > len(buf)-used:
			if used == 0 {
				return 0, corrupt(c.g.path, at, "a batch changes its size while it is read")
			}
			return used, nil
		case len(c.out.List) > 0 && c.bytes+size > c.limit.Bytes:
			c.full = true
			return used, nil
		}
		if h.End() > c.from {
			if err := c.pick(&h, buf[used:used+size:used+size], at); err != nil {
				return 0, err
			}
		}
		used += size
	}
	return used, nil
}

func (c *collector) pick(h *batch.Header, b []byte, pos int64) error {
	switch {
	case len(c.out.List) > 0 && h.Base != c.next:
		return corrupt(c.g.path, pos, "a batch begins at offset %d, expected %d", h.Base, c.next)
	case len(c.out.List) == 0 && h.Base > c.from:
		return corrupt(c.g.path, pos, "a batch begins at offset %d, expected %d or before", h.Base, c.from)
	}
	if _, err := batch.Check(b); err != nil {
		return corrupt(c.g.path, pos, "%v", err)
	}
	c.out.List, c.next, c.bytes = append(c.out.List, b), h.End(), c.bytes+len(b)
	c.full = c.bytes >= c.limit.Bytes || c.next >= c.from+ident.Offset(c.limit.Records)
	return nil
}

func readFull(f vfs.File, name string, pos, n int64) ([]byte, error) {
	b := make([]byte, n)
	return b, readInto(b, f, name, pos)
}

func readInto(b []byte, f vfs.File, name string, pos int64) error {
	got, err := f.ReadAt(b, pos)
	if got == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return corrupt(name, pos+int64(got), "the file ends before its %d bytes", pos+int64(len(b)))
	}
	return corrupt(name, pos+int64(got), "it cannot be read: %v", err)
}

func headerAt(f vfs.File, pos int64) (batch.Header, error) {
	var b [batch.HeaderSize]byte
	if n, err := f.ReadAt(b[:], pos); n < len(b) {
		return batch.Header{}, err
	}
	return batch.ParseHeader(b[:])
}

// walk calls fn for each batch header from pos to end until fn says false. It
// reads no payload that is larger than its window.
func (g *Segment) walk(f vfs.File, pos, end int64, fn func(h *batch.Header, pos int64) bool) error {
	const window = 256 << 10
	var buf []byte
	at := pos
	for pos < end {
		if pos < at || pos+batch.HeaderSize > at+int64(len(buf)) {
			n := min(window, end-pos)
			if n < batch.HeaderSize {
				return corrupt(g.path, pos, "%d bytes are no batch", n)
			}
			var err error
			if buf, err = readFull(f, g.path, pos, n); err != nil {
				return err
			}
			at = pos
		}
		h, err := batch.ParseHeader(buf[pos-at:])
		if err != nil {
			return corrupt(g.path, pos, "%v", err)
		}
		if !fn(&h, pos) {
			return nil
		}
		pos += int64(h.Size)
	}
	return nil
}

// recentEnds remembers where the last reads ended, so that a reader that goes
// on needs no index.
type recentEnds struct {
	at   [16]indexEntry
	next int
}

func (r *recentEnds) find(from ident.Offset) (int64, bool) {
	for i := range r.at {
		if r.at[i].pos != 0 && r.at[i].offset == from {
			return r.at[i].pos, true
		}
	}
	return 0, false
}

func (g *Segment) noteEnd(next ident.Offset, pos int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.ends.find(next); ok {
		return
	}
	g.ends.at[g.ends.next%len(g.ends.at)] = indexEntry{offset: next, pos: pos}
	g.ends.next++
}

// SeekTime gives the offset of the first record that was appended at or after
// t; the durable end if there is none.
func (g *Segment) SeekTime(t ident.Timestamp) (ident.Offset, error) {
	info := g.Info()
	if info.Tail.Base == g.meta.Base || t > info.Tail.LastTime {
		return info.Tail.Base, nil
	}
	found := info.Tail.Base
	err := g.from(func(e indexEntry) bool { return e.time < t }, func(h *batch.Header) bool {
		if h.AppendTime < t {
			return true
		}
		found = h.Base
		return false
	})
	return found, err
}

// UserBefore counts the user records of the range before an offset of the
// segment.
func (g *Segment) UserBefore(o ident.Offset) (uint64, error) {
	info := g.Info()
	if o >= info.Tail.Base {
		return info.Tail.UserBefore, nil
	}
	users := info.UserBefore
	err := g.from(func(e indexEntry) bool { return e.offset <= o }, func(h *batch.Header) bool {
		if h.End() <= o {
			return true
		}
		users = h.UserBefore
		if h.UserRecords() > 0 && o > h.Base {
			users += uint64(o - h.Base)
		}
		return false
	})
	return users, err
}

// from walks the durable headers from the last index entry that before says
// true of.
func (g *Segment) from(before func(indexEntry) bool, fn func(h *batch.Header) bool) error {
	f, err := g.store.handles.get(g)
	if err != nil {
		return err
	}
	defer g.store.handles.put(g)
	entries, err := g.loadIndex(f)
	if err != nil {
		return err
	}
	g.mu.Lock()
	end := g.durable.length
	g.mu.Unlock()
	e := find(entries, g.meta.startEntry(), before)
	return g.walk(f, e.pos, end, func(h *batch.Header, _ int64) bool { return fn(h) })
}

// tipAt gives the tip of the segment at the beginning of a batch, or at its
// durable end.
func (g *Segment) tipAt(o ident.Offset) (tip, error) {
	g.mu.Lock()
	durable := g.durable
	g.mu.Unlock()
	if o == durable.tail.Base {
		return durable, nil
	}
	t := g.meta.startTip()
	if o < g.meta.Base || o > durable.tail.Base {
		return tip{}, fmt.Errorf("%w: %d not in [%d,%d]", ErrOutOfRange, o, g.meta.Base, durable.tail.Base)
	}
	f, err := g.store.handles.get(g)
	if err != nil {
		return tip{}, err
	}
	defer g.store.handles.put(g)
	found := false
	err = g.walk(f, headerSize, durable.length, func(h *batch.Header, pos int64) bool {
		if h.Base >= o {
			found = h.Base == o
			t.tail.Chain = h.Chain
			return false
		}
		t.length = pos + int64(h.Size)
		t.tail = Tail{Base: h.End(), UserBefore: h.UserBefore + h.UserRecords(), LastTime: h.AppendTime}
		if t.first == 0 {
			t.first = h.AppendTime
		}
		return true
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: no batch begins at %d", ErrOutOfRange, o)
	}
	return t, err
}

package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
)

// ErrOutOfRange refuses a read of an offset that the segment does not have.
var ErrOutOfRange = errors.New("offset outside the segment")

// Read gives whole durable batches, the first of which holds the offset from;
// at least one, then as many as fit into maxBytes. At the durable end it gives
// none. The bytes are shared and must not be changed. Batches that are not in
// memory are read from the file and verified: damage is an error that names
// file and byte, never a shorter or different answer.
func (g *Segment) Read(from ident.Offset, maxBytes int) ([][]byte, error) {
	g.mu.Lock()
	durable, deleted := g.durable, g.deleted
	g.mu.Unlock()
	switch {
	case deleted:
		return nil, ErrOutOfRange
	case from == durable.tail.Base:
		return nil, nil
	case from < g.meta.Base || from > durable.tail.Base:
		return nil, fmt.Errorf("%w: %d not in [%d,%d]", ErrOutOfRange, from, g.meta.Base, durable.tail.Base)
	}
	if out := g.store.tail.get(g, from, durable.tail.Base, maxBytes); len(out) > 0 {
		return out, nil
	}
	f, err := g.store.handles.get(g)
	if err != nil {
		return nil, err
	}
	defer g.store.handles.put(g)
	pos, err := g.positionBefore(f, from)
	if err != nil {
		return nil, err
	}
	return g.readAt(f, from, pos, durable.length, maxBytes)
}

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

// readAt reads from a batch at pos on, skips to the one that holds from, and
// gives the verified batches.
func (g *Segment) readAt(f vfs.File, from ident.Offset, pos, end int64, maxBytes int) ([][]byte, error) {
	const slack = 64 << 10
	want := int64(maxBytes) + slack
	for pos < end {
		buf, err := readFull(f, g.path, pos, min(want, end-pos))
		if err != nil {
			return nil, err
		}
		c := collector{g: g, from: from, at: pos, limit: maxBytes}
		used, err := c.take(buf)
		if err != nil {
			return nil, err
		}
		if len(c.out) > 0 {
			g.noteEnd(c.next, pos+int64(used))
			return c.out, nil
		}
		if used == 0 {
			// The first batch is larger than the buffer.
			if want >= batch.MaxSize {
				return nil, corrupt(g.path, pos, "a batch reaches past the durable end")
			}
			want = batch.MaxSize
		}
		pos += int64(used)
	}
	return nil, corrupt(g.path, pos, "offset %d is not where the index says", from)
}

// collector picks the batches for a read out of a buffer.
type collector struct {
	g     *Segment
	from  ident.Offset
	at    int64
	limit int

	out   [][]byte
	next  ident.Offset
	bytes int
}

// take goes over the whole batches in buf, verifies those that it picks, and
// says how much of buf it is done with.
func (c *collector) take(buf []byte) (int, error) {
	used := 0
	for len(buf)-used >= batch.HeaderSize {
		pos := c.at + int64(used)
		h, err := batch.ParseHeader(buf[used:])
		if err != nil {
			return 0, corrupt(c.g.path, pos, "%v", err)
		}
		size := int(h.Size)
		if size > len(buf)-used || len(c.out) > 0 && c.bytes+size > c.limit {
			break
		}
		if h.End() > c.from {
			if err := c.pick(&h, buf[used:used+size:used+size], pos); err != nil {
				return 0, err
			}
		}
		used += size
	}
	return used, nil
}

func (c *collector) pick(h *batch.Header, b []byte, pos int64) error {
	switch {
	case len(c.out) > 0 && h.Base != c.next:
		return corrupt(c.g.path, pos, "a batch begins at offset %d, expected %d", h.Base, c.next)
	case len(c.out) == 0 && h.Base > c.from:
		return corrupt(c.g.path, pos, "a batch begins at offset %d, expected %d or before", h.Base, c.from)
	}
	if _, err := batch.Check(b); err != nil {
		return corrupt(c.g.path, pos, "%v", err)
	}
	c.out, c.next, c.bytes = append(c.out, b), h.End(), c.bytes+len(b)
	return nil
}

func readFull(f vfs.File, name string, pos, n int64) ([]byte, error) {
	b := make([]byte, n)
	got, err := f.ReadAt(b, pos)
	if got == len(b) {
		return b, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil, corrupt(name, pos+int64(got), "the file ends before its %d bytes", pos+n)
	}
	return nil, corrupt(name, pos+int64(got), "it cannot be read: %v", err)
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

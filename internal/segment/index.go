package segment

import (
	"hash/crc32"
	"io"
	"sort"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
)

// indexSpacing is how many bytes of a segment lie between two entries of its
// sparse index: 32 bytes of memory for each.
const indexSpacing = 128 << 10

// indexEntry says where a batch begins, and how many user records of the range
// come before it.
type indexEntry struct {
	offset ident.Offset
	user   uint64
	time   ident.Timestamp
	pos    int64
}

// index is the sparse index of a segment. It is derived: a file beside the
// segment saves it, and what that file lacks or has wrong is found again by
// walking the batch headers.
type index struct {
	entries []indexEntry
	// whole says that the entries begin at the segment's start; an index of a
	// segment from before this process is not whole until it is loaded.
	whole bool
	saved int
}

// note is told of each batch that becomes readable: where it begins, and when
// it was appended.
func (x *index) note(at *tip, t ident.Timestamp) {
	if n := len(x.entries); n > 0 && at.length-x.entries[n-1].pos < indexSpacing {
		return
	}
	x.entries = append(x.entries, indexEntry{at.tail.Base, at.tail.UserBefore, t, at.length})
}

func (x *index) cut(to ident.Offset) {
	n := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].offset >= to })
	x.entries = x.entries[:n]
	x.saved = min(x.saved, n)
}

// find gives the last entry whose field by less-or-equal says true, or the
// segment's start.
func find(entries []indexEntry, start indexEntry, before func(indexEntry) bool) indexEntry {
	n := sort.Search(len(entries), func(i int) bool { return !before(entries[i]) })
	if n == 0 {
		return start
	}
	return entries[n-1]
}

func (m *Meta) startEntry() indexEntry {
	return indexEntry{offset: m.Base, user: m.UserBefore, time: m.NotBefore, pos: headerSize}
}

// loadIndex gives the whole index, reading the saved one and walking what it
// lacks if need be.
func (g *Segment) loadIndex(f vfs.File) ([]indexEntry, error) {
	g.mu.Lock()
	entries, whole, end, cuts := g.index.entries, g.index.whole, g.durable.length, g.cuts
	g.mu.Unlock()
	if whole {
		return entries, nil
	}
	known := g.readIndex(end)
	if len(entries) > 0 {
		end = entries[0].pos
		for len(known) > 0 && known[len(known)-1].pos >= end {
			known = known[:len(known)-1]
		}
	}
	saved := len(known)
	from := g.meta.startEntry()
	if saved > 0 {
		from = known[saved-1]
		if h, err := headerAt(f, from.pos); err != nil || h.Base != from.offset || h.UserBefore != from.user {
			known, saved, from = nil, 0, g.meta.startEntry()
		}
	}
	last := from.pos
	if saved == 0 {
		last = -indexSpacing
	}
	err := g.walk(f, from.pos, end, func(h *batch.Header, pos int64) bool {
		if pos-last >= indexSpacing {
			known = append(known, indexEntry{h.Base, h.UserBefore, h.AppendTime, pos})
			last = pos
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.index.whole || g.cuts != cuts {
		return known, nil
	}
	// What became readable meanwhile was noted behind what was there.
	g.index = index{entries: append(known, g.index.entries...), whole: true, saved: saved}
	return g.index.entries, nil
}

func (g *Segment) dropIndex() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sealed {
		g.index = index{}
	}
}

const indexEntrySize = 4*8 + 4

func (g *Segment) indexPath() string { return g.store.path(g.path + ".idx") }

// readIndex gives the leading entries of the saved index that are whole.
func (g *Segment) readIndex(end int64) []indexEntry {
	f, err := g.store.fs.Open(g.indexPath())
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return nil
	}
	var entries []indexEntry
	last := int64(-1)
	for ; len(b) >= indexEntrySize; b = b[indexEntrySize:] {
		body := b[:indexEntrySize-4]
		if crc32.Update(uint32(g.instance), castagnoli, body) != le.Uint32(b[len(body):]) {
			break
		}
		d := decoder{b: body}
		e := indexEntry{ident.Offset(d.u64()), d.u64(), ident.Timestamp(d.u64()), int64(d.u64())}
		if e.pos <= last || e.pos >= end || e.pos < headerSize {
			break
		}
		entries, last = append(entries, e), e.pos
	}
	return entries
}

// saveEvery is how many new entries are worth a write of the saved index: 1 MiB
// of the segment. Its headers are walked as fast as a file is opened, so a
// smaller segment has no index file.
const saveEvery = 8

// saveIndex writes the entries that are not saved yet, if there are enough. It
// is an aid: an error leaves it for the next time.
func (g *Segment) saveIndex() {
	g.mu.Lock()
	at := g.index.saved
	if !g.index.whole || len(g.index.entries)-at < saveEvery {
		g.mu.Unlock()
		return
	}
	var e encoder
	for _, x := range g.index.entries[at:] {
		begin := len(e.b)
		e.u64(uint64(x.offset))
		e.u64(x.user)
		e.u64(uint64(x.time))
		e.u64(uint64(x.pos))
		e.u32(crc32.Update(uint32(g.instance), castagnoli, e.b[begin:]))
	}
	n := len(g.index.entries)
	g.mu.Unlock()
	f, err := g.store.fs.OpenReadWrite(g.indexPath(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return
	}
	_, err = f.WriteAt(e.b, int64(at)*indexEntrySize)
	if cerr := f.Close(); err != nil || cerr != nil {
		return
	}
	g.mu.Lock()
	g.index.saved = max(g.index.saved, min(n, len(g.index.entries)))
	g.mu.Unlock()
}

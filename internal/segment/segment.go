// Package segment is a node's disk: a store of segments, each a run of batches
// with one writer. A store keeps one journal with group commit, the segment
// files, a manifest that says which segments there are, and a ballast for the
// day the disk is full. FORMAT.md draws the files; the rules D1–D7 of the
// design are what its tests hold.
//
// What always holds: a batch whose done callback was called without an error
// is read back byte by byte after any crash (segments of weak durability
// excepted); a batch that was refused never appears; after the first failed
// sync the store does nothing more.
//
// A Store and its Segments are safe for concurrent use. One goroutine writes;
// callers hand it work and are called back.
package segment

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// Durability says when an append to a segment is answered.
type Durability struct {
	// Weak segments answer when the page cache has the bytes.
	Weak bool
	// Interval is how often a weak segment is synced; 0 leaves it to the
	// operating system, to checkpoints and to the seal.
	Interval time.Duration
}

// Meta is what a segment is created with. It never changes.
type Meta struct {
	ID    ident.SegmentID
	Range ident.RangeID
	Epoch ident.Epoch
	// Base is the offset of the first record.
	Base ident.Offset
	// UserBefore counts the user records of the range before this segment.
	UserBefore uint64
	// Chain is the digest that the first batch continues.
	Chain uint64
	// NotBefore is the log clock of the range when the segment was opened.
	NotBefore  ident.Timestamp
	Durability Durability
	// Critical segments take appends also when the space is low, from the
	// ballast if need be: without the log of the catalog nothing could be
	// deleted.
	Critical bool
}

// Tail is where the next batch of a segment goes.
type Tail struct {
	Base       ident.Offset
	UserBefore uint64
	Chain      uint64
	// LastTime is the append time of the last batch, or the segment's
	// NotBefore.
	LastTime ident.Timestamp
}

// Info is what is known of a segment.
type Info struct {
	Meta
	// Tail is where the durable part ends; for a sealed segment that is its
	// end.
	Tail Tail
	// FirstTime is the append time of the first batch; zero when empty.
	FirstTime ident.Timestamp
	// Bytes is the size of its durable part on disk.
	Bytes  int64
	Sealed bool
	// Lost counts the records at the end that a repair had to give up; they
	// lie between Tail.Base and Tail.Base+Lost.
	Lost uint64
}

// End is the offset after the last record, lost ones included: where the next
// segment of the range begins.
func (i *Info) End() ident.Offset { return i.Tail.Base + ident.Offset(i.Lost) }

// Users counts the user records of the segment, lost ones included.
func (i *Info) Users() uint64 { return i.Tail.UserBefore - i.UserBefore + i.Lost }

// tip is how far a segment reaches in one of its stages: handed in, written,
// durable, checkpointed.
type tip struct {
	// length of the file in bytes, its header included.
	length int64
	tail   Tail
	first  ident.Timestamp
}

// advance moves the tip over the batch b with the header h.
func (t *tip) advance(h *batch.Header, b []byte) {
	if t.length == headerSize {
		t.first = h.AppendTime
	}
	t.length += int64(len(b))
	t.tail.Base = h.End()
	t.tail.UserBefore += h.UserRecords()
	t.tail.Chain = batch.NextChain(b)
	t.tail.LastTime = h.AppendTime
}

// continues says whether the batch with the header h may follow the tip.
func (t *tip) continues(m *Meta, h *batch.Header) bool {
	return h.Epoch == m.Epoch && h.Base == t.tail.Base && h.Chain == t.tail.Chain &&
		h.UserBefore == t.tail.UserBefore && h.AppendTime >= t.tail.LastTime
}

// Segment is one segment of a store.
type Segment struct {
	store    *Store
	meta     Meta
	instance uint64
	path     string

	mu sync.Mutex
	// submitted is the tip of what was handed in, durable of what was
	// answered.
	submitted tip
	durable   tip
	// term rises when appends that wait are refused because one before them
	// was; those that were handed in under an older term go with it.
	term    uint64
	cutting bool
	sealing bool
	sealed  bool
	deleted bool
	lost    uint64
	// checkpointed is what the segment's own file holds durably.
	checkpointed checkpointed
	// cuts counts the cuts, so that a checkpoint that ran meanwhile is void.
	cuts  uint64
	index index
	cache tailCache
	ends  recentEnds

	// syncMu makes the syncs of the segment's file follow each other: after one
	// that failed, a later one may succeed without having written anything.
	syncMu sync.Mutex
	// forgotten: the deletion is durable, and the file goes.
	forgotten atomic.Bool

	// dirtyFrom is the lowest journal generation with data that the segment
	// file does not hold durably; 0 is none.
	dirtyFrom atomic.Uint64

	// Owned by the writer goroutine.
	written   tip
	syncedDir bool
	weakDirty time.Time
}

// checkpointed is what a segment's file holds without the journal's help.
type checkpointed struct {
	tip    tip
	sealed bool
}

// ErrNotAtTail refuses an append that does not begin where the segment ends.
var ErrNotAtTail = status.New(status.RangeMoved, "the batch does not continue the segment's tail")

// ErrSealed refuses an append to a sealed or deleted segment.
var ErrSealed = status.New(status.RangeMoved, "the segment is sealed")

// Info says how the segment stands.
func (g *Segment) Info() Info {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Info{
		Meta: g.meta, Tail: g.durable.tail, FirstTime: g.durable.first,
		Bytes: g.durable.length, Sealed: g.sealed, Lost: g.lost,
	}
}

// Epoch is that of the grant that writes the segment.
func (g *Segment) Epoch() ident.Epoch { return g.meta.Epoch }

// Lost is that of Info; it never changes.
func (g *Segment) Lost() uint64 { return g.lost }

// Tail is where the next batch goes, what waits to be written included.
func (g *Segment) Tail() Tail {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.submitted.tail
}

// Append hands in one stamped batch, which must continue the tail; it is
// refused with ErrNotAtTail or ErrSealed otherwise. When Append returns nil,
// done is called once, from the store's writer: with nil when the batch is
// durable (for a weak segment: written), with a disk_full error when it was
// refused and will not appear, or with the store's error when the outcome is
// unknown. The batch must not be changed any more. Appends are written in the
// order of the calls.
func (g *Segment) Append(b []byte, done func(error)) error {
	h, err := batch.ParseHeader(b)
	if err != nil || int(h.Size) != len(b) {
		return status.New(status.BatchCorrupt, "append to segment %v: %w", g.meta.ID, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sealing || g.deleted {
		return ErrSealed
	}
	if g.cutting {
		return ErrNotAtTail
	}
	if !g.submitted.continues(&g.meta, &h) {
		return ErrNotAtTail
	}
	before := g.submitted
	g.submitted.advance(&h, b)
	if err := g.store.submit(op{kind: opAppend, seg: g, term: g.term, batch: b, done: done, tip: g.submitted}); err != nil {
		g.submitted = before
		return err
	}
	return nil
}

// Confirm calls done once when all that was handed in before has its outcome:
// with nil when it is durable (in a weak segment: written), with a disk_full
// error when some of it was refused, or with the store's error when that is
// unknown. An error of Confirm itself means that done is not called.
func (g *Segment) Confirm(done func(error)) error {
	g.mu.Lock()
	deleted, settled := g.deleted, g.submitted.length == g.durable.length && !g.cutting
	var err error
	if !deleted && !settled {
		err = g.store.submit(op{kind: opConfirm, seg: g, term: g.term, done: done})
	}
	g.mu.Unlock()
	switch {
	case deleted:
		return ErrSealed
	case settled:
		done(nil)
	}
	return err
}

// Seal ends the segment after what was handed in before: it is never written
// again. It returns when the seal is durable. Sealing a sealed segment
// changes nothing.
func (g *Segment) Seal() (Info, error) {
	err := g.store.do(func(done func(error)) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.sealed {
			done(nil)
			return nil
		}
		if g.deleted {
			return ErrSealed
		}
		g.sealing = true
		return g.store.submit(op{kind: opSeal, seg: g, term: g.term, done: done})
	})
	return g.Info(), err
}

// Cut discards what lies at or past to, which must be the beginning of a
// batch or the tail of an open segment, after what was handed in before. It
// returns when the cut is durable.
func (g *Segment) Cut(to ident.Offset) error {
	return g.store.do(func(done func(error)) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.sealing || g.deleted {
			return ErrSealed
		}
		// Nothing may be handed in until the writer has set the tail.
		g.cutting = true
		return g.store.submit(op{kind: opCut, seg: g, term: g.term, done: done, cut: to})
	})
}

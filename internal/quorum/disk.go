package quorum

import (
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// pendingWrite is what has been handed to the disk.
type pendingWrite struct {
	kind  WriteKind
	copy  *replica // nil of a promise
	tail  Tail
	bytes int
}

// write hands something to the disk, behind all that was handed to it before.
func (r *Range) write(w Write, c *replica) {
	r.serial++
	w.Serial = r.serial
	if c != nil {
		c.pending++
	}
	r.writing += len(w.Batch)
	r.pending.push(pendingWrite{w.Kind, c, w.Tail, len(w.Batch)})
	r.next.Writes = append(r.next.Writes, w)
}

// Stored says what became of a Write. They are answered in their order.
func (r *Range) Stored(now Instant, serial uint64, done Done) {
	r.pass(now)
	if r.state == Stopped || serial != r.stored+1 || r.pending.empty() {
		return
	}
	w := r.pending.pop()
	r.stored = serial
	r.writing -= w.bytes
	if done == Failed {
		r.die()
		return
	}
	if w.kind == WritePromise {
		if done != Durable {
			r.promising = 0 // whoever wants it asks again
			r.dropFences(serial)
		}
		r.answerFences()
		return
	}
	c := w.copy
	c.pending--
	switch {
	case r.copies[c.seg.ID] != c: // it was given up meanwhile
	case done == NoRoom:
		r.noRoom(c, w, serial)
	case done == Damaged:
		c.damaged = true
		r.next.Faults = append(r.next.Faults, c.seg.ID)
	default:
		r.durable(c, w)
	}
	if c.pending == 0 && r.copies[c.seg.ID] == c {
		c.full = false
		r.closeCopy(c)
	}
	r.answerFences()
}

func (r *Range) durable(c *replica, w pendingWrite) {
	switch w.kind {
	case WriteCreate:
		c.created, c.owed = true, true
	case WriteAppend:
		c.durable, c.owed = w.tail, true
	case WriteCut:
		c.durable = w.tail
	case WriteSeal:
		r.sealedHere(c)
	}
}

// noRoom takes back what was refused. The primary whose own store that is stops:
// what it has offered at these offsets may be on the others' disks (I2).
func (r *Range) noRoom(c *replica, w pendingWrite, serial uint64) {
	switch w.kind {
	case WriteCreate:
		r.dropCopy(c.seg.ID)
		r.dropFences(serial)
	case WriteAppend:
		c.full = true
		c.back()
	case WriteCut, WriteSeal:
		c.sealing = false // tried again when the seal is told again
		c.written = c.durable
	}
	if s := r.out; s != nil && s.seg.ID == c.seg.ID && (r.state == Serving || r.state == Frozen) && w.kind <= WriteAppend &&
		!r.cfg.breaks(ruleLocalFailure) {
		r.stepDown(NoSpace)
	}
}

// die is the end of the store (D5): its part in the range says nothing any more.
func (r *Range) die() {
	r.stepDown(WhyNot)
	r.lose()
	r.become(storeDied, WhyNot)
	clear(r.copies)
	r.order, r.fences = nil, nil
}

// learnSeal is told how the catalog sealed a segment. It is a fact, whoever tells
// it: a copy that reaches past it is cut, one that falls short waits to be
// brought there, and what this store has then is never written again.
func (r *Range) learnSeal(id ident.SegmentID, seal catalog.Seal) *replica {
	if r.state == Serving && r.out.seg.ID == id {
		r.stepDown(Deposed)
	}
	c := r.copies[id]
	if c == nil {
		return nil
	}
	if c.seal == nil {
		c.seal = &seal
	}
	r.closeCopy(c)
	return c
}

// closeCopy cuts and seals a copy that has reached its end. It waits for what is
// on its way: a cut behind it could not know what there is to cut.
func (r *Range) closeCopy(c *replica) {
	if c.seal == nil || c.sealing || c.damaged || c.pending > 0 || !c.created || c.durable.End < c.seal.End {
		return
	}
	end := c.seg.sealedTail(*c.seal)
	c.sealing = true
	if c.durable.End > end.End && !r.cfg.breaks(ruleCut) {
		c.written = end
		r.write(Write{Kind: WriteCut, Segment: c.seg, Tail: end}, c)
	} else if c.durable.End == end.End && c.durable.Chain != end.Chain {
		c.damaged = true
		r.next.Faults = append(r.next.Faults, c.seg.ID)
		return
	}
	r.write(Write{Kind: WriteSeal, Segment: c.seg, Tail: end}, c)
}

// sealedHere lets go of a copy that is done.
func (r *Range) sealedHere(c *replica) {
	r.forget(c.seg.ID)
	if c.asker.Kind == Seal {
		a := c.asker.answer(Sealed)
		a.Tail = c.seg.sealedTail(*c.seal)
		r.send(a)
	}
}

// maxClosed bounds the segments that are remembered to be sealed here. Below
// them all are taken to be, so that a late message makes none of them again.
const maxClosed = 128

func (r *Range) isClosed(id ident.SegmentID) bool {
	_, ok := slices.BinarySearch(r.closed, id)
	return ok || id <= r.closedThrough
}

func (r *Range) forget(id ident.SegmentID) {
	r.dropCopy(id)
	if i, ok := slices.BinarySearch(r.closed, id); !ok {
		r.closed = slices.Insert(r.closed, i, id)
	}
	for len(r.closed) > maxClosed {
		r.closedThrough = max(r.closedThrough, r.closed[0])
		r.closed = slices.Delete(r.closed, 0, 1)
	}
}

// Forget lets go of a segment that the driver deletes on a committed command. No
// late message makes it again.
func (r *Range) Forget(id ident.SegmentID) { r.forget(id) }

// Observe tells how the catalog sealed a segment of this store.
func (r *Range) Observe(now Instant, id ident.SegmentID, seal catalog.Seal) {
	r.pass(now)
	r.learnSeal(id, seal)
}

// closing answers a Seal.
func (r *Range) closing(m *Message) {
	if _, done := slices.BinarySearch(r.closed, m.Segment.ID); done {
		a := m.answer(Sealed)
		a.Tail = m.Segment.sealedTail(m.Seal)
		r.send(a)
		return
	}
	c := r.copyOf(m) // it may have missed all of the segment's life
	if c == nil {
		return
	}
	r.learnSeal(m.Segment.ID, m.Seal)
	a := m.answer(Appended)
	a.Promise, a.Tail, a.Next = r.promise, c.durable, c.written.End
	switch {
	case c.damaged:
		a.Refusal = CannotVouch
	case c.durable.End < c.seal.End && !c.sealing:
		a.Refusal = Gap
	default:
		c.asker, c.owed = *m, false // answered when it is sealed
		return
	}
	r.send(a)
}

// load reads for another store, or for a stream of this one.
func (r *Range) load(l pendingLoad) bool {
	if len(r.loads) >= r.cfg.MaxLoads {
		return false
	}
	r.loadID++
	l.id = r.loadID
	r.loads = append(r.loads, l)
	r.next.Loads = append(r.next.Loads, Load{l.id, l.segment, l.from, r.cfg.MaxMessageBytes})
	return true
}

// pendingLoad is a read of the disk on its way.
type pendingLoad struct {
	id      uint64
	segment ident.SegmentID
	from    ident.Offset
	// ask is the Fetch that it answers; a stream of this store has none and names
	// the store that the batches are for.
	ask Message
	to  ident.StoreID
}

// Loaded answers a Load with whole batches, as many as there were; none if they
// could not be read. They may reach past what is durable.
func (r *Range) Loaded(now Instant, id uint64, batches [][]byte) {
	r.pass(now)
	i := slices.IndexFunc(r.loads, func(l pendingLoad) bool { return l.id == id })
	if i < 0 {
		return
	}
	l := r.loads[i]
	r.loads = slices.Delete(r.loads, i, i+1)
	if l.ask.Kind != Fetch {
		r.passOn(l.segment, l.to, l.from, batches)
		return
	}
	if c := r.copies[l.segment]; c != nil {
		batches = slices.DeleteFunc(slices.Clone(batches), func(b []byte) bool {
			h, err := batch.ParseHeader(b)
			return err != nil || h.End() > c.durable.End
		})
	}
	a := l.ask.answer(Fetched)
	a.At, a.Batches = l.from, batches
	r.send(a)
}

// fetch reads a segment of this store for one that repairs others with it.
func (r *Range) fetch(m *Message) {
	if m.Epoch >= r.promise {
		r.load(pendingLoad{segment: m.Segment.ID, from: m.At, ask: *m})
	}
}

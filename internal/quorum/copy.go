package quorum

import (
	"cmp"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// markLimit is how many ends of batches a copy remembers. What is repeated from
// before them is not compared, only answered.
const markLimit = 256

// replica is this store's copy of one segment that is not sealed here.
type replica struct {
	seg Segment
	// written is behind what was handed to the disk, durable behind what it has.
	written, durable Tail
	created          bool // durably
	pending          int  // writes on their way
	// full: the disk refused an append, so that those behind it are refused too.
	// Nothing is accepted until all of them are answered.
	full    bool
	damaged bool
	// commit is the commit offset as far as this store was told.
	commit ident.Offset
	// seal is how the catalog sealed it, once that is known.
	seal    *catalog.Seal
	sealing bool
	// marks are the last ends of batches, with their chains.
	marks []mark
	// asker is to hear of the durable tail; owed says that it has news.
	asker Message
	owed  bool
}

type mark struct {
	end   ident.Offset
	chain uint64
}

func (c *replica) mark(t Tail) {
	if len(c.marks) == markLimit {
		c.marks = slices.Delete(c.marks, 0, markLimit/2)
	}
	c.marks = append(c.marks, mark{t.End, t.Chain})
}

// knows says whether an end of a batch that this copy has passed has this chain;
// one that is not remembered has.
func (c *replica) knows(at ident.Offset, chain uint64) bool {
	i, ok := slices.BinarySearchFunc(c.marks, at, func(m mark, at ident.Offset) int { return cmp.Compare(m.end, at) })
	return !ok || c.marks[i].chain == chain
}

// back forgets what was not written.
func (c *replica) back() {
	c.written = c.durable
	for n := len(c.marks); n > 0 && c.marks[n-1].end > c.written.End; n-- {
		c.marks = c.marks[:n-1]
	}
}

// Copy is what a store has of a segment that is not sealed in it, as its driver
// found it when it started. What was only in the page cache has been made durable
// before (I19).
type Copy struct {
	Segment Segment
	Tail    Tail
	// Damaged: the store cannot vouch for it.
	Damaged bool
}

// copyOf finds or makes the copy that a message is about. Nil means that the
// message was answered.
func (r *Range) copyOf(m *Message) *replica {
	if c := r.copies[m.Segment.ID]; c != nil {
		return c
	}
	kind := Appended
	if m.Kind == Fence {
		kind = Fenced
	}
	a := m.answer(kind)
	a.Promise = r.promise
	switch {
	case r.isClosed(m.Segment.ID):
		a.Refusal = Closed
	case len(r.copies) >= r.cfg.MaxCopies:
		a.Refusal = Full
	case len(m.Segment.Replicas) == 0 || len(m.Segment.Replicas) > MaxReplicas ||
		!slices.Contains(m.Segment.Replicas, r.cfg.Self.Store):
		return nil // not for this store
	default:
		c := &replica{seg: m.Segment, written: m.Segment.start(), durable: m.Segment.start()}
		c.mark(c.written)
		r.addCopy(c)
		r.write(Write{Kind: WriteCreate, Segment: c.seg, Tail: c.written, Promise: r.promise}, c)
		return c
	}
	r.send(a)
	return nil
}

func (r *Range) addCopy(c *replica) {
	r.copies[c.seg.ID] = c
	i, _ := slices.BinarySearch(r.order, c.seg.ID)
	r.order = slices.Insert(r.order, i, c.seg.ID)
}

func (r *Range) dropCopy(id ident.SegmentID) {
	delete(r.copies, id)
	if i, ok := slices.BinarySearch(r.order, id); ok {
		r.order = slices.Delete(r.order, i, i+1)
	}
}

// accept takes an append of a primary, or of one that repairs.
func (r *Range) accept(m *Message) {
	if m.Epoch < r.promise && !r.cfg.breaks(rulePromise) {
		r.refuseBelow(m, Appended)
		return
	}
	c := r.copyOf(m)
	if c == nil {
		return
	}
	r.promiseTo(m.Epoch)
	a := m.answer(Appended)
	a.Promise = r.promise
	foreign := m.Epoch < c.seg.Epoch || m.Epoch == c.seg.Epoch && m.Owner != c.seg.Writer
	if r.cfg.breaks(ruleIncarnation) {
		foreign = m.Epoch < c.seg.Epoch || m.Epoch == c.seg.Epoch && m.Owner.Store != c.seg.Writer.Store
	}
	switch {
	case c.damaged:
		a.Refusal = CannotVouch
	case c.seal != nil && !r.repairs(c, m):
		a.Refusal = Closed
	case foreign:
		a.Refusal = Diverged
	default:
		if c.asker = *m; c.seal == nil {
			c.commit = max(c.commit, m.Commit)
		}
		c.asker.Batches = nil
		had := c.written.End
		if a.Refusal = r.take(c, m); a.Refusal == OK {
			if c.written.End == had && len(m.Batches) > 0 && r.cfg.breaks(ruleRepetition) {
				return
			}
			c.owed = true // answered with what is durable by then
			return
		}
	}
	a.Tail, a.Next, a.Commit = c.durable, c.written.End, c.commit
	r.send(a)
}

// repairs says whether an append to a segment whose seal is known here brings it
// nearer to its end.
func (r *Range) repairs(c *replica, m *Message) bool {
	if r.cfg.breaks(ruleSealed) {
		return true
	}
	if c.sealing || len(m.Batches) == 0 {
		return !c.sealing
	}
	h, err := batch.ParseHeader(m.Batches[len(m.Batches)-1])
	return err == nil && h.End() <= c.seal.End
}

// take writes what continues the tail and passes over what is there already (R2).
func (r *Range) take(c *replica, m *Message) Refusal {
	switch {
	case c.full || r.writing > r.cfg.MaxWriteBytes:
		if len(m.Batches) == 0 {
			return OK
		}
		return Full
	case m.At > c.written.End && !(r.cfg.breaks(ruleTail) && len(m.Batches) > 0):
		return Gap
	case m.At <= c.written.End && !c.knows(m.At, m.Chain) && !r.cfg.breaks(ruleChain):
		return Diverged
	}
	for _, b := range m.Batches {
		h, err := batch.ParseHeader(b)
		switch {
		case err != nil || int(h.Size) != len(b):
			return Gap // a driver that checks frames never sees it
		case h.End() <= c.written.End:
			if !c.knows(h.End(), batch.NextChain(b)) && !r.cfg.breaks(ruleChain) {
				return Diverged
			}
			continue
		case h.Epoch != c.seg.Epoch:
			return Diverged
		case h.Base != c.written.End && !r.cfg.breaks(ruleTail):
			return Gap
		case h.Chain != c.written.Chain && !r.cfg.breaks(ruleChain) && !r.cfg.breaks(ruleTail):
			return Diverged
		}
		c.written = c.written.after(&h, b)
		c.mark(c.written)
		r.write(Write{Kind: WriteAppend, Segment: c.seg, Batch: b, Tail: c.written}, c)
	}
	return OK
}

// answerDurable tells the askers of the copies that have news.
func (r *Range) answerDurable() {
	for _, id := range r.order {
		c := r.copies[id]
		if !c.owed || c.asker.Kind != Append || !c.created && !r.cfg.breaks(ruleDurableAck) {
			continue
		}
		c.owed = false
		a := c.asker.answer(Appended)
		a.Promise, a.Tail, a.Next, a.Commit, a.Confirm = r.promise, c.durable, c.written.End, c.commit, c.asker.Confirm
		if r.cfg.breaks(ruleDurableAck) {
			a.Tail = c.written
		}
		r.send(a)
	}
}

// Readable is the offset up to which this store may show the records of an open
// segment: what it has and knows to be committed (R8).
func (r *Range) Readable(id ident.SegmentID) (ident.Offset, bool) {
	c := r.copies[id]
	if c == nil || c.damaged {
		return 0, false
	}
	commit := c.commit
	if c.seal != nil {
		commit = c.seal.End
	}
	if r.cfg.breaks(ruleReadToCommit) {
		commit = c.durable.End
	}
	if r.cfg.breaks(ruleNamedCommit) {
		for _, id := range r.order {
			commit = max(commit, r.copies[id].commit)
		}
	}
	return max(c.seg.Base, min(c.durable.End, commit)), true
}

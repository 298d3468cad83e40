package segment

import (
	"errors"
	"fmt"
	"time"

	"github.com/quirelog/quire/status"
)

// part is what a round does to one segment.
type part struct {
	seg    *Segment
	ops    []*op
	start  tip
	end    tip
	bytes  int
	seal   bool
	direct bool
	weak   bool
	err    error
}

// refusal says why the writer must not do o any more: the segment was cut
// under it by a full disk, or deleted.
func (g *Segment) refusal(o *op) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.deleted:
		return ErrSealed
	case o.term != g.term && o.kind != opSeal:
		return errDroppedWith
	case g.sealed && o.kind == opAppend:
		return ErrSealed
	}
	return nil
}

func (w *writer) newPart(g *Segment) *part {
	var p *part
	if n := len(w.spare); n > 0 {
		p, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		p = &part{}
	}
	p.seg, p.start, p.end, p.weak = g, g.written, g.written, g.meta.Durability.Weak
	w.bySeg[g] = p
	w.parts = append(w.parts, p)
	return p
}

// writePart writes a segment's part of the round to its file through the page
// cache, and its entries into the journal round unless the part goes the
// direct way. ENOSPC refuses the part and cuts what was written of it.
func (w *writer) writePart(p *part) error {
	g := p.seg
	if p.bytes > 0 && !g.meta.Critical && w.s.space.low() {
		return w.refuse(p, errNoSpace, false)
	}
	p.direct = p.seal || !p.weak && w.goesDirect(p)
	f, err := w.s.handles.get(g)
	if err != nil {
		if isNoSpace(err) {
			return w.refuse(p, err, false)
		}
		return err
	}
	defer w.s.handles.put(g)
	err = w.writeBatches(f, p)
	if isNoSpace(err) && g.meta.Critical && w.s.ballast.release() {
		err = w.writeBatches(f, p)
	}
	if err != nil {
		if isNoSpace(err) {
			return w.refuse(p, err, true)
		}
		return fmt.Errorf("write segment %v: %w", g.meta.ID, err)
	}
	g.written = p.end
	switch {
	case p.seal:
		return w.writeFooter(f, p)
	case p.weak:
		g.markDirty(w.generation)
		if g.meta.Durability.Interval > 0 && g.weakDirty.IsZero() {
			g.weakDirty = time.Now()
			w.weak[g] = struct{}{}
		}
	case !p.direct:
		g.markDirty(w.generation)
		w.journalBatches(p)
	}
	return nil
}

// markDirty says that the segment file has bytes which it does not hold
// durably since the given journal generation.
func (g *Segment) markDirty(generation uint64) { g.dirtyFrom.CompareAndSwap(0, generation) }

// writeFooter writes the footer behind the last batch and the seal's entry.
func (w *writer) writeFooter(f writerAt, p *part) error {
	g := p.seg
	b := encodeFooter(w.s.id, g.instance, g.meta.ID, &p.end, g.lost)
	if p.end.length == headerSize {
		if _, err := f.WriteAt(encodeHeader(w.s.id, g.instance, &g.meta), 0); err != nil {
			return w.footerFailed(p, err)
		}
	}
	if _, err := f.WriteAt(b, p.end.length); err != nil {
		return w.footerFailed(p, err)
	}
	w.round.tip(entrySeal, g.instance, &p.end)
	return nil
}

func (w *writer) footerFailed(p *part, err error) error {
	if isNoSpace(err) {
		p.seg.written = p.start
		return w.refuse(p, err, true)
	}
	return fmt.Errorf("write segment %v: %w", p.seg.meta.ID, err)
}

// goesDirect chooses the cheaper of the two ways to make a part durable.
func (w *writer) goesDirect(p *part) bool {
	return p.bytes >= w.s.cfg.DirectBytes || int64(p.bytes) > w.s.cfg.JournalFileBytes/4 ||
		w.round.size()+int64(p.bytes)+2*blockSize > w.s.cfg.JournalFileBytes/2
}

// writeBatches writes the part's batches behind the segment's written tip:
// small ones gathered into one write, large ones as they are.
func (w *writer) writeBatches(f writerAt, p *part) error {
	const large = 128 << 10
	w.scratch = w.scratch[:0]
	if p.start.length == headerSize {
		w.scratch = append(w.scratch, encodeHeader(w.s.id, p.seg.instance, &p.seg.meta)...)
	}
	at := p.start.length - int64(len(w.scratch))
	flush := func() error {
		if len(w.scratch) == 0 {
			return nil
		}
		_, err := f.WriteAt(w.scratch, at)
		at += int64(len(w.scratch))
		w.scratch = w.scratch[:0]
		return err
	}
	for _, o := range p.ops {
		if o.kind != opAppend {
			continue
		}
		if len(o.batch) < large && len(w.scratch)+len(o.batch) <= 1<<20 {
			w.scratch = append(w.scratch, o.batch...)
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		if len(o.batch) < large {
			w.scratch = append(w.scratch, o.batch...)
			continue
		}
		if _, err := f.WriteAt(o.batch, at); err != nil {
			return err
		}
		at += int64(len(o.batch))
	}
	return flush()
}

type writerAt interface {
	WriteAt(p []byte, off int64) (int, error)
}

func (w *writer) journalBatches(p *part) {
	w.round.data(p.seg.instance, p.start.length, p.bytes)
	for _, o := range p.ops {
		if o.kind == opAppend {
			w.round.more(o.batch)
		}
	}
}

// refuse answers a part with disk_full. What was written of it is overwritten
// with zeros, durably, before the answer: a refused batch must never appear.
func (w *writer) refuse(p *part, cause error, wrote bool) error {
	g := p.seg
	if wrote {
		if err := w.wipe(g, p.start.length, p.end.length+footerSize); err != nil {
			return fmt.Errorf("cut segment %v after a full disk: %w", g.meta.ID, err)
		}
	}
	w.s.space.exhausted()
	w.s.cfg.Observer.Limit("disk_full")
	p.err = status.New(status.DiskFull, "append to segment %v: %w", g.meta.ID, cause)
	g.mu.Lock()
	g.term++
	g.submitted = p.start
	g.sealing = false
	g.mu.Unlock()
	for _, o := range p.ops {
		o.err = p.err
	}
	return nil
}

// refuseAll answers what a starved journal cannot take with disk_full:
// everything but deletions and the log of the commands that ask for them, and
// in the end those too.
func (w *writer) refuseAll() {
	full := w.files.size-w.pos < 4*blockSize
	for _, p := range w.parts {
		if full || !p.seg.meta.Critical {
			_ = w.refuse(p, errStarved, false) // nothing is written yet, so nothing fails
		}
	}
	for i := range w.ops {
		o := &w.ops[i]
		switch {
		case o.kind == opDelete && full:
			o.err = status.New(status.DiskFull, "delete segment %v: %w", o.seg.meta.ID, errStarved)
			o.seg.undelete()
		case o.kind == opCreate && (full || !o.seg.meta.Critical):
			o.err = status.New(status.DiskFull, "create segment %v: %w", o.seg.meta.ID, errStarved)
		case o.kind == opCut:
			o.err = status.New(status.DiskFull, "cut segment %v: %w", o.seg.meta.ID, errStarved)
			o.seg.uncut()
		}
	}
}

var errStarved = errors.New("the journal is full, and no checkpoint finds space to free it")

// wipe overwrites the bytes of g's file from at on with zeros, up to end or
// the file's size, and syncs them.
func (w *writer) wipe(g *Segment, at, end int64) error {
	f, err := w.s.handles.get(g)
	if err != nil {
		return err
	}
	defer w.s.handles.put(g)
	if _, err := zeroFrom(f, at, end); err != nil {
		return err
	}
	if err := w.syncName(g); err != nil {
		return err
	}
	return w.s.syncSegment(g, f, SyncMeta)
}

package segment

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/quirelog/quire/status"
)

// writer runs the commit rounds of a store. There is no timer before a round:
// while one is being synced, the next one gathers in the queue.
type writer struct {
	s     *Store
	ops   []op
	parts []*part
	bySeg map[*Segment]*part
	spare []*part
	round roundBuilder
	files *journalFiles
	cur   *journalFile
	pos   int64

	generation uint64
	seq        uint64
	// firstSeq is the number of the first round of the file in use.
	firstSeq uint64

	// What is durable and has no proof of it in the journal yet.
	unmarked      map[*Segment]tip
	unmarkedBytes int64
	unmarkedSince time.Time
	weak          map[*Segment]struct{}
	scratch       []byte
}

func newWriter(s *Store, files *journalFiles, generation, seq uint64) *writer {
	return &writer{
		s: s, files: files, generation: generation, seq: seq,
		bySeg: map[*Segment]*part{}, unmarked: map[*Segment]tip{}, weak: map[*Segment]struct{}{},
	}
}

// run serves the queue until the store is closed and the queue empty, or the
// store has failed.
func (w *writer) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.ops = w.s.queue.take(w.ops[:0], w.s.cfg.RoundBytes)
		if len(w.ops) == 0 {
			if w.s.closing() {
				return
			}
			timer.Reset(w.untilNextTimer())
			select {
			case <-w.s.queue.wake:
				continue
			case <-w.s.closeRequested:
				continue
			case <-timer.C:
			}
		}
		err := w.commit()
		clear(w.ops)
		if err != nil {
			w.s.fail(err)
			return
		}
	}
}

// untilNextTimer is how long the writer may sleep without work.
func (w *writer) untilNextTimer() time.Duration {
	next := time.Hour
	if !w.unmarkedSince.IsZero() {
		next = min(next, time.Until(w.unmarkedSince.Add(w.s.cfg.MarkInterval)))
	}
	for g := range w.weak {
		next = min(next, time.Until(g.weakDirty.Add(g.meta.Durability.Interval)))
	}
	return max(next, 0)
}

// commit runs one round: write what was taken to the segment files, make it
// durable by the journal or by the segment's own sync, answer. An error is one
// after which nothing may be believed any more.
func (w *writer) commit() error {
	began := time.Now()
	w.gather()
	defer w.release()

	stats := RoundStats{}
	for i := range w.ops {
		if o := &w.ops[i]; o.kind == opAppend {
			stats.Appends++
			stats.Bytes += len(o.batch)
			stats.Queued = max(stats.Queued, began.Sub(o.at))
		}
	}
	w.round.reset()
	starved, err := w.secureJournal()
	if err != nil {
		return w.abandon(err)
	}
	if starved {
		w.refuseAll()
	}
	for _, p := range w.parts {
		if p.err != nil {
			continue
		}
		if err := w.writePart(p); err != nil {
			return w.abandon(err)
		}
	}
	if err := w.structural(); err != nil {
		return w.abandon(err)
	}
	// The files first: an entry of the journal may state what they hold.
	if stats.Direct, err = w.syncParts(); err != nil {
		return w.abandon(err)
	}
	w.addMarks(began)
	stats.Journal = !w.round.empty()
	if stats.Journal {
		if err := w.writeJournal(); err != nil {
			return w.abandon(err)
		}
	}
	if err := w.syncWeak(began); err != nil {
		return w.abandon(err)
	}
	if err := w.publish(); err != nil {
		return err
	}
	stats.Took = time.Since(began)
	w.s.cfg.Observer.Round(stats)
	return nil
}

// abandon answers everything in the round with the store's failure: the
// outcome is unknown.
func (w *writer) abandon(err error) error {
	failed := stoppedError(err)
	for i := range w.ops {
		if o := &w.ops[i]; o.done != nil {
			o.done(failed)
		}
	}
	return err
}

// gather sorts the appends, their confirmations and the seals of the round by
// segment.
func (w *writer) gather() {
	for i := range w.ops {
		o := &w.ops[i]
		if o.kind != opAppend && o.kind != opConfirm && o.kind != opSeal {
			continue
		}
		if o.err = o.seg.refusal(o); o.err != nil {
			continue
		}
		p := w.bySeg[o.seg]
		if p == nil && o.kind == opConfirm {
			continue // the rounds before have answered all that was before it
		}
		if p == nil {
			p = w.newPart(o.seg)
		}
		p.ops = append(p.ops, o)
		if o.kind == opConfirm {
			continue
		}
		if o.kind == opSeal {
			p.seal = true
			continue
		}
		p.bytes += len(o.batch)
		p.end = o.tip
	}
}

var errDroppedWith = status.New(status.DiskFull, "an append before this one was refused because the disk is full")

func (w *writer) release() {
	for _, p := range w.parts {
		delete(w.bySeg, p.seg)
		clear(p.ops)
		*p = part{ops: p.ops[:0]}
	}
	w.spare = append(w.spare, w.parts...)
	w.parts = w.parts[:0]
}

// cut discards what lies at and behind the beginning of a batch: first the
// entry that says so, durably, then the bytes, and then a mark that they are
// gone. A cut has a round of its own.
func (w *writer) cut(o *op) error {
	g := o.seg
	t, err := g.tipAt(o.cut)
	if errors.Is(err, ErrOutOfRange) {
		o.err = err
		g.uncut()
		return nil
	}
	if err != nil {
		return fmt.Errorf("cut segment %v: %w", g.meta.ID, err)
	}
	// The entry vouches for what stays, which of a weak segment may be in the
	// page cache only.
	if g.meta.Durability.Weak {
		if err := w.syncName(g); err != nil {
			return err
		}
		if err := w.s.checkpointSegment(g, SyncMeta); err != nil {
			return err
		}
	}
	w.round.tip(entryCut, g.instance, &t)
	if err := w.writeJournal(); err != nil {
		return err
	}
	if err := w.wipe(g, t.length, g.written.length); err != nil {
		return fmt.Errorf("cut segment %v: %w", g.meta.ID, err)
	}
	delete(w.unmarked, g)
	g.written = t
	g.applyCut(t)
	w.round.reset()
	w.round.tip(entryMark, g.instance, &t)
	return nil
}

// structural does the round's creations, cuts and deletions: each is an entry
// of the journal.
func (w *writer) structural() error {
	for i := range w.ops {
		o := &w.ops[i]
		if o.err != nil {
			continue
		}
		switch o.kind {
		case opCreate:
			w.round.create(o.seg.instance, &o.seg.meta)
		case opDelete:
			w.round.delete(o.seg.instance)
		case opCut:
			if err := w.cut(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish makes the round readable and answers it. An error is one after which
// the store stops.
func (w *writer) publish() (failed error) {
	for _, p := range w.parts {
		if p.err == nil {
			p.seg.publish(p, w.generation)
		}
	}
	for i := range w.ops {
		o := &w.ops[i]
		switch o.kind {
		case opCreate:
			if o.err == nil {
				w.s.register(o.seg)
			}
		case opDelete:
			if o.err != nil {
				break
			}
			delete(w.unmarked, o.seg)
			delete(w.weak, o.seg)
			if err := w.s.forget(o.seg); err != nil {
				failed, o.err = err, stoppedError(err)
			}
		}
		if o.done != nil {
			o.done(o.err)
		}
	}
	return failed
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

var errNoSpace = errors.New("too little space is left on the disk")

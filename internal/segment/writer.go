package segment

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

type opKind uint8

const (
	opAppend opKind = iota
	opCreate
	opSeal
	opCut
	opDelete
)

// op is one piece of work for the writer.
type op struct {
	kind  opKind
	seg   *Segment
	term  uint64
	batch []byte
	tip   tip // append: the segment's tip behind the batch
	cut   ident.Offset
	done  func(error)
	at    time.Time
	err   error
}

// queue holds what waits for the next round.
type queue struct {
	mu     sync.Mutex
	ops    []op
	bytes  int64
	limit  int64
	closed error
	wake   chan struct{}
}

// submit hands an op to the writer. It never blocks.
func (s *Store) submit(o op) error {
	o.at = time.Now()
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return q.closed
	}
	if o.kind == opAppend && q.bytes+int64(len(o.batch)) > q.limit {
		s.cfg.Observer.Limit("queue_bytes")
		return status.New(status.Overloaded, "%d bytes wait for the disk, at most %d may", q.bytes, q.limit)
	}
	q.ops = append(q.ops, o)
	q.bytes += int64(len(o.batch))
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

// do submits through f and waits for the outcome.
func (s *Store) do(f func(done func(error)) error) error {
	ch := make(chan error, 1)
	if err := f(func(err error) { ch <- err }); err != nil {
		return err
	}
	return <-ch
}

// take moves up to limit bytes of waiting ops to into. At least one op is
// taken if any waits.
func (q *queue) take(into []op, limit int) []op {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < len(q.ops) && (n == 0 || bytes+len(q.ops[n].batch) <= limit) {
		bytes += len(q.ops[n].batch)
		n++
		// A cut has a round of its own: what is before it must be readable.
		if q.ops[n-1].kind == opCut || n < len(q.ops) && q.ops[n].kind == opCut {
			break
		}
	}
	into = append(into, q.ops[:n]...)
	rest := copy(q.ops, q.ops[n:])
	clear(q.ops[rest:])
	q.ops = q.ops[:rest]
	q.bytes -= int64(bytes)
	return into
}

// close refuses what comes later with err and gives what still waits.
func (q *queue) close(err error) []op {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = err
	}
	ops := q.ops
	q.ops, q.bytes = nil, 0
	return ops
}

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

	// What is durable and has no proof of it in the journal yet.
	unmarked      map[*Segment]tip
	unmarkedBytes int64
	unmarkedSince time.Time
	weak          map[*Segment]struct{}
	scratch       []byte
}

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
	for _, p := range w.parts {
		if err := w.writePart(p); err != nil {
			return w.abandon(err)
		}
	}
	if err := w.structural(); err != nil {
		return w.abandon(err)
	}
	// The files first: an entry of the journal may state what they hold.
	for _, p := range w.parts {
		if p.err == nil && p.direct {
			stats.Direct++
			if err := w.syncPart(p); err != nil {
				return w.abandon(err)
			}
		}
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

// gather sorts the appends and seals of the round by segment.
func (w *writer) gather() {
	for i := range w.ops {
		o := &w.ops[i]
		if o.kind != opAppend && o.kind != opSeal {
			continue
		}
		if o.err = o.seg.refusal(o); o.err != nil {
			continue
		}
		p := w.bySeg[o.seg]
		if p == nil {
			p = w.newPart(o.seg)
		}
		p.ops = append(p.ops, o)
		if o.kind == opSeal {
			p.seal = true
			continue
		}
		p.bytes += len(o.batch)
		p.end = o.tip
	}
}

// refusal says why the writer must not do o any more: the segment was cut
// under it by a full disk, or deleted.
func (g *Segment) refusal(o *op) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.deleted:
		return ErrSealed
	case o.term != g.term && o.kind == opAppend:
		return errDroppedWith
	case g.sealed && o.kind == opAppend:
		return ErrSealed
	}
	return nil
}

var errDroppedWith = status.New(status.DiskFull, "an append before this one was refused because the disk is full")

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

func (w *writer) release() {
	for _, p := range w.parts {
		delete(w.bySeg, p.seg)
		clear(p.ops)
		*p = part{ops: p.ops[:0]}
	}
	w.spare = append(w.spare, w.parts...)
	w.parts = w.parts[:0]
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

// syncPart makes a part durable by a sync of its own file.
func (w *writer) syncPart(p *part) error {
	g := p.seg
	f, err := w.s.handles.get(g)
	if err != nil {
		return err
	}
	defer w.s.handles.put(g)
	if err := w.syncName(g); err != nil {
		return err
	}
	if err := w.s.syncSegment(g, f, SyncDirect); err != nil {
		return fmt.Errorf("segment %v: %w", g.meta.ID, err)
	}
	if p.seal {
		delete(w.unmarked, g)
		return nil
	}
	w.unmarked[g] = p.end
	w.noteUnproven(p.bytes)
	return nil
}

// syncName makes the name of g's file durable, and the file if there is none.
func (w *writer) syncName(g *Segment) error {
	if g.syncedDir {
		return nil
	}
	if _, err := w.s.handles.get(g); err != nil {
		return err
	}
	defer w.s.handles.put(g)
	if err := syncDir(w.s.fs, w.s.path(segmentDir)); err != nil {
		return fmt.Errorf("%s: %w", segmentDir, err)
	}
	g.syncedDir = true
	return nil
}

// syncWeak syncs the weak segments whose interval is over.
func (w *writer) syncWeak(now time.Time) error {
	for g := range w.weak {
		if now.Sub(g.weakDirty) < g.meta.Durability.Interval {
			continue
		}
		if err := w.syncName(g); err != nil {
			return err
		}
		if err := w.s.checkpointSegment(g, SyncDirect); err != nil {
			return err
		}
		g.weakDirty = time.Time{}
		delete(w.weak, g)
		g.mu.Lock()
		w.unmarked[g] = g.checkpointed.tip
		g.mu.Unlock()
		w.noteUnproven(0)
	}
	return nil
}

// writeJournal writes and syncs the round.
func (w *writer) writeJournal() error {
	if w.cur == nil || w.pos+w.round.size() > w.files.size {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	b := w.round.finish(w.s.id, w.generation, w.seq)
	if _, err := w.cur.f.WriteAt(b, w.pos); err != nil {
		return fmt.Errorf("write %s: %w", w.cur.name, err)
	}
	began := time.Now()
	if err := w.cur.f.SyncData(); err != nil {
		return fmt.Errorf("%s: %w", w.cur.name, asSyncError(err))
	}
	w.s.cfg.Observer.Synced(SyncJournal, time.Since(began))
	w.pos += int64(len(b))
	w.seq++
	if w.round.count > 0 {
		w.noteUnproven(0)
	}
	return nil
}

// closePatience is how long a closing store waits for a journal file.
const closePatience = 10 * time.Second

// rotate goes on in a free journal file and asks for the checkpoint that
// frees the ones behind. When none is free it waits for that.
func (w *writer) rotate() error {
	if w.cur != nil {
		w.s.checkpoints.request(checkpointRequest{through: w.generation, seq: w.seq})
	}
	w.generation++
	waited := false
	closing, giveUp := w.s.closeRequested, (<-chan time.Time)(nil)
	for {
		if w.cur = w.files.take(w.generation); w.cur != nil {
			w.pos = 0
			w.s.makeSpare()
			return nil
		}
		if !waited {
			w.s.cfg.Observer.Limit("journal_files")
			waited = true
		}
		select {
		case <-w.files.freed:
		case <-w.s.checkpoints.failed:
			return w.s.checkpoints.err
		case <-closing:
			closing, giveUp = nil, time.After(closePatience)
		case <-giveUp:
			return status.New(status.DiskFull, "the journal is full, and no checkpoint found space to free it")
		}
	}
}

// cut discards what lies at and behind the beginning of a batch: first the
// entry that says so, durably, then the bytes, and then a mark that they are
// gone. A cut has a round of its own.
func (w *writer) cut(o *op) error {
	g := o.seg
	t, err := g.tipAt(o.cut)
	if err != nil {
		o.err = err
		g.uncut()
		return nil
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

// structural does the round's creations, cuts and deletions: each is an entry
// of the journal.
func (w *writer) structural() error {
	for i := range w.ops {
		o := &w.ops[i]
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

// addMarks puts into the round what direct rounds made durable, this one's
// included, if there is a journal write anyway or the marks have waited long
// enough.
func (w *writer) addMarks(now time.Time) {
	due := !w.unmarkedSince.IsZero() &&
		(now.Sub(w.unmarkedSince) >= w.s.cfg.MarkInterval || w.unmarkedBytes >= w.s.cfg.MarkBytes)
	if w.round.empty() && !due {
		return
	}
	w.round.proof = true
	w.unmarkedSince, w.unmarkedBytes = time.Time{}, 0
	for g, t := range w.unmarked {
		if w.round.size() > w.s.cfg.JournalFileBytes/2 {
			w.unmarkedSince = now
			return
		}
		w.round.tip(entryMark, g.instance, &t)
		delete(w.unmarked, g)
	}
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
			w.s.register(o.seg)
		case opDelete:
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

// noteUnproven remembers that something is durable without a proof in the
// journal: a direct round without its mark, a journal round without one behind
// it.
func (w *writer) noteUnproven(bytes int) {
	w.unmarkedBytes += int64(bytes)
	if w.unmarkedSince.IsZero() {
		w.unmarkedSince = time.Now()
	}
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

var errNoSpace = errors.New("too little space is left on the disk")

package segment

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quirelog/quire/status"
)

// syncParts makes the direct parts of the round durable by syncs of their own
// files, several at the same time, and says how many there are.
func (w *writer) syncParts() (int, error) {
	n := 0
	workers := &errgroup.Group{}
	workers.SetLimit(w.s.cfg.SyncWorkers)
	for _, p := range w.parts {
		if p.err != nil || !p.direct {
			continue
		}
		n++
		if err := w.syncName(p.seg); err != nil {
			return n, errors.Join(err, workers.Wait())
		}
		workers.Go(func() error { return w.s.syncOpen(p.seg, SyncDirect) })
	}
	if err := workers.Wait(); err != nil {
		return n, err
	}
	for _, p := range w.parts {
		switch {
		case p.err != nil || !p.direct:
		case p.seal:
			delete(w.unmarked, p.seg)
		default:
			w.unmarked[p.seg] = p.end
			w.noteUnproven(p.bytes)
		}
	}
	return n, nil
}

// syncOpen syncs the file of g.
func (s *Store) syncOpen(g *Segment, kind SyncKind) error {
	f, err := s.handles.get(g)
	if err != nil {
		return err
	}
	defer s.handles.put(g)
	if err := s.syncSegment(g, f, kind); err != nil {
		return fmt.Errorf("segment %v: %w", g.meta.ID, err)
	}
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
	if w.pos+w.round.size() > w.files.size {
		return fmt.Errorf("a round of %d bytes does not fit into %s, which was made sure of", w.round.size(), w.cur.name)
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

// secureJournal sees to it, before anything of a round is written, that the
// round will fit into the journal: it goes on in the next file if need be, and
// waits for the checkpoint that frees one. It says that the journal is starved
// when no checkpoint finds space for that; what is left of the file in use is
// then kept for deletions.
func (w *writer) secureJournal() (starved bool, err error) {
	if w.cur != nil && w.pos+w.roundNeed() <= w.files.size {
		return false, nil
	}
	err = w.rotate()
	if errors.Is(err, errStarved) {
		return true, nil
	}
	return false, err
}

// roundNeed bounds what the round takes of the journal, its marks aside.
func (w *writer) roundNeed() int64 {
	need := int64(2 * blockSize)
	for i := range w.ops {
		need += int64(len(w.ops[i].batch)) + entryRoom
	}
	return min(need, w.files.size/2+2*blockSize)
}

// entryRoom is more than an entry takes beside its batches.
const entryRoom = 128

// rotate goes on in a free journal file and asks for the checkpoint that
// frees the ones behind. When none is free it waits for that, or gives up with
// errStarved when the checkpoint finds no space.
func (w *writer) rotate() error {
	if w.cur != nil {
		w.s.checkpoints.request(checkpointRequest{through: w.generation, seq: w.seq})
	}
	waited := false
	closing, giveUp := w.s.closeRequested, (<-chan time.Time)(nil)
	for {
		if next := w.files.take(w.generation + 1); next != nil {
			w.generation++
			w.cur, w.pos, w.firstSeq = next, 0, w.seq
			w.s.makeSpare()
			return nil
		}
		if !waited {
			w.s.cfg.Observer.Limit("journal_files")
			waited = true
		}
		select {
		case <-w.files.freed:
		case <-w.s.checkpoints.starved:
			if w.cur != nil && w.s.checkpoints.withdraw(checkpointRequest{through: w.generation - 1, seq: w.firstSeq}) {
				return errStarved
			}
		case <-w.s.checkpoints.failed:
			return w.s.checkpoints.err
		case <-closing:
			closing, giveUp = nil, time.After(closePatience)
		case <-giveUp:
			return status.New(status.DiskFull, "the store is closing: %w", errStarved)
		}
	}
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
		if w.pos+w.round.size()+2*blockSize > w.files.size {
			w.unmarkedSince = now
			return
		}
		w.round.tip(entryMark, g.instance, &t)
		delete(w.unmarked, g)
	}
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

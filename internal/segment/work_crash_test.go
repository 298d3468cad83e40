package segment_test

import (
	"time"

	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// work does one thing with the store.
func (w *world) work() error {
	switch w.rng.IntN(12) {
	case 0:
		d := []time.Duration{time.Millisecond, 60 * time.Millisecond, 2 * time.Second}[w.rng.IntN(3)]
		w.say("  rest %v", d)
		<-time.After(d)
	case 1:
		if w.full && w.rng.IntN(4) == 0 {
			return w.freeSpace()
		}
	case 2:
		if t := w.pick(func(t *track) bool { return t.seg != nil && t.now().exists }); t != nil {
			return w.readAround(t)
		}
	default:
		return w.burst()
	}
	return nil
}

// freeSpace gives the disk space, upon which appends are accepted again by
// themselves.
func (w *world) freeSpace() error {
	w.say("  somebody frees space")
	w.disk.SetCapacity(0)
	w.full = false
	<-time.After(time.Second)
	if w.stopped() {
		return nil
	}
	if err := w.everyOpenSegmentAccepts(); err != nil {
		return err
	}
	return w.afterwards()
}

// pick draws a track that fits, or none.
func (w *world) pick(fits func(*track) bool) *track {
	for range 4 {
		if len(w.tracks) == 0 {
			return nil
		}
		if t := w.tracks[w.rng.IntN(len(w.tracks))]; fits(t) {
			return t
		}
	}
	return nil
}

// afterwards checks what holds whenever the store has come to rest.
func (w *world) afterwards() error {
	if w.harm.syncFailed || w.doubtful() && !w.disk.Frozen() {
		return w.mustHaveStopped()
	}
	if w.stopped() {
		if err := w.store.Err(); err != nil && !w.harm.fired && !w.disk.Frozen() {
			return broken("the store stopped without a cause: %v", err)
		}
		return nil
	}
	if t := w.pick(func(t *track) bool { return true }); t != nil {
		return w.compare(t, t.now())
	}
	return nil
}

// doubtful says whether an answer was neither yes nor no.
func (w *world) doubtful() bool {
	for _, t := range w.tracks {
		for _, s := range t.doubt {
			if !s.weak {
				return true
			}
		}
	}
	return false
}

// mustHaveStopped shows that the store is over, once and for all.
func (w *world) mustHaveStopped() error {
	select {
	case <-w.store.Done():
	default:
		return broken("after a failed sync or an unknown outcome the store goes on")
	}
	if w.store.Err() == nil {
		return broken("the store is done and does not say why")
	}
	w.tally.count("stopped for ever")
	m := segment.Meta{ID: w.nextID, Epoch: 1}
	w.nextID++
	if _, err := w.store.Create(m); status.CodeOf(err) != status.StoreFailed {
		return broken("a stopped store answers a creation with %v", err)
	}
	for _, t := range w.tracks {
		c := t.now()
		if t.seg == nil || !c.exists || c.sealed {
			continue
		}
		info := t.seg.Info()
		err := t.seg.Append(nextBatch(w.rng, info.Epoch, t.seg.Tail()), func(error) {})
		if err == nil {
			return broken("a stopped store takes an append")
		}
	}
	return nil
}

// everyOpenSegmentAccepts appends to each segment that is not sealed.
func (w *world) everyOpenSegmentAccepts() error {
	b := &burst{w: w, closed: map[*track]bool{}, next: map[*track]content{}}
	for _, t := range w.tracks {
		if c := t.now(); c.exists && !c.sealed {
			b.append(t, c)
		}
	}
	if err := b.wait(); err != nil {
		return err
	}
	for _, a := range b.attempts {
		if a.outcome != done && !w.excused(a.err) {
			return broken("segment %v accepts nothing any more: %v", a.t.id, a.err)
		}
	}
	return b.resolve()
}

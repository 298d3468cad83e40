package segment_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// outcome is what became of a step.
type outcome uint8

const (
	pending outcome = iota
	done
	refused
	unknown
)

func (o outcome) String() string { return [...]string{"pending", "done", "refused", "unknown"}[o] }

// judge reads an answer as a client would.
func judge(err error) outcome {
	switch {
	case err == nil:
		return done
	case errors.Is(err, segment.ErrOutOfRange):
		return refused // a cut at what an append before it did not bring
	case status.Lookup(status.CodeOf(err)).Outcome == status.No:
		return refused
	default:
		return unknown
	}
}

// attempt is one step that was handed to the store.
type attempt struct {
	t       *track
	step    step
	outcome outcome
	err     error
	answers int
}

// burst hands several steps to the store at once and waits for the answers.
type burst struct {
	w        *world
	wg       sync.WaitGroup
	mu       sync.Mutex
	attempts []*attempt
	closed   map[*track]bool // no more steps in this burst
	next     map[*track]content
}

func (w *world) burst() error {
	b := &burst{w: w, closed: map[*track]bool{}, next: map[*track]content{}}
	for range 1 + w.rng.IntN([]int{10, 10, 10, 60}[w.rng.IntN(4)]) {
		b.step()
	}
	if err := b.wait(); err != nil {
		return err
	}
	for _, a := range b.attempts {
		w.say("  %v %v%s: %v%s", a.step.kind, a.t.id, describe(a.step), a.outcome, ending(a.err))
	}
	if err := b.resolve(); err != nil {
		return err
	}
	return w.afterwards()
}

// wait waits for all answers, on the clock of the bubble.
func (b *burst) wait() error {
	answered := make(chan struct{})
	go func() {
		b.wg.Wait()
		close(answered)
	}()
	select {
	case <-answered:
		settled()
		return nil
	case <-time.After(10 * time.Minute):
	}
	var waiting []string
	for _, a := range b.attempts {
		if a.outcome == pending {
			waiting = append(waiting, fmt.Sprintf("%v %v", a.step.kind, a.t.id))
		}
	}
	// With space the store must go on, or the history could not end.
	b.w.disk.SetInjector(nil)
	b.w.disk.SetCapacity(0)
	<-answered
	return broken("no answer in ten minutes to: %v", waiting)
}

func describe(s step) string {
	switch s.kind {
	case stepAppend:
		return fmt.Sprintf(" of %d bytes", len(s.batch))
	case stepCut:
		return fmt.Sprintf(" to %d batches", s.cut)
	case stepCreate:
		if s.meta.Durability.Weak {
			return fmt.Sprintf(", weak, synced every %v", s.meta.Durability.Interval)
		}
	}
	return ""
}

// step hands in one step, or none.
func (b *burst) step() {
	w := b.w
	t := w.pick(func(t *track) bool { return !b.closed[t] })
	if t == nil || w.rng.IntN(12) == 0 {
		if len(w.tracks) < w.most {
			t = &track{id: w.nextID}
			w.nextID++
			w.tracks = append(w.tracks, t)
			b.create(t)
		}
		return
	}
	c, ok := b.next[t]
	if !ok {
		c = t.now()
	}
	switch n := w.rng.IntN(20); {
	case !c.exists:
		b.create(t)
	case n == 0:
		b.delete(t)
	case c.sealed:
	case n == 1:
		b.blocking(t, step{kind: stepSeal}, func() error {
			info, err := t.seg.Seal()
			if err == nil && !info.Sealed {
				return broken("segment %v is sealed, and does not say so", t.id)
			}
			return err
		})
	case n == 2:
		keep := w.rng.IntN(len(c.batches) + 1)
		to := content{meta: c.meta, batches: c.batches[:keep]}.tail().Base
		b.blocking(t, step{kind: stepCut, cut: keep}, func() error { return t.seg.Cut(to) })
	default:
		b.append(t, c)
	}
}

func (b *burst) begin(t *track, s step) *attempt {
	a := &attempt{t: t, step: s}
	b.attempts = append(b.attempts, a)
	b.wg.Add(1)
	return a
}

func (b *burst) answer(a *attempt, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.answers++; a.answers == 1 {
		a.outcome, a.err = judge(err), err
		b.wg.Done()
	}
}

// append hands in a batch that continues what was handed in before.
func (b *burst) append(t *track, c content) {
	s := step{kind: stepAppend, batch: nextBatch(b.w.rng, c.meta.Epoch, c.tail())}
	a := b.begin(t, s)
	if err := t.seg.Append(s.batch, func(err error) { b.answer(a, err) }); err != nil {
		b.answer(a, err)
		return
	}
	b.next[t] = c.apply(s)
}

// blocking does a step whose call blocks; it is the track's last one in this
// burst.
func (b *burst) blocking(t *track, s step, call func() error) {
	b.closed[t] = true
	a := b.begin(t, s)
	go func() { b.answer(a, call()) }()
}

func (b *burst) create(t *track) {
	rng := b.w.rng
	m := segment.Meta{
		ID: t.id, Range: ident.RangeID(1 + rng.IntN(3)), Epoch: ident.Epoch(1 + rng.IntN(5)),
		Base: ident.Offset(rng.IntN(1000)), UserBefore: uint64(rng.IntN(500)), Chain: rng.Uint64(),
		NotBefore: ident.Timestamp(1 + rng.IntN(1000)),
	}
	m.Critical = rng.IntN(6) == 0
	if rng.IntN(4) == 0 {
		m.Durability = segment.Durability{Weak: true, Interval: 50 * time.Millisecond * time.Duration(rng.IntN(2))}
	}
	store := b.w.store
	b.blocking(t, step{kind: stepCreate, meta: m}, func() error {
		g, err := store.Create(m)
		if err == nil {
			t.seg = g
		}
		return err
	})
}

// delete deletes the segment, sometimes together with others.
func (b *burst) delete(t *track) {
	ids := []ident.SegmentID{t.id}
	var as []*attempt
	add := func(t *track) {
		b.closed[t] = true
		as = append(as, b.begin(t, step{kind: stepDelete}))
	}
	add(t)
	for range b.w.rng.IntN(3) {
		o := b.w.pick(func(o *track) bool { return !b.closed[o] && o.now().exists })
		if o != nil {
			add(o)
			ids = append(ids, o.id)
		}
	}
	store := b.w.store
	go func() {
		err := store.Delete(ids...)
		for _, a := range as {
			if _, there := store.Segment(a.t.id); !there && judge(err) == refused {
				b.answer(a, nil) // one of the others was refused
			} else {
				b.answer(a, err)
			}
		}
	}()
}

// resolve brings the answers into the model, segment by segment in the order
// of the calls.
func (b *burst) resolve() error {
	taken := map[*track]bool{} // a step before was refused
	for _, a := range b.attempts {
		b.w.tally.count(a.step.kind.String() + " " + a.outcome.String())
		var v *violation
		switch {
		case errors.As(a.err, &v):
			return a.err
		case a.answers != 1:
			return broken("%v %v was answered %d times", a.step.kind, a.t.id, a.answers)
		case a.outcome == refused:
			if err := b.mayRefuse(a, taken[a.t]); err != nil {
				return err
			}
			taken[a.t] = true
		case a.step.kind == stepAppend && taken[a.t]:
			if a.outcome == done {
				return broken("segment %v acknowledged an append behind one that it refused", a.t.id)
			}
		case a.outcome == done:
			a.t.answered(a.step)
		default:
			a.t.unsure(a.step)
		}
	}
	return nil
}

// mayRefuse says whether a refusal had a cause.
func (b *burst) mayRefuse(a *attempt, behindRefused bool) error {
	w := b.w
	// A delete overtakes the appends that wait.
	deleted := slices.ContainsFunc(b.attempts, func(o *attempt) bool {
		return o.t == a.t && o.step.kind == stepDelete
	})
	if w.excused(a.err) || behindRefused || deleted {
		return nil
	}
	return broken("%v %v was refused without a cause: %v", a.step.kind, a.t.id, a.err)
}

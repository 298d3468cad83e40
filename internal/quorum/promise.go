package quorum

import (
	"slices"

	"github.com/quirelog/quire/internal/ident"
)

// maxFences bounds the fences that wait for an answer: more candidates than that
// at one time are told nothing and ask again.
const maxFences = 16

// waitingFence is a fence that is not answered yet.
type waitingFence struct {
	ask Message
	// after is the write that must be durable, until the instant before which a
	// lease of the holder may be valid.
	after uint64
	until Instant
	tail  Tail // only of a broken ruleFenceTail
}

// promiseTo refuses from now on what is below an epoch, and makes that durable.
func (r *Range) promiseTo(e ident.Epoch) {
	r.promise = max(r.promise, e)
	if r.promise > r.promising && !r.cfg.breaks(ruleDurablePromise) {
		r.promising = r.promise
		r.write(Write{Kind: WritePromise, Promise: r.promise}, nil)
	}
}

// refuseBelow answers what is of an epoch below the promise.
func (r *Range) refuseBelow(m *Message, kind Kind) {
	a := m.answer(kind)
	a.Refusal, a.Promise = Below, r.promise
	r.send(a)
}

// fence promises (R6). What was accepted before is on its way to the disk before
// the promise is, so that the answer, which waits for the promise, has it.
func (r *Range) fence(m *Message) {
	if m.Epoch < r.promise {
		r.refuseBelow(m, Fenced)
		return
	}
	c := r.copyOf(m)
	if c == nil {
		return
	}
	until := r.cfg.Leases.fence(r.now, Exception{r.cfg.Range, m.Epoch}, m.Owner, m.Holder)
	r.promiseTo(m.Epoch)
	w := waitingFence{ask: *m, after: r.serial, until: until, tail: c.durable}
	i := slices.IndexFunc(r.fences, func(f waitingFence) bool { return f.ask.From == m.From })
	switch {
	case i >= 0 && r.fences[i].ask.Epoch == m.Epoch && r.fences[i].ask.Segment.ID == m.Segment.ID && r.fences[i].ask.Owner == m.Owner:
		return // asked again; the first one is answered
	case i >= 0:
		r.fences[i] = w
	case len(r.fences) < maxFences:
		r.fences = append(r.fences, w)
	}
	r.answerFences()
}

// answerFences answers those whose time has come.
func (r *Range) answerFences() {
	r.fences = slices.DeleteFunc(r.fences, func(f waitingFence) bool {
		if f.after > r.stored || r.now < f.until {
			return false
		}
		r.answerFence(&f)
		return true
	})
}

func (r *Range) answerFence(f *waitingFence) {
	m := &f.ask
	a := m.answer(Fenced)
	a.Promise = r.promise
	switch c := r.copies[m.Segment.ID]; {
	case m.Epoch < r.promise:
		a.Refusal = Below
	case c == nil || c.seal != nil:
		a.Refusal = Closed
	case c.damaged && !r.cfg.breaks(ruleDamaged):
		a.Refusal = CannotVouch
	case !c.created:
		return // there was no room for it; it is asked again
	default:
		a.Tail, a.Next = c.durable, c.written.End
		if r.cfg.breaks(ruleFenceTail) {
			a.Tail = f.tail
		}
	}
	r.send(a)
}

// dropFences forgets those that rest on a write that was not made. They are
// asked again.
func (r *Range) dropFences(serial uint64) {
	r.fences = slices.DeleteFunc(r.fences, func(f waitingFence) bool { return f.after >= serial })
}

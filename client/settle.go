package client

import (
	"errors"
	"slices"
	"time"

	"github.com/quirelog/quire/status"
)

// ground takes a batch back that was refused for now, or whose connection
// broke, to send it again: the broker recognizes what it has. It is false if
// another try would end in the same way. The batch keeps its place in flight.
func (p *Producer) ground(k *pack, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	broken, is := asBroken(err)
	switch {
	case k.state != flying || p.ctx.Err() != nil:
		return false
	case !is && !passing(err), is && final(broken.cause):
		return false
	case !is:
		k.refusal = err
	case broken.sent && k.unknown.IsZero():
		k.unknown = time.Now()
	}
	var moved *movedError
	if errors.As(err, &moved) {
		p.learn(moved.cuts)
	}
	k.state, p.returned = grounded, true
	p.flying--
	signal(p.wake)
	return true
}

// retryTime is how long a batch is sent again whose outcome is not known. A
// broker remembers what it has had from a producer for longer.
const retryTime = time.Hour

// regrouping says whether batches came back since the last regroup.
func (p *Producer) regrouping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.returned
}

// regroup is called when all batches have landed, and gives the first refusal of
// those that came back, if there is one. What came back too often stays unknown.
// The caller holds the lock.
func (p *Producer) regroup() (refusal error) {
	p.returned = false
	for _, k := range p.flight {
		switch {
		case k.state != grounded:
		case !k.unknown.IsZero() && time.Since(k.unknown) > retryTime:
			k.settle(status.New(status.Unknown, "no answer to a request that was sent again for %s", retryTime))
			signal(p.settledAny)
		case refusal == nil:
			refusal = k.refusal
		}
	}
	return refusal
}

// settle notes the outcome of a batch in flight; the first one stays.
func (p *Producer) settle(k *pack, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch k.state {
	case settled:
		return
	case flying:
		p.flying--
	}
	k.settle(err)
	if status.CodeOf(k.err) != status.Unknown {
		p.patience.calm()
	}
	signal(p.wake)
	signal(p.settledAny)
}

// giveUp fails everything that the connection does not have.
func (p *Producer) giveUp(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turnAll()
	for _, k := range p.flight {
		if k.state == grounded {
			k.settle(err)
		}
	}
	for _, k := range p.ready {
		if k.builder != nil {
			p.spare(k)
		}
		k.settle(err)
		p.flight = append(p.flight, k)
	}
	p.ready = nil
	signal(p.settledAny)
}

// end lets nothing more come in and settles all that is left.
func (p *Producer) end() {
	p.mu.Lock()
	p.ended = true
	p.wakeWaiters()
	for _, k := range p.flight {
		if k.state == flying {
			k.settle(unknown("no answer to a request that was sent", closedError("producer")))
		}
	}
	p.flying = 0
	p.mu.Unlock()
	p.giveUp(p.lost())
}

// complete runs callbacks in order, as the batches at the front are settled,
// until stopped is closed and none is left.
func (p *Producer) complete(stopped <-chan struct{}) {
	var c completion
	for {
		for c.some(p) {
		}
		select {
		case <-p.settledAny:
		case <-stopped:
			for c.some(p) {
			}
			return
		}
	}
}

// completion is what is completed at a time. With many lanes the records of one
// batch are far apart in the order, so that their spans are small: many are taken
// for each time that the lock is.
type completion struct{ spans []completing }

// completing is a span with its callbacks.
type completing struct {
	span
	dones []func(error)
	whole bool // nothing of the pack is left
}

// maxCompletion bounds the spans that are completed at a time.
const maxCompletion = 1024

// some runs the callbacks of the records at the front of the order that are
// settled, of some of them at least if there are any.
func (c *completion) some(p *Producer) bool {
	c.take(p)
	if len(c.spans) == 0 {
		return false
	}
	for i := range c.spans {
		s := &c.spans[i]
		for _, done := range s.dones {
			if done != nil {
				done(s.k.err)
			}
		}
	}
	c.settle(p)
	return true
}

// take takes settled spans off the order.
func (c *completion) take(p *Producer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.order[:min(len(p.order), maxCompletion)] {
		k := s.k
		if k.state != settled {
			break
		}
		from := min(k.completed, len(k.dones))
		k.completed += s.n
		to := min(k.completed, len(k.dones))
		c.spans = append(c.spans, completing{s, k.dones[from:to], k.completed == k.records})
	}
	clear(p.order[:len(c.spans)])
	p.order = p.order[len(c.spans):]
}

// settle notes that the callbacks have run.
func (c *completion) settle(p *Producer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range c.spans {
		s := &c.spans[i]
		p.completed += uint64(s.n)
		if s.k.err != nil {
			if p.failed == 0 {
				p.first = s.k.err
			}
			p.failed += uint64(s.n)
		}
		if s.whole {
			p.buffered -= s.k.bytes
			p.forget(s.k)
		}
	}
	p.wakeWaiters()
	clear(c.spans)
	c.spans = c.spans[:0]
}

// forget takes a pack that is completed out of flight. The caller holds the
// lock.
func (p *Producer) forget(k *pack) {
	if i := slices.Index(p.flight, k); i >= 0 {
		p.flight = slices.Delete(p.flight, i, i+1)
	}
}

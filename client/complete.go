package client

import "slices"

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

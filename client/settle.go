package client

import "github.com/quirelog/quire/status"

// ground takes a batch back from a broken connection, to send it again. It is
// false if that is not allowed.
func (p *Producer) ground(k *pack, broken *brokenError) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.state != flying || p.ctx.Err() != nil || final(broken.cause) {
		return false
	}
	if broken.sent && k.tries > p.cfg.retries {
		return false
	}
	if !broken.sent {
		k.tries--
	}
	k.state = grounded
	p.flying--
	signal(p.wake)
	return true
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
	k.state, k.err = settled, err
	if status.CodeOf(err) != status.Unknown {
		p.patience.calm()
	}
	signal(p.wake)
	signal(p.settledAny)
}

// giveUp fails everything that is not in flight.
func (p *Producer) giveUp(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur.records > 0 {
		p.turn()
	}
	for _, k := range p.ready {
		if k.builder != nil {
			k.builder.Reset(p.cfg.batchOptions())
			p.spare(k)
		}
		k.state, k.err = settled, err
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
		switch k.state {
		case flying:
			k.err = outcome(&brokenError{cause: closedError("producer"), sent: true}, true)
		case grounded:
			k.err = p.lost()
		}
		k.state = settled
	}
	p.flying = 0
	p.mu.Unlock()
	p.giveUp(p.lost())
}

// complete runs callbacks in order, as the batches at the front are settled,
// until stopped is closed and none is left.
func (p *Producer) complete(stopped <-chan struct{}) {
	for {
		for p.completeFirst() {
		}
		select {
		case <-p.settledAny:
		case <-stopped:
			for p.completeFirst() {
			}
			return
		}
	}
}

// completeFirst runs the callbacks of the batch at the front, if it is
// settled.
func (p *Producer) completeFirst() bool {
	p.mu.Lock()
	if len(p.flight) == 0 || p.flight[0].state != settled {
		p.mu.Unlock()
		return false
	}
	k := p.flight[0]
	p.flight[0] = nil
	p.flight = p.flight[1:]
	p.mu.Unlock()

	for _, done := range k.dones {
		done(k.err)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.completed = k.last
	p.buffered -= k.bytes
	if k.err != nil {
		if p.failed == 0 {
			p.first = k.err
		}
		p.failed += uint64(k.records)
	}
	p.wakeWaiters()
	return true
}

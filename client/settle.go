package client

import (
	"errors"
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

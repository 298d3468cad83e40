package client

import (
	"bytes"
	"slices"
	"time"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/status"
)

// smallFlight is how many batches may be under way when one more is sent that
// is not full. With one at the broker's disk and one waiting for it, the disk
// never waits for the client, and nothing is gained by more: they would wait
// there rather than grow here.
const smallFlight = 2

// run is the producer's task: it sends until the producer ends, then gives up
// what is left. Callbacks run beside it.
func (p *Producer) run() {
	completed := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(completed)
		p.complete(stopped)
	}()
	var cn *conn
	for p.ctx.Err() == nil && p.wait(p.due) {
		if cn == nil || cn.broken() || p.regrouping() {
			// What comes back is sent again before anything else, and a new
			// connection is used when the old one has nothing left.
			if !p.wait(p.landed) {
				break
			}
			var err error
			if cn, err = p.resume(cn); err != nil {
				p.giveUp(err)
				continue
			}
		}
		p.send(cn)
	}
	p.end()
	close(stopped)
	<-completed
	close(p.done)
}

// resume gives a connection on which to go on, after a pause if the broker
// refused what came back.
//
// How long there is trouble counts from the last answer on, so that
// connections that break at once do not keep records for ever.
func (p *Producer) resume(cn *conn) (*conn, error) {
	p.mu.Lock()
	refusal := p.regroup()
	patience := p.patience
	p.mu.Unlock()
	var err error
	switch {
	case refusal != nil && !patience.bear(p.ctx, refusal, p.c.cfg.reconnectTimeout):
		err = refusal
	case cn == nil || cn.broken():
		cn, err = p.c.link.get(p.ctx, &patience)
	}
	if err == nil {
		err = p.begin()
	}
	if err != nil {
		patience.calm() // what comes next has waited for nothing yet
	}
	p.mu.Lock()
	p.patience = patience
	p.mu.Unlock()
	return cn, err
}

// wait waits until ready says so. It is false when the producer ends. ready is
// called with the lock, and says how long to wait at most if it is a matter of
// time.
func (p *Producer) wait(ready func() (bool, time.Duration)) bool {
	for {
		p.mu.Lock()
		ok, after := ready()
		p.mu.Unlock()
		if ok {
			return true
		}
		if p.sealAhead() {
			continue
		}
		var timeout <-chan time.Time
		if after > 0 {
			timeout = time.After(after)
		}
		select {
		case <-p.wake:
		case <-timeout:
		case <-p.ctx.Done():
			return false
		}
	}
}

// due says whether there is something to send now.
func (p *Producer) due() (bool, time.Duration) {
	switch {
	case p.returned:
		return true, 0
	case p.flying >= p.cfg.maxInFlight:
		return false, 0
	case p.flying < len(p.flight) && p.grounded() != nil:
		return true, 0
	case len(p.ready) > 0:
		return p.follows(p.ready[0]), 0
	}
	_, k := p.oldest()
	switch {
	case k == nil || !p.follows(k):
		return false, 0
	case p.flushTo >= k.first:
		return true, 0
	case p.flying >= smallFlight:
		return false, 0
	case p.cfg.linger == 0:
		return true, 0
	}
	left := p.cfg.linger - time.Since(k.since)
	return left <= 0, left
}

// landed says whether the connection has no batch any more.
func (p *Producer) landed() (bool, time.Duration) { return p.flying == 0, 0 }

// grounded is the first batch that is to be sent again.
func (p *Producer) grounded() *pack {
	for _, k := range p.flight {
		if k.state == grounded {
			return k
		}
	}
	return nil
}

// send sends the next batch, if one is still due.
func (p *Producer) send(cn *conn) {
	k := p.launch()
	if k == nil {
		return
	}
	err := p.finish(k)
	if err != nil {
		p.settle(k, err)
		return
	}
	p.topic.Bands = uint32(k.bands)
	_, err = cn.start(p.ctx, wire.TypeProduceRequest, p.topic, k.payload, k)
	if err == nil {
		return
	}
	if p.ctx.Err() != nil {
		err = p.lost()
	}
	k.fail(err)
}

// seal makes the batch of a pack that gathers no more, and says whether it did.
func (p *Producer) seal(k *pack) bool {
	if k.builder == nil {
		return false
	}
	k.payload = k.builder.Finish()
	p.mu.Lock()
	p.spare(k)
	p.mu.Unlock()
	return true
}

// finish makes the payload of a pack that is launched what its fields say.
func (p *Producer) finish(k *pack) (err error) {
	if k.sent {
		k.payload = bytes.Clone(k.payload) // a broken connection may still read it
	}
	if !p.seal(k) {
		err = k.fields.Renew(k.payload)
	}
	k.sent = true
	return asStatus(status.Internal, err)
}

// sealAhead seals a pack that must wait. So there are few builders, which stay
// in the processor's cache, however much is buffered. It says whether there
// was one.
func (p *Producer) sealAhead() bool {
	p.mu.Lock()
	i := slices.IndexFunc(p.ready, func(k *pack) bool { return k.builder != nil })
	var k *pack
	if i >= 0 {
		k = p.ready[i]
	}
	p.mu.Unlock()
	if k == nil {
		return false
	}
	p.seal(k)
	return true
}

// launch takes the next batch into flight.
func (p *Producer) launch() *pack {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.returned {
		return nil // something came back meanwhile, and goes first
	}
	k := p.grounded()
	if k == nil {
		if len(p.ready) == 0 {
			if lane, k := p.oldest(); k != nil {
				p.turn(lane)
			}
		}
		if len(p.ready) == 0 {
			return nil
		}
		k = p.ready[0]
		p.ready[0] = nil
		p.ready = p.ready[1:]
		p.flight = append(p.flight, k)
	}
	if p.straddles(k) {
		k = p.divide(k)
	}
	p.number(k)
	k.state, k.refusal, k.bands = flying, nil, len(p.lanes)
	p.flying++
	return k
}

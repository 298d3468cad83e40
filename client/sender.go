package client

import (
	"slices"
	"time"

	"github.com/quirelog/quire/internal/wire"
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
	for p.ctx.Err() == nil {
		if !p.wait(p.due) {
			break
		}
		if cn == nil || cn.broken() {
			// A batch of the old connection may have to be sent again, before
			// any other: a new one is used when all of the old one is settled.
			cn = nil
			if !p.wait(p.landed) {
				break
			}
			var err error
			if cn, err = p.connect(); err != nil {
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

// connect gives a connection. How long there was none counts from the last
// answer on, so that connections that break at once do not keep records for
// ever.
func (p *Producer) connect() (*conn, error) {
	p.mu.Lock()
	patience := p.patience
	p.mu.Unlock()
	cn, err := p.c.link.get(p.ctx, &patience)
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

// due says whether there is a batch to send now.
func (p *Producer) due() (bool, time.Duration) {
	switch {
	case len(p.flight) > 0 && p.flying < len(p.flight) && p.grounded():
		return true, 0
	case p.flying >= p.cfg.maxInFlight:
		return false, 0
	case len(p.ready) > 0:
		return true, 0
	case p.cur.records == 0:
		return false, 0
	case p.flushTo >= p.cur.last-uint64(p.cur.records)+1:
		return true, 0
	case p.flying >= smallFlight:
		return false, 0
	case p.cfg.linger == 0:
		return true, 0
	}
	left := p.cfg.linger - time.Since(p.cur.since)
	return left <= 0, left
}

// grounded says whether a batch is to be sent again.
func (p *Producer) grounded() bool {
	for _, k := range p.flight {
		if k.state == grounded {
			return true
		}
	}
	return false
}

// landed says whether the connection has no batch any more, and puts those
// that are to be sent again before those that never were.
func (p *Producer) landed() (bool, time.Duration) {
	if p.flying > 0 {
		return false, 0
	}
	var again, rest []*pack
	for _, k := range p.flight {
		if k.state == grounded {
			k.state = gathering
			again = append(again, k)
		} else {
			rest = append(rest, k)
		}
	}
	if len(again) > 0 {
		p.flight = rest
		p.ready = append(again, p.ready...)
	}
	return true, 0
}

// send sends the next batch, if one is still due.
func (p *Producer) send(cn *conn) {
	k := p.launch()
	if k == nil {
		return
	}
	p.seal(k)
	if _, err := cn.start(p.ctx, wire.TypeProduceRequest, p.topic, k.payload, k); err != nil {
		if broken, is := asBroken(err); is {
			p.ground(k, broken)
			return
		}
		p.settle(k, p.lost())
	}
}

// seal makes the batch of a pack that gathers no more.
func (p *Producer) seal(k *pack) {
	if k.builder == nil {
		return
	}
	k.payload = k.builder.Finish()
	p.mu.Lock()
	p.spare(k)
	p.mu.Unlock()
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
	if len(p.ready) == 0 {
		if p.cur.records == 0 {
			return nil
		}
		p.turn()
	}
	k := p.ready[0]
	p.ready[0] = nil
	p.ready = p.ready[1:]
	k.state = flying
	k.tries++
	p.flight = append(p.flight, k)
	p.flying++
	return k
}

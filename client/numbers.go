package client

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/producers"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// A producer numbers its records in the order of Send, and says in each batch
// where it is in that order, by the rules P of the protocol. So the broker
// recognizes what it has, and takes nothing before what comes first.

// drawID is the identity of a producer that nobody has named.
func drawID() batch.ProducerID {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return producers.DrawnID(random)
}

// begin makes the identity of the producer. It asks the broker for that of one
// that has a name.
func (p *Producer) begin() error {
	if p.session > 0 {
		return nil
	}
	id, session := drawID(), uint64(1)
	if p.cfg.name != "" {
		var err error
		if id, session, err = p.open(); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.session = id, session
	return nil
}

// open begins a session of a producer that has a name.
func (p *Producer) open() (id batch.ProducerID, session uint64, err error) {
	var resp quirev1.OpenProducerResponse
	_, err = p.c.do(p.ctx, call{
		typ:   wire.TypeOpenProducerRequest,
		req:   &quirev1.OpenProducerRequest{Topic: p.topic.Topic, Name: p.cfg.name},
		want:  wire.TypeOpenProducerResponse,
		resp:  &resp,
		again: always, // a session more does no harm
		doing: "opening a producer",
	})
	if err != nil {
		return id, 0, err
	}
	if len(resp.Producer) != len(id) || resp.Session == 0 {
		return id, 0, status.New(status.ProtocolViolation, "the broker gave no producer")
	}
	return batch.ProducerID(resp.Producer), resp.Session, nil
}

// positionOf is where a record is in the keyspace.
func (p *Producer) positionOf(key []byte, sequence uint64) ident.Position {
	if key == nil {
		return producers.KeylessPosition(p.id, p.session, sequence)
	}
	return keyspace.PositionOf(key)
}

// bandOf is what a lane takes.
func (p *Producer) bandOf(lane int) keyspace.Band {
	band := keyspace.Full()
	if lane > 0 {
		band.First = p.cuts[lane-1]
	}
	if lane < len(p.cuts) {
		band.Last = p.cuts[lane] - 1
	}
	return band
}

// number sets the fields of a batch that is sent now.
func (p *Producer) number(k *pack) {
	k.fields = batch.Producer{ID: p.id, Session: p.session, First: k.first, Band: k.band}
	k.fields.Floor, k.fields.Prev = p.before(k)
}

// before says what comes before the batch k in its band: up to the floor all is
// settled, and prev is the last that is not. What was given up counts as not
// settled until the floor has passed it, since it may still arrive.
func (p *Producer) before(k *pack) (floor, prev uint64) {
	floor = k.first - 1
	for _, o := range p.flight {
		_, both := o.band.Intersect(k.band)
		switch {
		case !both || o.first >= k.first:
		case o.state != settled:
			floor = min(floor, o.first-1)
			prev = max(prev, o.last)
		case o.err != nil:
			prev = max(prev, o.last)
		}
	}
	// Of bands that were cut, the last of what is before may come after the first.
	return floor, max(floor, min(prev, k.first-1))
}

// follows says whether a batch may be sent now: what was gathered by other cuts
// is settled before. So all that is not settled in a band was cut by the same
// ones.
func (p *Producer) follows(k *pack) bool {
	for _, o := range p.flight {
		if o.state != settled {
			return o.era == k.era
		}
	}
	return true
}

// farewellTime is how long a broker may take over a farewell.
const farewellTime = time.Second

// farewell lets the broker forget a producer that sends nothing more. Without it
// the broker does so later by itself.
func (p *Producer) farewell(ctx context.Context) {
	if p.accepted == 0 || p.cfg.name != "" {
		return // there is nothing to forget, or it is remembered for the next one
	}
	cn := p.c.link.present()
	if cn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewellTime)
	defer cancel()
	bye := call{
		typ:   wire.TypeCloseProducerRequest,
		req:   &quirev1.CloseProducerRequest{Topic: p.topic.Topic, Producer: p.id[:], Session: p.session},
		want:  wire.TypeCloseProducerResponse,
		resp:  &quirev1.CloseProducerResponse{},
		doing: "closing a producer",
	}
	_, _ = bye.on(ctx, cn)
}

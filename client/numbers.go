package client

import (
	"context"
	"crypto/rand"
	"slices"
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
	if p.cfg.name == "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.id, p.session = drawID(), 1
		return nil
	}
	var resp quirev1.OpenProducerResponse
	_, err := p.c.do(p.ctx, call{
		typ:   wire.TypeOpenProducerRequest,
		req:   &quirev1.OpenProducerRequest{Topic: p.topic.Topic, Name: p.cfg.name},
		want:  wire.TypeOpenProducerResponse,
		resp:  &resp,
		again: always, // a session more does no harm
		doing: "opening a producer",
	})
	if err != nil {
		return err
	}
	if len(resp.Producer) != len(p.id) || resp.Session == 0 {
		return status.New(status.ProtocolViolation, "the broker gave no producer")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.session = batch.ProducerID(resp.Producer), resp.Session
	return nil
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

// straddles says whether a batch has records of several lanes.
func (p *Producer) straddles(k *pack) bool {
	return len(p.cuts) > 0 && p.laneAt(k.band.First) != p.laneAt(k.band.Last)
}

// divide puts batches in the place of one that straddles, one for each lane, and
// gives the first of them. They are all in flight, the others as if they had
// come back. The caller holds the lock.
func (p *Producer) divide(k *pack) *pack {
	if k.builder != nil {
		k.payload = k.builder.Finish()
		p.spare(k)
	}
	var r batch.Reader
	if err := r.Reset(k.payload); err != nil {
		panic("client: a producer cannot read its own batch: " + err.Error())
	}
	var parts []*pack
	byLane := map[int]*pack{}
	homes := make([]*pack, 0, k.records)
	for r.Next() {
		v := r.Record()
		lane := p.laneAt(p.positionOf(v.Key, v.Sequence))
		part := byLane[lane]
		if part == nil {
			part = p.partOf(k, lane, v.Sequence)
			byLane[lane] = part
			parts = append(parts, part)
		}
		if err := part.builder.AddView(v); err != nil {
			panic("client: a producer cannot write its own record: " + err.Error())
		}
		part.take(k, len(homes), v.Sequence)
		homes = append(homes, part)
	}
	left := k.bytes
	for _, part := range parts {
		part.payload, part.builder = part.builder.Finish(), nil
		part.bytes = k.bytes * part.records / k.records
		left -= part.bytes
	}
	parts[0].bytes += left
	p.reorder(k, homes)
	i := slices.Index(p.flight, k)
	p.flight = slices.Replace(p.flight, i, i+1, parts...)
	return parts[0]
}

// partOf begins the part of k that a lane takes.
func (p *Producer) partOf(k *pack, lane int, first uint64) *pack {
	part := &pack{p: p, era: k.era, state: grounded, first: first, since: k.since, unknown: k.unknown}
	part.band, _ = p.bandOf(lane).Intersect(k.band)
	part.builder = batch.NewBuilder(p.cfg.batchOptions(&part.fields))
	return part
}

// take adds record i of another pack, with its callback.
func (k *pack) take(whole *pack, i int, sequence uint64) {
	k.last = sequence
	if i < len(whole.dones) && whole.dones[i] != nil {
		for len(k.dones) < k.records {
			k.dones = append(k.dones, nil)
		}
		k.dones = append(k.dones, whole.dones[i])
	}
	k.records++
}

// reorder says in the order of Send where the records of k are now.
func (p *Producer) reorder(k *pack, homes []*pack) {
	order := make([]span, 0, len(p.order)+len(homes))
	for _, s := range p.order {
		if s.k != k {
			order = append(order, s)
			continue
		}
		for _, part := range homes[:s.n] {
			if n := len(order); n > 0 && order[n-1].k == part {
				order[n-1].n++
			} else {
				order = append(order, span{part, 1})
			}
		}
		homes = homes[s.n:]
	}
	p.order = order
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

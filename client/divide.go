package client

import (
	"slices"

	"github.com/quirelog/quire/internal/batch"
)

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

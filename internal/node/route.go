package node

import (
	"errors"
	"slices"
	"sync"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// nowhere is the span of no keys.
var nowhere = keyspace.Band{First: 1}

// part is what one leaf takes of a batch.
type part struct {
	to *rng
	p  pending
}

// append hands a batch to the leaf that has its keys.
func (t *topic) append(p pending) {
	parts, err := t.state.Load().route(t, &p)
	if err != nil {
		t.b.refuse(&p, err)
		return
	}
	for i := range parts {
		t.appendPart(parts[i])
	}
}

func (t *topic) appendPart(x part) {
	err := x.to.append(x.p)
	switch {
	case errors.Is(err, errMoved):
		// The range was split or merged since it was picked; its keys are in
		// the ranges that continue it.
		t.refresh()
		t.append(x.p)
	case err != nil:
		t.b.refuse(&x.p, err)
	}
}

// refuse answers an append that was not made.
func (b *Broker) refuse(p *pending, err error) {
	b.metrics.produceErrors.Inc()
	p.numbered.release()
	p.done(ProduceResult{}, err)
}

// route finds the leaf for a batch; one without keys goes to each leaf in turn.
// A batch whose keys are in several leaves is cut into one for each, in the
// order of its records.
func (s *topicState) route(t *topic, p *pending) ([]part, error) {
	if len(s.leaves) == 1 {
		return []part{{s.leaves[0], *p}}, nil
	}
	if !p.located {
		// The topic was split since the batch was checked.
		if _, err := batch.Validate(p.batch, batch.Limits{Span: &p.span}); err != nil {
			return nil, invalidBatch(err)
		}
		p.located = true
	}
	if !p.span.Valid() {
		return []part{{s.leaves[t.turn.Add(1)%uint64(len(s.leaves))], *p}}, nil
	}
	if r := s.leaf(p.span.First); r.band.Contains(p.span.Last) {
		return []part{{r, *p}}, nil
	}
	if p.numbered != nil {
		return nil, s.moved()
	}
	return s.cut(p)
}

// hint says where a client that cuts into so many bands is to cut, if that is
// not as it does.
func (s *topicState) hint(bands int, span keyspace.Band) []ident.Position {
	switch {
	case bands == 0:
		return nil
	case bands != len(s.leaves):
		return s.cuts
	case len(s.leaves) > 1 && span.Valid() && !s.leaf(span.First).band.Contains(span.Last):
		return s.cuts
	}
	return nil
}

// cut makes a batch for each leaf that has keys of p. Records without a key
// stay with the one before them.
func (s *topicState) cut(p *pending) ([]part, error) {
	type target struct {
		to      *rng
		builder *batch.Builder
		span    keyspace.Band
		records int
	}
	var r batch.Reader
	if err := r.Reset(p.batch); err != nil {
		return nil, invalidBatch(err)
	}
	options := batch.Options{Compression: r.Header().Compression}
	var targets []*target
	known := map[*rng]*target{}
	find := func(to *rng) *target {
		x := known[to]
		if x == nil {
			x = &target{to: to, builder: batch.NewBuilder(options), span: nowhere}
			known[to] = x
			targets = append(targets, x)
		}
		return x
	}
	at := find(s.leaf(p.span.First))
	for r.Next() {
		rec := r.Record()
		if rec.Key != nil {
			pos := keyspace.PositionOf(rec.Key)
			at = find(s.leaf(pos))
			at.span = at.span.With(pos)
		}
		if err := at.builder.AddView(rec); err != nil {
			return nil, invalidBatch(err)
		}
		at.records++
	}
	if err := r.Err(); err != nil {
		return nil, invalidBatch(err)
	}
	all := &joined{left: len(targets), done: p.done}
	parts := make([]part, 0, len(targets))
	for _, x := range targets {
		if x.records == 0 {
			all.left-- // only records without a key were to follow it
			continue
		}
		part := part{x.to, *p}
		part.p.batch, part.p.span, part.p.records, part.p.done = x.builder.Finish(), x.span, x.records, all.one
		parts = append(parts, part)
	}
	return parts, nil
}

// joined answers for a batch that was cut, when all its parts are answered: as
// the first that failed, else with the latest time. Parts are all or none each.
type joined struct {
	mu    sync.Mutex
	left  int
	last  ident.Timestamp
	first error
	done  func(ProduceResult, error)
}

func (j *joined) one(res ProduceResult, err error) {
	j.mu.Lock()
	j.left--
	j.last = max(j.last, res.AppendTime)
	if err != nil && j.first == nil {
		j.first = err
	}
	over := j.left == 0
	j.mu.Unlock()
	if !over {
		return
	}
	if j.first != nil {
		j.done(ProduceResult{}, j.first)
		return
	}
	j.done(ProduceResult{AppendTime: j.last}, nil)
}

// handOver takes what waits at the ranges that have ended, in its order, to
// those that continue them, before anybody else can append there: next is not
// to be seen yet. What it gives is to be called when it is.
func (t *topic) handOver(before, next *topicState) (then func()) {
	var refused []func()
	begun := t.inherit(before, next)
	for _, r := range before.leaves {
		if cr, ok := next.info.Range(r.id); ok && !cr.Sealed() {
			continue
		}
		r.mu.Lock()
		waiting := r.waiting
		r.waiting, r.ended = nil, errMoved
		r.rest()
		r.mu.Unlock()
		for _, p := range waiting {
			t.b.waitingBytes.Add(-p.size())
			parts, err := next.route(t, &p)
			if err != nil {
				refused = append(refused, func() { t.b.refuse(&p, err) })
				continue
			}
			for _, x := range parts {
				t.b.waitingBytes.Add(x.p.size())
				x.to.waiting = append(x.to.waiting, x.p)
				if !slices.Contains(begun, x.to) {
					begun = append(begun, x.to)
				}
			}
		}
	}
	return func() {
		for _, r := range begun {
			r.mu.Lock()
			r.succeed(succeedOpen)
			r.mu.Unlock()
		}
		for _, f := range refused {
			f()
		}
		t.news.tell()
	}
}

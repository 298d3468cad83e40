package node

import (
	"fmt"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/producers"
	"github.com/quirelog/quire/internal/segment"
)

// recall folds what a range knows of producers from its log. The last segment
// that has anything has it all: the state before it stands at its head. Only if a
// crash cut that off, or before a range has anything of its own, it is what came
// before.
func (t *topic) recall(info *catalog.Topic, cr *catalog.Range) (*producers.State, error) {
	for _, g := range slices.Backward(segmentsOf(cr)) {
		seg, ok := t.b.store.Segment(g.ID)
		if !ok {
			continue
		}
		state, err := recallFrom(seg, cr)
		if err != nil {
			return nil, fmt.Errorf("recall the producers of range %v: %w", cr.ID, err)
		}
		if state != nil {
			return state, nil
		}
	}
	var parents []*producers.State
	var last ident.Timestamp
	for _, id := range cr.Parents {
		parent, ok := info.Range(id)
		if !ok {
			break // forgotten, and its producers with it
		}
		state, err := t.recall(info, parent)
		if err != nil {
			return nil, err
		}
		parents, last = append(parents, state), max(last, parent.LastTime)
	}
	if len(parents) == 0 || len(parents) < len(cr.Parents) {
		return producers.New(cr.ID, cr.Band), nil
	}
	return continued(parents, cr.ID, cr.Band, last)
}

// recallFrom folds a segment, from the last place on at which the state stands in
// it. It gives none if the segment does not have all of it.
func recallFrom(seg *segment.Segment, cr *catalog.Range) (*producers.State, error) {
	info := seg.Info()
	if info.Tail.Base == info.Base {
		return nil, nil
	}
	from, err := lastCarried(seg, &info)
	if err != nil {
		return nil, err
	}
	state, err := fold(seg, from, info.Tail.Base, cr)
	if err == nil && from > info.Base && !state.Complete() {
		// A crash cut it off there: what came before has it all.
		state, err = fold(seg, info.Base, info.Tail.Base, cr)
	}
	if err != nil || !state.Complete() {
		return nil, err
	}
	return state, nil
}

// fold gives the state of producers that a stretch of a segment tells of.
func fold(seg *segment.Segment, from, to ident.Offset, cr *catalog.Range) (*producers.State, error) {
	state := producers.New(cr.ID, cr.Band)
	for b, err := range seg.Scan(from, to) {
		if err != nil {
			return nil, err
		}
		h, err := batch.ParseHeader(b)
		if err == nil && (h.HasProducer || h.Kind == batch.Control) {
			err = state.Fold(b)
		}
		if err != nil {
			return nil, err
		}
	}
	return state, nil
}

// lastCarried finds where the state of producers stands in a segment for the last
// time, or the segment's beginning. It looks at the end first, then at twice as
// much before that, and so on.
func lastCarried(seg *segment.Segment, info *segment.Info) (ident.Offset, error) {
	const firstShare = 32
	end := info.Tail.Base
	for share := max((end-info.Base)/firstShare, 1); end > info.Base; share *= 2 {
		begin := max(end, info.Base+share) - share
		found := info.Base
		for b, err := range seg.Scan(begin, end) {
			if err != nil {
				return 0, err
			}
			h, err := batch.ParseHeader(b)
			if err != nil {
				return 0, err
			}
			if h.Kind == batch.Control && producers.Begins(b) {
				found = h.Base
			}
		}
		if found > info.Base {
			return found, nil
		}
		end = begin
	}
	return info.Base, nil
}

// inherit gives the ranges that continue others the state of producers that
// those have, as far as it is known here; the log has the rest. The ranges
// before take no appends any more, and nobody sees next yet.
func (t *topic) inherit(before, next *topicState) (heirs []*rng) {
	for _, r := range next.leaves {
		if slices.Contains(before.leaves, r) {
			continue
		}
		cr, _ := next.info.Range(r.id)
		var parents []*producers.State
		var last ident.Timestamp
		for _, id := range cr.Parents {
			i := slices.IndexFunc(before.leaves, func(p *rng) bool { return p.id == id })
			parent, ok := next.info.Range(id)
			if i < 0 || !ok {
				continue
			}
			p := before.leaves[i]
			p.mu.Lock()
			if p.forgetFrom(parent.End()); p.producers != nil {
				parents, last = append(parents, p.producers), max(last, parent.LastTime)
			}
			p.mu.Unlock()
		}
		if len(parents) == 0 || len(parents) < len(cr.Parents) {
			continue
		}
		state, err := continued(parents, cr.ID, cr.Band, last)
		if err != nil {
			continue // what they were before is not what this is made of
		}
		if r.producers = state; state.Len() > 0 {
			heirs = append(heirs, r)
		}
	}
	return heirs
}

// continued is the state of a range that continues one or two others, when the
// log time of those ended with last.
func continued(parents []*producers.State, id ident.RangeID, band keyspace.Band, last ident.Timestamp) (*producers.State, error) {
	if len(parents) == 1 {
		return parents[0].Child(id, band)
	}
	return producers.Merge(parents[0], parents[1], id, last)
}

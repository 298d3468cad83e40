package node

import (
	"fmt"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/producers"
	"github.com/quirelog/quire/internal/segment"
)

// recall folds what a range knows of producers from its log. The last segment
// that has anything has it all: the state before it stands at its head. Only if a
// crash cut that off, or before a range has anything of its own, it is what came
// before.
func (t *topic) recall(info *catalog.Topic, cr *catalog.Range) (*producers.State, error) {
	segments := segmentsOf(cr)
	for i := len(segments) - 1; i >= 0; i-- {
		state := producers.New(cr.ID, cr.Band)
		some, err := t.fold(state, segments[i].ID)
		if err != nil {
			return nil, fmt.Errorf("recall the producers of range %v: %w", cr.ID, err)
		}
		if some && state.Complete() {
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

// fold takes a segment into the state, from the last place on at which the state
// stands in it, and says whether the segment has anything.
func (t *topic) fold(state *producers.State, id ident.SegmentID) (some bool, err error) {
	seg, ok := t.b.store.Segment(id)
	if !ok {
		return false, nil
	}
	info := seg.Info()
	from, err := lastCarried(seg, &info)
	if err != nil {
		return false, err
	}
	fold := func(h *batch.Header, b []byte) error {
		if h.HasProducer || h.Kind == batch.Control {
			return state.Fold(b)
		}
		return nil
	}
	if err := each(seg, from, info.Tail.Base, fold); err != nil {
		return false, err
	}
	if from > info.Base && !state.Complete() {
		// A crash cut it off there: what came before has it all.
		*state = *producers.New(state.ID(), state.Band())
		err = each(seg, info.Base, info.Tail.Base, fold)
	}
	return info.Base < info.Tail.Base, err
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
		err := each(seg, begin, end, func(h *batch.Header, b []byte) error {
			if h.Kind == batch.Control && producers.Begins(b) {
				found = h.Base
			}
			return nil
		})
		if err != nil || found > info.Base {
			return found, err
		}
		end = begin
	}
	return info.Base, nil
}

// each calls f for the batches of a segment that have an offset between two.
func each(seg *segment.Segment, from, to ident.Offset, f func(*batch.Header, []byte) error) error {
	const atATime = 4 << 20
	for at := from; at < to; {
		batches, err := seg.Read(at, segment.Limit{Bytes: atATime, Records: 1 << 30})
		if err != nil {
			return err
		}
		for _, b := range batches.List {
			h, err := batch.ParseHeader(b)
			if err == nil && at < to {
				err = f(&h, b)
			}
			if err != nil {
				batches.Release()
				return err
			}
			at = h.End()
		}
		batches.Release()
	}
	return nil
}

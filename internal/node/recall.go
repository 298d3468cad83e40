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

// foldBytes is how much of a segment is in memory while it is folded.
const foldBytes = 4 << 20

// fold takes a segment into the state, and says whether it has anything.
func (t *topic) fold(state *producers.State, id ident.SegmentID) (some bool, err error) {
	seg, ok := t.b.store.Segment(id)
	if !ok {
		return false, nil
	}
	info := seg.Info()
	for at := info.Base; at < info.Tail.Base; {
		batches, err := seg.Read(at, segment.Limit{Bytes: foldBytes, Records: 1 << 30})
		if err != nil {
			return false, err
		}
		for _, b := range batches.List {
			h, err := batch.ParseHeader(b)
			if err == nil && (h.HasProducer || h.Kind == batch.Control) {
				err = state.Fold(b)
			}
			if err != nil {
				batches.Release()
				return false, err
			}
			at = h.End()
		}
		batches.Release()
	}
	return info.Base < info.Tail.Base, nil
}

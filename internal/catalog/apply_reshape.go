package catalog

import (
	"fmt"
	"slices"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/status"
)

func (c Split) apply(s *State) (Result, error) {
	t, err := s.find(c.Topic)
	if err != nil {
		return Result{}, err
	}
	r, err := t.ending(c.Ending)
	if err != nil {
		return Result{}, err
	}
	if r.Sealed() {
		if c.Ending.ended(r) && len(r.Children) == 2 && t.must(r.Children[1]).Band.First == c.At {
			return Result{Repeated: true, Topic: t}, nil
		}
		return Result{}, fmt.Errorf("%w: range %v is sealed", ErrConflict, r.ID)
	}
	if c.At <= r.Band.First || c.At > r.Band.Last {
		return Result{}, fmt.Errorf("%w: split of %v %v at %016x", ErrMalformed, r.ID, r.Band, uint64(c.At))
	}
	if err := t.RoomToSplit(); err != nil {
		return Result{}, err
	}
	retired, err := s.endable(t, c.Ending)
	if err != nil {
		return Result{}, err
	}
	parent := r.end(c.Ending)
	next := t.with(parent)
	for _, band := range []keyspace.Band{{First: r.Band.First, Last: c.At - 1}, {First: c.At, Last: r.Band.Last}} {
		s.addChild(next, band, r.Epoch+1, r.Owner, parent)
	}
	return s.reshaped(next, retired), nil
}

// RoomToSplit is why the topic may not have one more range, or nil.
func (t *Topic) RoomToSplit() error {
	if n := t.Leaves(); n >= int(t.Settings.MaxRanges) {
		return status.New(status.LimitReached, "topic %s has %d ranges, and max-ranges=%d", t.Name.Short(), n, t.Settings.MaxRanges)
	}
	return nil
}

func (c Merge) apply(s *State) (Result, error) {
	t, err := s.find(c.Topic)
	if err != nil {
		return Result{}, err
	}
	left, err := t.ending(c.Left)
	if err != nil {
		return Result{}, err
	}
	right, err := t.ending(c.Right)
	if err != nil {
		return Result{}, err
	}
	switch {
	case left.Sealed() && right.Sealed() && c.Left.ended(left) && c.Right.ended(right) &&
		len(left.Children) == 1 && slices.Equal(left.Children, right.Children):
		return Result{Repeated: true, Topic: t}, nil
	case left.Sealed() || right.Sealed():
		return Result{}, fmt.Errorf("%w: range %v or %v is sealed", ErrConflict, left.ID, right.ID)
	case left.Band.Last+1 != right.Band.First || right.Band.First == 0:
		return Result{}, fmt.Errorf("%w: merge of %v %v and %v %v, which are no neighbours",
			ErrMalformed, left.ID, left.Band, right.ID, right.Band)
	case left.Owner != right.Owner:
		return Result{}, fmt.Errorf("%w: ranges %v and %v are not under one primary", ErrConflict, left.ID, right.ID)
	}
	retired, err := s.endable(t, c.Left, c.Right)
	if err != nil {
		return Result{}, err
	}
	l, r := left.end(c.Left), right.end(c.Right)
	next := t.with(l, r)
	band := keyspace.Band{First: left.Band.First, Last: right.Band.Last}
	s.addChild(next, band, max(left.Epoch, right.Epoch)+1, left.Owner, l, r)
	return s.reshaped(next, retired), nil
}

// ending finds the range that e is of. One that is sealed already may have been
// by the same command; one that is open is compared.
func (t *Topic) ending(e Ending) (*Range, error) {
	r, ok := t.Range(e.Range)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: topic %s has no range %v", ErrConflict, t.Name, e.Range)
	case r.Sealed():
		return r, nil
	}
	if err := r.compare(e.Epoch, e.Version, e.Open); err != nil {
		return nil, err
	}
	return r, r.checkSeal(e.Seal)
}

// ended says whether it was e that sealed the range for ever.
func (e *Ending) ended(r *Range) bool {
	return r.Epoch == e.Epoch && r.Version == e.Version+1 && r.End() == e.Seal.End
}

// endable says whether there is room to end the ranges, and which segments are
// retired because they are empty.
func (s *State) endable(t *Topic, ends ...Ending) ([]Retired, error) {
	var retired []Retired
	for _, e := range ends {
		r := t.must(e.Range)
		if e.Seal.End == r.Open.Base {
			retired = append(retired, Retired{Segment: r.Open.ID, Topic: t.ID, Store: r.Open.Store})
		} else if err := r.roomToSeal(MaxSegments + grantReserve); err != nil {
			return nil, err
		}
	}
	return retired, s.roomToRetire(len(retired))
}

// end is a copy of the range that takes no more appends.
func (r *Range) end(e Ending) *Range {
	next := *r
	if e.Seal.End != r.Open.Base {
		// See succeed for the array behind.
		next.Segments = append(next.Segments, SealedSegment{*r.Open, e.Seal})
		next.LastTime = e.Seal.LastTime
	}
	next.Open = nil
	next.Version++
	return &next
}

// addChild gives t a range over band that continues its parents: both are
// copies that nobody has seen. Its epoch is above theirs, so that versions grow
// along the lineage (K1), and its clock goes on where theirs ended.
func (s *State) addChild(t *Topic, band keyspace.Band, epoch ident.Epoch, owner Owner, parents ...*Range) {
	child := &Range{
		ID: s.nextRange, Band: band, Epoch: epoch, Owner: owner, Version: 1,
		Open: &OpenSegment{ID: s.nextSegment, Epoch: epoch, Store: owner.Store},
	}
	for _, p := range parents {
		child.Parents = append(child.Parents, p.ID)
		child.LastTime = max(child.LastTime, p.LastTime)
		p.Children = append(slices.Clip(p.Children), child.ID)
	}
	s.nextRange++
	s.nextSegment++
	t.Ranges = append(t.Ranges, child)
}

// reshaped puts a topic with other ranges in its place.
func (s *State) reshaped(t *Topic, retired []Retired) Result {
	t.prune()
	s.retire(retired)
	s.put(t)
	return Result{Topic: t, Retired: retired}
}

// prune forgets the oldest sealed ranges over MaxStubs whose records, and whose
// parents, are gone. A cursor into one of them continues with a gap of which
// nobody knows the count (S2). t is a copy that nobody has seen.
func (t *Topic) prune() {
	over := len(t.Ranges) - t.Leaves() - MaxStubs
	for i := 0; i < len(t.Ranges) && over > 0; {
		r := t.Ranges[i]
		if !r.Sealed() || len(r.Segments) > 0 || len(r.Parents) > 0 {
			i++
			continue
		}
		t.Ranges = slices.Delete(t.Ranges, i, i+1)
		over--
		for _, id := range r.Children {
			at, _ := t.find(id)
			child := *t.Ranges[at]
			child.Parents = slices.DeleteFunc(slices.Clone(child.Parents), func(p ident.RangeID) bool { return p == r.ID })
			t.Ranges[at] = &child
		}
	}
}

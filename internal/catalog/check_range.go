package catalog

import (
	"errors"
	"fmt"
)

// check verifies what holds of a range by itself: its segments follow one
// another without a hole in offsets, counts and chain, under epochs that rise.
func (r *Range) check() error {
	switch {
	case !r.Band.Valid():
		return fmt.Errorf("band %v", r.Band)
	case r.Epoch < 1 || r.Epoch > counterBound:
		return fmt.Errorf("epoch %d", r.Epoch)
	case r.Version < 1 || r.Version > counterBound:
		return fmt.Errorf("version %d", r.Version)
	case r.Owner.Store.IsZero() || r.Owner.Process.IsZero():
		return errors.New("no owner")
	case r.Start > counterBound || r.UserBefore > uint64(r.Start):
		return fmt.Errorf("%d user records before start %d", r.UserBefore, r.Start)
	case len(r.Segments) > MaxSegments+grantReserve:
		return fmt.Errorf("%d segments, at most %d", len(r.Segments), MaxSegments+grantReserve)
	}
	due := OpenSegment{Base: r.Start, UserBefore: r.UserBefore}
	for i := range r.Segments {
		g := &r.Segments[i]
		if err := g.follows(due, i == 0 && r.Start > 0); err != nil {
			return err
		}
		if err := g.checkEnd(); err != nil {
			return err
		}
		if i > 0 && g.LastTime < r.Segments[i-1].LastTime {
			return fmt.Errorf("append time runs back in segment %v", g.ID)
		}
		due = OpenSegment{
			ID: g.ID + 1, Epoch: g.Epoch, Base: g.End, UserBefore: g.UserBefore + g.Users, Chain: g.Digest,
		}
	}
	n := len(r.Segments)
	if r.LastTime < 0 || n > 0 && r.LastTime != r.Segments[n-1].LastTime || due.Base == 0 && r.LastTime != 0 && r.Epoch == 1 {
		return fmt.Errorf("append time %s is not that of its last sealed segment", when(r.LastTime))
	}
	if (r.Open == nil) != (len(r.Children) > 0) {
		return fmt.Errorf("sealed %v with %d children", r.Open == nil, len(r.Children))
	}
	if r.Open == nil {
		if due.Epoch > r.Epoch {
			return fmt.Errorf("epoch %d below its last segment's %d", r.Epoch, due.Epoch)
		}
		return nil
	}
	if err := r.Open.follows(due, len(r.Segments) == 0 && r.Start > 0); err != nil {
		return err
	}
	if r.Open.Epoch != r.Epoch || r.Open.Store != r.Owner.Store {
		return fmt.Errorf("segment %v is open in epoch %d on store %v, the grant is %d of store %v",
			r.Open.ID, r.Open.Epoch, r.Open.Store, r.Epoch, r.Owner.Store)
	}
	return nil
}

// follows says whether the segment continues what is due: at least the id and
// epoch, exactly the place, and the chain unless what came before was trimmed.
func (s *OpenSegment) follows(due OpenSegment, anyChain bool) error {
	switch {
	case s.ID < due.ID || s.Epoch < due.Epoch || s.Epoch < 1:
		return fmt.Errorf("segment %v of epoch %d, due is %v or above of epoch %d or above", s.ID, s.Epoch, due.ID, due.Epoch)
	case s.Base != due.Base || s.UserBefore != due.UserBefore:
		return fmt.Errorf("segment %v begins at %d with %d user records before, due is %d with %d",
			s.ID, s.Base, s.UserBefore, due.Base, due.UserBefore)
	case s.Chain != due.Chain && !anyChain:
		return fmt.Errorf("segment %v has chain %016x, due is %016x", s.ID, s.Chain, due.Chain)
	case s.Store.IsZero():
		return fmt.Errorf("segment %v is on no store", s.ID)
	}
	return nil
}

func (s *SealedSegment) checkEnd() error {
	switch {
	case s.End <= s.Base || s.End > counterBound:
		return fmt.Errorf("segment %v has the offsets %d to %d", s.ID, s.Base, s.End)
	case s.Users > uint64(s.End-s.Base):
		return fmt.Errorf("segment %v has %d user records in %d", s.ID, s.Users, s.End-s.Base)
	}
	return nil
}

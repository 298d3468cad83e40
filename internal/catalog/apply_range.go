package catalog

import (
	"fmt"
	"slices"
	"time"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

func (c Grant) apply(s *State) (Result, error) {
	if c.Owner.Store.IsZero() || c.Owner.Process.IsZero() {
		return Result{}, fmt.Errorf("%w: grant of %v: no owner", ErrMalformed, c.Range)
	}
	t, r, err := s.findOpen(c.Topic, c.Range)
	if err != nil {
		return Result{}, err
	}
	if r.Epoch == c.Epoch+1 && r.Owner == c.Owner {
		return Result{Repeated: true, Topic: t, Opened: *r.Open}, nil
	}
	if err := r.compare(c.Epoch, c.Version, c.Open); err != nil {
		return Result{}, err
	}
	if err := r.checkSeal(c.Seal); err != nil {
		return Result{}, err
	}
	var retired []Retired
	if c.Seal.End == r.Open.Base {
		retired = []Retired{{Segment: r.Open.ID, Topic: t.ID, Store: r.Open.Store}}
		if err := s.roomToRetire(1); err != nil {
			return Result{}, err
		}
	} else if err := r.roomToSeal(MaxSegments + grantReserve); err != nil {
		return Result{}, err
	}
	s.retire(retired)
	next := *r
	next.Epoch, next.Owner = r.Epoch+1, c.Owner
	res := s.succeed(t, &next, c.Seal)
	res.Retired = retired
	return res, nil
}

func (c Roll) apply(s *State) (Result, error) {
	t, r, err := s.findOpen(c.Topic, c.Range)
	if err != nil {
		return Result{}, err
	}
	if r.Epoch == c.Epoch {
		if opened, ok := r.openedAfter(c.Open, c.Seal); ok {
			return Result{Repeated: true, Topic: t, Opened: opened}, nil
		}
	}
	if err := r.compare(c.Epoch, c.Version, c.Open); err != nil {
		return Result{}, err
	}
	if err := r.checkSeal(c.Seal); err != nil {
		return Result{}, err
	}
	if c.Seal.End == r.Open.Base {
		return Result{}, fmt.Errorf("%w: roll of %v: %v is empty", ErrMalformed, r.ID, r.Open.ID)
	}
	if err := r.roomToSeal(MaxSegments); err != nil {
		return Result{}, err
	}
	next := *r
	return s.succeed(t, &next, c.Seal), nil
}

// succeed seals the open segment of next, a copy of a range of t, unless it is
// empty, and opens its successor under next's grant.
func (s *State) succeed(t *Topic, next *Range, seal Seal) Result {
	open := next.Open
	if seal.End != open.Base {
		// The array behind may be shared with older values of the range. They
		// end before the new element and are never appended to, so they do not
		// see it, and a roll costs the same however many segments there are.
		next.Segments = append(next.Segments, SealedSegment{*open, seal})
		next.LastTime = seal.LastTime
	}
	next.Version++
	next.Open = &OpenSegment{
		ID: s.nextSegment, Epoch: next.Epoch, Store: next.Owner.Store,
		Base: seal.End, UserBefore: open.UserBefore + seal.Users, Chain: seal.Digest,
	}
	s.nextSegment++
	t = t.with(next)
	s.put(t)
	return Result{Topic: t, Opened: *next.Open}
}

func (c Trim) apply(s *State) (Result, error) {
	t, err := s.find(c.Topic)
	if err != nil {
		return Result{}, err
	}
	r, ok := t.Range(c.Range)
	if !ok {
		return Result{}, fmt.Errorf("%w: topic %s has no range %v", ErrConflict, t.Name, c.Range)
	}
	i := slices.IndexFunc(r.Segments, func(g SealedSegment) bool { return g.ID == c.Through })
	if i < 0 {
		if c.Through < r.firstKept() {
			return Result{Repeated: true, Topic: t}, nil
		}
		return Result{}, fmt.Errorf("%w: range %v has no sealed segment %v", ErrConflict, r.ID, c.Through)
	}
	if t.Version != c.TopicVersion {
		return Result{}, fmt.Errorf("%w: topic %s has version %d, not %d",
			ErrConflict, t.Name, t.Version, c.TopicVersion)
	}
	retired := appendRetired(nil, t.ID, r.Segments[:i+1])
	if err := s.roomToRetire(len(retired)); err != nil {
		return Result{}, err
	}
	s.retire(retired)
	last := &r.Segments[i]
	next := *r
	next.Start, next.UserBefore = last.End, last.UserBefore+last.Users
	// A copy lets go of the array in which the trimmed ones are.
	next.Segments = append([]SealedSegment(nil), r.Segments[i+1:]...)
	t = t.with(&next)
	s.put(t)
	return Result{Topic: t, Retired: retired}, nil
}

func (c ConfirmRetired) apply(s *State) (Result, error) {
	if len(c.Retired) > MaxConfirm {
		return Result{}, fmt.Errorf("%w: %d segments confirmed at once, at most %d",
			ErrMalformed, len(c.Retired), MaxConfirm)
	}
	for _, r := range c.Retired {
		if known, ok := s.retired[r.Segment]; ok && known != r {
			return Result{}, fmt.Errorf("%w: retired %v is of topic %v on store %v, not of %v on %v",
				ErrConflict, r.Segment, known.Topic, known.Store, r.Topic, r.Store)
		}
		// Passed over now, it would be forgotten by the same command once it
		// is retired, and its file would stay for ever.
		if t, ok := s.byID[r.Topic]; r.Segment >= s.nextSegment || ok && t.has(r.Segment) {
			return Result{}, fmt.Errorf("%w: %v of topic %v is not retired", ErrConflict, r.Segment, r.Topic)
		}
	}
	before := len(s.retired)
	for _, r := range c.Retired {
		delete(s.retired, r.Segment)
	}
	return Result{Repeated: len(s.retired) == before}, nil
}

// findOpen gives a range that takes appends.
func (s *State) findOpen(topic ident.TopicID, id ident.RangeID) (*Topic, *Range, error) {
	t, err := s.find(topic)
	if err != nil {
		return nil, nil, err
	}
	r, ok := t.Range(id)
	switch {
	case !ok:
		return nil, nil, fmt.Errorf("%w: topic %s has no range %v", ErrConflict, t.Name, id)
	case r.Sealed():
		return nil, nil, fmt.Errorf("%w: range %v is sealed", ErrConflict, id)
	}
	return t, r, nil
}

// compare is the compare of Grant and Roll (R4).
func (r *Range) compare(epoch ident.Epoch, version uint64, open ident.SegmentID) error {
	switch {
	case r.Epoch != epoch:
		return fmt.Errorf("%w: range %v has epoch %d, not %d", ErrConflict, r.ID, r.Epoch, epoch)
	case r.Open.ID != open:
		return fmt.Errorf("%w: the open segment of range %v is %v, not %v", ErrConflict, r.ID, r.Open.ID, open)
	case r.Version != version:
		return fmt.Errorf("%w: range %v has version %d, not %d", ErrConflict, r.ID, r.Version, version)
	}
	return nil
}

// checkSeal says whether the open segment can have ended like this.
func (r *Range) checkSeal(seal Seal) error {
	malformed := func(format string, args ...any) error {
		return fmt.Errorf("%w: seal of %v: %s", ErrMalformed, r.Open.ID, fmt.Sprintf(format, args...))
	}
	switch {
	case seal.End < r.Open.Base:
		return malformed("end %d before base %d", seal.End, r.Open.Base)
	case seal.End > counterBound:
		return malformed("end %d", seal.End)
	case seal.End == r.Open.Base && seal != EmptySeal(*r.Open):
		return malformed("no records, but %+v", seal)
	case seal.Users > uint64(seal.End-r.Open.Base):
		return malformed("%d user records in %d", seal.Users, seal.End-r.Open.Base)
	case seal.End != r.Open.Base && seal.LastTime < r.LastTime:
		return malformed("append time runs back from %s to %s", when(r.LastTime), when(seal.LastTime))
	}
	return nil
}

// openedAfter gives the successor of a segment that has been sealed just so.
func (r *Range) openedAfter(id ident.SegmentID, seal Seal) (OpenSegment, bool) {
	for i := len(r.Segments) - 1; i >= 0 && r.Segments[i].ID >= id; i-- {
		switch g := &r.Segments[i]; {
		case g.ID != id || g.Seal != seal:
		case i+1 < len(r.Segments):
			return r.Segments[i+1].OpenSegment, true
		default:
			return *r.Open, true
		}
	}
	return OpenSegment{}, false
}

// firstKept is the id of the oldest segment. A range's ids rise, so all that
// are lower have gone.
func (r *Range) firstKept() ident.SegmentID {
	switch {
	case len(r.Segments) > 0:
		return r.Segments[0].ID
	case r.Open != nil:
		return r.Open.ID
	default:
		return 0
	}
}

func (r *Range) roomToSeal(limit int) error {
	if len(r.Segments) >= limit {
		return status.New(status.LimitReached, "range %v has %d sealed segments, the most that it may have",
			r.ID, len(r.Segments))
	}
	return nil
}

func (s *State) roomToRetire(n int) error {
	if len(s.retired)+n > MaxRetired {
		return status.New(status.LimitReached, "%d segments wait to be deleted, and %d more are over the limit of %d",
			len(s.retired), n, MaxRetired)
	}
	return nil
}

func appendRetired(list []Retired, topic ident.TopicID, segments []SealedSegment) []Retired {
	for i := range segments {
		list = append(list, Retired{Segment: segments[i].ID, Topic: topic, Store: segments[i].Store})
	}
	return list
}

func when(t ident.Timestamp) string { return t.Time().Format(time.RFC3339) }

package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// counterBound is above every counter that a catalog can reach, and far enough
// below the end of the numbers that no sum of two wraps.
const counterBound = 1 << 62

// Check verifies every invariant of the state. An error is a fault of this
// package, or of the bytes that the state was loaded from. It walks the whole
// state.
func (s *State) Check() error {
	if s.nextRange < 1 || s.nextSegment < 1 || s.nextRange > counterBound || s.nextSegment > counterBound ||
		s.deletions > counterBound {
		return fmt.Errorf("counters are out of bounds: range %d, segment %d, deletions %d",
			s.nextRange, s.nextSegment, s.deletions)
	}
	if err := s.checkNamespaces(); err != nil {
		return err
	}
	used := &usedIDs{ranges: map[ident.RangeID]bool{}, segments: map[ident.SegmentID]bool{}}
	if err := s.checkTopics(used); err != nil {
		return err
	}
	if err := s.checkRetired(used); err != nil {
		return err
	}
	return s.checkTombstones()
}

func (s *State) checkNamespaces() error {
	for i, n := range s.namespaces {
		// The namespace's own parts, with a topic part that is right.
		if err := (Name{n.Tenant, n.Namespace, "t"}).check(); err != nil {
			return err
		}
		if i > 0 && s.namespaces[i-1].compare(n) >= 0 {
			return fmt.Errorf("namespace %v is out of order", n)
		}
	}
	if _, ok := s.namespace(Name{Tenant: DefaultTenant, Namespace: DefaultNamespace}); !ok {
		return fmt.Errorf("there is no namespace %s/%s", DefaultTenant, DefaultNamespace)
	}
	return nil
}

func (s *State) checkTopics(used *usedIDs) error {
	if n := len(s.ordered); n != len(s.byID) || n != len(s.byName) || n > MaxTopics {
		return fmt.Errorf("%d topics, %d names, %d ids, at most %d", n, len(s.byName), len(s.byID), MaxTopics)
	}
	for i, t := range s.ordered {
		if s.byID[t.ID] != t || s.byName[t.Name] != t {
			return fmt.Errorf("topic %s: the indexes differ", t.Name)
		}
		if i > 0 && s.ordered[i-1].Name.Compare(t.Name) >= 0 {
			return fmt.Errorf("topic %s is out of order", t.Name)
		}
		if _, ok := s.namespace(t.Name); !ok {
			return fmt.Errorf("topic %s has no namespace", t.Name)
		}
		if err := t.check(); err != nil {
			return fmt.Errorf("topic %s: %w", t.Name, err)
		}
		if err := s.checkIDs(t, used); err != nil {
			return fmt.Errorf("topic %s: %w", t.Name, err)
		}
	}
	return nil
}

func (t *Topic) check() error {
	if err := t.Name.check(); err != nil {
		return err
	}
	switch {
	case t.ID.IsZero():
		return errors.New("no id")
	case !t.Type.Valid():
		return fmt.Errorf("type %d", t.Type)
	case t.Version < 1 || t.Version > counterBound:
		return fmt.Errorf("version %d", t.Version)
	case t.Token.IsZero() != (t.Version == 1):
		return fmt.Errorf("version %d with token %v", t.Version, t.Token)
	}
	if err := checkSettings(t.Type, t.Settings); err != nil {
		return err
	}
	for _, r := range t.Ranges {
		if err := r.check(); err != nil {
			return fmt.Errorf("range %v: %w", r.ID, err)
		}
	}
	if err := t.checkLineage(); err != nil {
		return err
	}
	return t.checkTiling()
}

// checkLineage holds when parents and children name each other, children came
// later, and together cover what they continue.
func (t *Topic) checkLineage() error {
	for _, r := range t.Ranges {
		next := r.Band.First
		for _, id := range r.Children {
			child, ok := t.Range(id)
			switch {
			case !ok || id <= r.ID:
				return fmt.Errorf("range %v has no child %v", r.ID, id)
			case child.Epoch <= r.Epoch || child.LastTime < r.LastTime:
				return fmt.Errorf("range %v of epoch %d runs back behind its parent %v of epoch %d", id, child.Epoch, r.ID, r.Epoch)
			case !slices.Contains(child.Parents, r.ID):
				return fmt.Errorf("range %v does not know its parent %v", id, r.ID)
			case len(r.Children) > 1 && child.Band.First != next:
				return fmt.Errorf("the children of %v do not meet at %v", r.ID, id)
			case len(r.Children) == 1 && (child.Band.First > r.Band.First || child.Band.Last < r.Band.Last):
				return fmt.Errorf("range %v %v does not cover %v %v", id, child.Band, r.ID, r.Band)
			}
			next = child.Band.Last + 1
		}
		if len(r.Children) > 2 || len(r.Children) > 1 && next != r.Band.Last+1 {
			return fmt.Errorf("%d children of %v end before %016x", len(r.Children), r.ID, uint64(next))
		}
		for _, id := range r.Parents {
			if parent, ok := t.Range(id); !ok || !slices.Contains(parent.Children, r.ID) {
				return fmt.Errorf("range %v has no parent %v", r.ID, id)
			}
		}
	}
	return nil
}

// checkTiling holds when the bands of the ranges that take appends cover each
// position exactly once.
func (t *Topic) checkTiling() error {
	var bands []keyspace.Band
	for _, r := range t.Ranges {
		if !r.Sealed() {
			bands = append(bands, r.Band)
		}
	}
	slices.SortFunc(bands, func(a, b keyspace.Band) int { return cmp.Compare(a.First, b.First) })
	if len(bands) == 0 || bands[0].First != 0 || bands[len(bands)-1].Last != keyspace.Full().Last {
		return errors.New("the ranges do not cover the keyspace")
	}
	for i := 1; i < len(bands); i++ {
		if bands[i].First != bands[i-1].Last+1 {
			return fmt.Errorf("bands %v and %v do not meet", bands[i-1], bands[i])
		}
	}
	return nil
}

// usedIDs are the ids met so far: each names one thing for ever.
type usedIDs struct {
	ranges   map[ident.RangeID]bool
	segments map[ident.SegmentID]bool
}

func (u *usedIDs) segment(id, next ident.SegmentID) error {
	if id < 1 || id >= next || u.segments[id] {
		return fmt.Errorf("segment %v is there twice, or not below the counter %d", id, next)
	}
	u.segments[id] = true
	return nil
}

func (s *State) checkIDs(t *Topic, used *usedIDs) error {
	for i, r := range t.Ranges {
		if r.ID < 1 || r.ID >= s.nextRange || used.ranges[r.ID] || i > 0 && t.Ranges[i-1].ID >= r.ID {
			return fmt.Errorf("range %v is there twice, out of order, or not below the counter %d", r.ID, s.nextRange)
		}
		used.ranges[r.ID] = true
		for j := range r.Segments {
			if err := used.segment(r.Segments[j].ID, s.nextSegment); err != nil {
				return err
			}
		}
		if r.Open != nil {
			if err := used.segment(r.Open.ID, s.nextSegment); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *State) checkRetired(used *usedIDs) error {
	if len(s.retired) > MaxRetired {
		return fmt.Errorf("%d retired segments, at most %d", len(s.retired), MaxRetired)
	}
	for _, r := range s.retiredInOrder() {
		if err := used.segment(r.Segment, s.nextSegment); err != nil {
			return fmt.Errorf("retired: %w", err)
		}
		_, live := s.byID[r.Topic]
		_, gone := s.gone[r.Topic]
		// A topic that is neither has been forgotten.
		forgotten := s.deletions > uint64(len(s.tombstones))
		if r.Topic.IsZero() || r.Store.IsZero() || !live && !gone && !forgotten {
			return fmt.Errorf("retired segment %v of topic %v on store %v", r.Segment, r.Topic, r.Store)
		}
	}
	return nil
}

func (s *State) checkTombstones() error {
	n := len(s.tombstones)
	if n != len(s.gone) || uint64(n) != min(s.deletions, MaxTombstones) {
		return fmt.Errorf("%d tombstones of %d ids after %d deletions, at most %d",
			n, len(s.gone), s.deletions, MaxTombstones)
	}
	for _, t := range s.tombstones {
		if err := t.Name.check(); err != nil {
			return fmt.Errorf("tombstone: %w", err)
		}
		if _, live := s.byID[t.ID]; live || t.ID.IsZero() || s.gone[t.ID] != t {
			return fmt.Errorf("tombstone of topic %s: id %v", t.Name, t.ID)
		}
	}
	return nil
}

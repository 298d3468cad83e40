package producers

import (
	"fmt"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// Split gives the states of the two ranges that a range is split into; at is
// the first position of the upper one. Both have all entries of the parent, cut
// to their bands. The state itself stays as it is.
func (s *State) Split(at ident.Position, lower, upper ident.RangeID) (*State, *State, error) {
	if at <= s.band.First || at > s.band.Last {
		return nil, nil, fmt.Errorf("split the producers of %s at %016x: outside", s.band, uint64(at))
	}
	l, err := s.Child(lower, keyspace.Band{First: s.band.First, Last: at - 1})
	if err != nil {
		return nil, nil, err
	}
	u, err := s.Child(upper, keyspace.Band{First: at, Last: s.band.Last})
	return l, u, err
}

// Child gives the state of one of the ranges that a range is split into: all
// its entries, cut to the child's band. The state itself stays as it is.
func (s *State) Child(id ident.RangeID, band keyspace.Band) (*State, error) {
	s.mustBeComplete()
	if both, some := s.band.Intersect(band); !some || both != band {
		return nil, fmt.Errorf("a child of the producers of %s for %s, which is outside", s.band, band)
	}
	c := New(id, band)
	for producerID, p := range s.producers {
		var entries []entry
		for _, e := range p.entries {
			if both, some := e.band.Intersect(band); some {
				e.band = both
				entries = append(entries, e)
			}
		}
		c.put(producerID, &producer{p.session, p.last, entries})
	}
	return c, nil
}

// Merge gives the state of the range that two neighbours become at log time
// now. It keeps the entries of both, each for its band; of two sessions the
// higher stays, and to it the other one's band is new. The number of producers
// may come to exceed MaxProducers: then new ones are refused until enough have
// expired. The two states stay as they are.
func Merge(lower, upper *State, id ident.RangeID, now ident.Timestamp) (*State, error) {
	lower.mustBeComplete()
	upper.mustBeComplete()
	if lower.band.Last+1 != upper.band.First || upper.band.First == 0 {
		return nil, fmt.Errorf("merge the producers of %s and %s: not neighbours", lower.band, upper.band)
	}
	m := New(id, keyspace.Band{First: lower.band.First, Last: upper.band.Last})
	for producerID := range lower.producers {
		m.merge(producerID, lower, upper, now)
	}
	for producerID := range upper.producers {
		if m.producers[producerID] == nil {
			m.merge(producerID, lower, upper, now)
		}
	}
	return m, nil
}

// merge takes a producer of either side into m, unless it has expired.
func (s *State) merge(id batch.ProducerID, lower, upper *State, now ident.Timestamp) {
	l, u := lower.live(id, now), upper.live(id, now)
	var p producer
	for _, side := range []*producer{l, u} {
		if side != nil {
			p.session = max(p.session, side.session)
			p.last = max(p.last, side.last)
		}
	}
	if l == nil && u == nil {
		return
	}
	p.entries = slices.Concat(lower.session(l, p.session), upper.session(u, p.session))
	s.put(id, &p)
}

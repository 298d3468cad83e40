package lineage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// ErrAhead: a cursor names a range that came later than the graph in hand. It
// is wrapped with the range. A newer look at the catalog knows it, or it is
// none.
var ErrAhead = errors.New("cursor from a later state of its topic")

// Range is what the reading order needs to know of a range.
type Range struct {
	ID   ident.RangeID
	Band keyspace.Band
	// First is the epoch of its first record, or of its first to come.
	First ident.Epoch
	// Start is the first offset that is kept, in epoch StartEpoch.
	Start      ident.Offset
	StartEpoch ident.Epoch
	// StartHidden counts the broker's own records before Start.
	StartHidden uint64
	// End is the offset after the last record of a sealed range.
	End    ident.Offset
	Sealed bool
	// Children continue a sealed range, in the order of their bands.
	Children []ident.RangeID
}

// Graph is the lineage of one topic: its ranges in the order of their ids, as
// far as they are remembered. Whatever splits and merges there were, the ranges
// that have a position in their bands followed one another, each with a higher
// id than the one before.
type Graph struct {
	Ranges []Range
	// Next is above the ids of all ranges that there ever were.
	Next ident.RangeID
}

// Find gives the range of an id.
func (g *Graph) Find(id ident.RangeID) (*Range, bool) {
	i, ok := slices.BinarySearchFunc(g.Ranges, id, func(r Range, id ident.RangeID) int { return cmp.Compare(r.ID, id) })
	if !ok {
		return nil, false
	}
	return &g.Ranges[i], true
}

// Start is the cursor before the first record that is kept.
func (g *Graph) Start(topic ident.TopicID) Cursor {
	return Cursor{Topic: topic, Entries: join(g.earliest(keyspace.Full(), 0))}
}

// earliest gives, for each part of a band, the first range after a given one.
func (g *Graph) earliest(band keyspace.Band, after ident.RangeID) []Entry {
	var entries []Entry
	left := []keyspace.Band{band} // what has no range yet, in order
	for i := range g.Ranges {
		r := &g.Ranges[i]
		if r.ID <= after {
			continue
		}
		rest := left[:0:0]
		for _, b := range left {
			both, ok := b.Intersect(r.Band)
			if !ok {
				rest = append(rest, b)
				continue
			}
			entries = append(entries, Entry{both, Place{r.ID, r.StartEpoch, r.Start, r.StartHidden}})
			rest = append(rest, b.Without(both)...)
		}
		if left = rest; len(left) == 0 {
			break
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Band.First, b.Band.First) })
	return entries
}

// Behind says whether a cursor names a range that came later than the graph.
func (g *Graph) Behind(c Cursor) bool {
	return slices.ContainsFunc(c.Entries, func(e Entry) bool { return e.Place.Range >= g.Next })
}

// Frontier is a cursor in normal form: each of its ranges is remembered and has
// something to come.
type Frontier struct {
	Cursor
	// Forgotten says that a range in which the cursor was is not remembered:
	// between there and here records may be missing, nobody knows how many.
	Forgotten bool
}

// Normalize brings a cursor forward to where reading goes on. A range that is
// read to its end is followed by its children, a forgotten one by the earliest
// that are kept of its band. It may be repeated, and keeps nothing of c.
//
// An entry over only a part of its range's band waits: the rest of the band is
// still before the end of a parent (S2: a range is read once all its
// predecessors are drained). Some entry is always readable, that of the lowest
// id.
func (g *Graph) Normalize(c Cursor) (Frontier, error) {
	f := Frontier{Cursor: Cursor{Topic: c.Topic, Entries: slices.Clone(c.Entries)}}
	for {
		next, moved, err := g.step(&f)
		if err != nil {
			return Frontier{}, err
		}
		if !moved {
			return f, nil
		}
		slices.SortFunc(next, func(a, b Entry) int { return cmp.Compare(a.Band.First, b.Band.First) })
		f.Entries = join(next)
	}
}

// step moves each entry that can be moved by one range.
func (g *Graph) step(f *Frontier) (next []Entry, moved bool, err error) {
	for i, e := range f.Entries {
		r, ok := g.Find(e.Place.Range)
		var to []Entry
		switch {
		case !ok && e.Place.Range >= g.Next:
			return nil, false, fmt.Errorf("%w: range %v", ErrAhead, e.Place.Range)
		case !ok:
			f.Forgotten = true
			to = g.earliest(e.Band, e.Place.Range)
		case r.Sealed && e.Place.Offset >= r.End && r.Band == e.Band:
			if to, err = g.children(r); err != nil {
				return nil, false, err
			}
		default:
			if moved {
				next = append(next, e)
			}
			continue
		}
		if !moved {
			next, moved = append(next, f.Entries[:i]...), true
		}
		next = append(next, to...)
	}
	return next, moved, nil
}

// children are the beginnings of those that continue a range, in its band.
func (g *Graph) children(r *Range) ([]Entry, error) {
	var entries []Entry
	for _, id := range r.Children {
		child, ok := g.Find(id)
		if !ok {
			return nil, fmt.Errorf("range %v has forgotten its child %v", r.ID, id)
		}
		if both, ok := r.Band.Intersect(child.Band); ok {
			entries = append(entries, Entry{both, Place{child.ID, child.First, 0, 0}})
		}
	}
	return entries, nil
}

// join makes one entry of neighbours in the same range. None of its records was
// read yet; where one neighbour came to it when its first records had gone, so
// had they for the other.
func join(entries []Entry) []Entry {
	out := entries[:0]
	for _, e := range entries {
		if n := len(out); n > 0 && out[n-1].Place.Range == e.Place.Range {
			last := &out[n-1]
			last.Band.Last = e.Band.Last
			if e.Place.Offset > last.Place.Offset {
				last.Place = e.Place
			}
			continue
		}
		out = append(out, e)
	}
	return out
}

// Readable says whether the entry of a frontier can be read now.
func (g *Graph) Readable(e *Entry) bool {
	r, ok := g.Find(e.Place.Range)
	return ok && r.Band == e.Band
}

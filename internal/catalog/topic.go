package catalog

import (
	"cmp"
	"slices"
	"sort"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// Topic is one incarnation of a topic. It is immutable: a command makes a new
// one and leaves this one as it was.
type Topic struct {
	ID       ident.TopicID
	Name     Name
	Type     TopicType
	Settings Settings
	// Version counts the changes of the settings, from 1.
	Version uint64
	// Token is that of the AlterTopic that made this version, zero in the
	// first.
	Token   ident.Incarnation
	Created ident.Timestamp
	// Sessions counts the sessions of producers that were opened.
	Sessions uint64
	// Ranges are in the order of their ids. The bands of those that are not
	// sealed tile the keyspace.
	Ranges []*Range
}

// Range finds a range of the topic.
func (t *Topic) Range(id ident.RangeID) (*Range, bool) {
	i, ok := t.find(id)
	if !ok {
		return nil, false
	}
	return t.Ranges[i], true
}

func (t *Topic) find(id ident.RangeID) (int, bool) {
	return slices.BinarySearchFunc(t.Ranges, id, func(r *Range, id ident.RangeID) int {
		return cmp.Compare(r.ID, id)
	})
}

// must finds a range that an invariant says is there.
func (t *Topic) must(id ident.RangeID) *Range {
	r, ok := t.Range(id)
	if !ok {
		panic("catalog: topic " + t.Name.String() + " lost " + id.String())
	}
	return r
}

// Leaves counts the ranges that take appends.
func (t *Topic) Leaves() int {
	n := 0
	for _, r := range t.Ranges {
		if !r.Sealed() {
			n++
		}
	}
	return n
}

// has says whether a segment is one of the topic's.
func (t *Topic) has(id ident.SegmentID) bool {
	for _, r := range t.Ranges {
		_, sealed := slices.BinarySearchFunc(r.Segments, id, func(g SealedSegment, id ident.SegmentID) int {
			return cmp.Compare(g.ID, id)
		})
		if sealed || r.Open != nil && r.Open.ID == id {
			return true
		}
	}
	return false
}

// Route finds the range that takes the appends of a position.
func (t *Topic) Route(p ident.Position) *Range {
	for _, r := range t.Ranges {
		if !r.Sealed() && r.Band.Contains(p) {
			return r
		}
	}
	return nil // not of a topic that a State handed out: its bands tile the keyspace
}

// with is a copy of t that has each of the ranges in the place of the one with
// its id.
func (t *Topic) with(ranges ...*Range) *Topic {
	next := *t
	next.Ranges = slices.Clone(t.Ranges)
	for _, r := range ranges {
		i, _ := next.find(r.ID)
		next.Ranges[i] = r
	}
	return &next
}

// Owner is who may append to a range: a process, by the store that it writes
// to and by its own identity. A process that starts again is another one.
type Owner struct {
	Store   ident.StoreID
	Process ident.Incarnation
}

// IsZero says whether o is nobody.
func (o Owner) IsZero() bool { return o == Owner{} }

// Range is a band of a topic's keyspace and the segments that hold its
// records. It is immutable as Topic is.
type Range struct {
	ID   ident.RangeID
	Band keyspace.Band
	// Epoch is that of the last grant, and Owner is whom it went to.
	Epoch ident.Epoch
	Owner Owner
	// Version counts the grants, the rolls and the end, from 1.
	Version uint64
	// Parents are the ranges that this one continues, as far as they are
	// remembered: one after a split, two after a merge. Children are those that
	// continue it, in the order of their bands; only a sealed range has any.
	Parents, Children []ident.RangeID
	// Start is the trim point, the first offset that is kept, and UserBefore
	// counts the user records before it.
	Start      ident.Offset
	UserBefore uint64
	// LastTime is the append time of the last batch that was sealed, trimmed
	// or not: the range's log clock begins there after a restart, so that it
	// never runs back.
	LastTime ident.Timestamp
	// Segments are the sealed segments from Start on, oldest first, each
	// beginning where the one before it ends. None is empty.
	Segments []SealedSegment
	// Open is the segment that takes appends, beginning where the last of
	// Segments ends. It is nil in a range that is sealed for ever: a stub, which
	// keeps its place in the lineage also when its records are gone.
	Open *OpenSegment
}

// Sealed says whether the range takes no more appends.
func (r *Range) Sealed() bool { return r.Open == nil }

// End is the offset after the last record of a sealed range; of one that is
// open, where its open segment begins.
func (r *Range) End() ident.Offset {
	switch n := len(r.Segments); {
	case r.Open != nil:
		return r.Open.Base
	case n > 0:
		return r.Segments[n-1].End
	default:
		return r.Start
	}
}

// Find gives the segment that has, or in the open one would have, the record
// at an offset.
func (r *Range) Find(at ident.Offset) (OpenSegment, bool) {
	if at < r.Start {
		return OpenSegment{}, false
	}
	i := sort.Search(len(r.Segments), func(i int) bool { return at < r.Segments[i].End })
	switch {
	case i < len(r.Segments):
		return r.Segments[i].OpenSegment, true
	case r.Open != nil:
		return *r.Open, true
	default:
		return OpenSegment{}, false
	}
}

// OpenSegment is what is known of a segment from its opening on.
type OpenSegment struct {
	ID ident.SegmentID
	// Epoch is that of the grant that writes it.
	Epoch ident.Epoch
	// Base is the offset of its first record, UserBefore counts the user
	// records of the range before it.
	Base       ident.Offset
	UserBefore uint64
	// Chain is the digest of the chain of batches before it: what the segment
	// before was sealed with, 0 in a range's first.
	Chain uint64
	// Store holds it.
	Store ident.StoreID
}

// SealedSegment is a segment that is never written again.
type SealedSegment struct {
	OpenSegment
	Seal
}

// Seal is how a segment ended.
type Seal struct {
	// End is the offset after the last record.
	End ident.Offset
	// Digest is that of the chain through the last batch.
	Digest uint64
	// Users counts the user records.
	Users uint64
	Bytes uint64
	// LastTime is the append time of the last batch.
	LastTime ident.Timestamp
}

// EmptySeal seals a segment that has no record.
func EmptySeal(s OpenSegment) Seal { return Seal{End: s.Base, Digest: s.Chain} }

// Retired is a segment that no topic has any more, and that its store has not
// yet confirmed as deleted (D7).
type Retired struct {
	Segment ident.SegmentID
	Topic   ident.TopicID
	Store   ident.StoreID
}

// Tombstone remembers a deleted topic, so that a cursor of it is told so.
type Tombstone struct {
	ID      ident.TopicID
	Name    Name
	Deleted ident.Timestamp
}

// Namespace is a scope of topic names.
type Namespace struct {
	Tenant, Namespace string
}

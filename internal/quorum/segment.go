package quorum

import (
	"cmp"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// MaxReplicas is the most slots that a segment may have.
const MaxReplicas = 15

// Segment is what is known of a segment from its opening on. It never changes.
type Segment struct {
	catalog.OpenSegment
	// Writer is the one process that offers it new batches (I2).
	Writer catalog.Owner
	// Replicas are its slots. A vacant one is zero and counts (R3).
	Replicas []ident.StoreID
	// NotBefore is the log clock of the range at the opening.
	NotBefore ident.Timestamp
}

// Quorum is the majority of the slots, for appends and for recovery, as long as
// the segment lives.
func (s *Segment) Quorum() int { return len(s.Replicas)/2 + 1 }

// start is the tail of the empty segment.
func (s *Segment) start() Tail {
	return Tail{End: s.Base, Chain: s.Chain, LastTime: s.NotBefore}
}

// Tail is how far a segment reaches somewhere.
type Tail struct {
	// End is the offset after the last record.
	End ident.Offset
	// Users counts the user records of the segment, Bytes its batches' bytes.
	Users, Bytes uint64
	// Chain is the digest through the last batch.
	Chain uint64
	// LastTime is the append time of the last batch, or the segment's NotBefore.
	LastTime ident.Timestamp
}

// after is the tail behind a batch that follows t.
func (t *Tail) after(h *batch.Header, b []byte) Tail {
	return Tail{
		End: h.End(), Users: t.Users + h.UserRecords(), Bytes: t.Bytes + uint64(len(b)),
		Chain: batch.NextChain(b), LastTime: h.AppendTime,
	}
}

// seal is how the segment ends if it ends at t.
func (s *Segment) seal(t Tail) catalog.Seal {
	if t.End == s.Base {
		return catalog.EmptySeal(s.OpenSegment)
	}
	return catalog.Seal{End: t.End, Digest: t.Chain, Users: t.Users, Bytes: t.Bytes, LastTime: t.LastTime}
}

// sealedTail is the tail of a segment that was sealed.
func (s *Segment) sealedTail(e catalog.Seal) Tail {
	if e.End == s.Base {
		return s.start()
	}
	return Tail{End: e.End, Users: e.Users, Bytes: e.Bytes, Chain: e.Digest, LastTime: e.LastTime}
}

// View is a range as a linearizable read of the catalog has it.
type View struct {
	Range *catalog.Range
	// Replicas are the slots of the open segment, if there is one.
	Replicas []ident.StoreID
}

// open is the open segment.
func (v *View) open() Segment {
	r := v.Range
	return Segment{OpenSegment: *r.Open, Writer: r.Owner, Replicas: v.Replicas, NotBefore: r.LastTime}
}

// sealed finds how a segment was sealed. Empty ones are retired and not found.
func (v *View) sealed(id ident.SegmentID) (catalog.Seal, bool) {
	i, ok := slices.BinarySearchFunc(v.Range.Segments, id, func(s catalog.SealedSegment, id ident.SegmentID) int {
		return cmp.Compare(s.ID, id)
	})
	if !ok {
		return catalog.Seal{}, false
	}
	return v.Range.Segments[i].Seal, true
}

// sealOf is how a segment that is open no more ended: one that is not found was
// empty.
func (v *View) sealOf(s *Segment) catalog.Seal {
	if seal, ok := v.sealed(s.ID); ok {
		return seal
	}
	return catalog.EmptySeal(s.OpenSegment)
}

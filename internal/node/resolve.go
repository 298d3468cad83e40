package node

import (
	"errors"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/lineage"
	"github.com/quirelog/quire/status"
)

// startGap is a gap that resolving a cursor met, and the place before it.
type startGap struct {
	Gap
	from place
}

// resolve finds the place at which a reading begins.
func (r *rng) resolve(s Start) (place, *startGap, error) {
	cr := r.t.catalogRange()
	switch s.Kind {
	case StartBeginning:
		return place{r.epochAt(cr, cr.Start), cr.Start}, nil, nil
	case StartEnd:
		return r.committed(), nil, nil
	case StartTime:
		at, err := r.seekTime(cr, s.Time)
		return at, nil, err
	case StartCursor:
		return r.resolveCursor(cr, s.Cursor)
	}
	return place{}, nil, status.New(status.InvalidArgument, "unknown way to begin: %d", s.Kind)
}

// epochAt is the epoch of the segment that holds an offset.
func (r *rng) epochAt(cr *catalog.Range, o ident.Offset) ident.Epoch {
	if open, ok := cr.Find(o); ok {
		return open.Epoch
	}
	return cr.Epoch
}

// seekTime finds the first record that was appended at or after t.
func (r *rng) seekTime(cr *catalog.Range, t ident.Timestamp) (place, error) {
	for i := range cr.Segments {
		if g := &cr.Segments[i]; g.LastTime >= t {
			return r.seekIn(g.OpenSegment, t)
		}
	}
	if cr.Open == nil {
		return r.committed(), nil
	}
	return r.seekIn(*cr.Open, t)
}

func (r *rng) seekIn(open catalog.OpenSegment, t ident.Timestamp) (place, error) {
	at := place{open.Epoch, open.Base}
	seg, ok := r.b.store.Segment(open.ID)
	if !ok {
		return at, nil
	}
	var err error
	at.offset, err = seg.SeekTime(t)
	return at, err
}

// resolveCursor finds the place that a token names, or the gap behind it.
func (r *rng) resolveCursor(cr *catalog.Range, token string) (place, *startGap, error) {
	c, err := decodeCursor(token)
	if err != nil {
		return place{}, nil, err
	}
	if c.Topic != r.t.id {
		return place{}, nil, r.b.foreignCursor(c.Topic, r.t.name)
	}
	if len(c.Entries) != 1 || c.Entries[0].Place.Range != r.id {
		return place{}, nil, status.New(status.CursorInvalid, "the cursor names a place that topic %q never had", r.t.name.Short())
	}
	at := place{c.Entries[0].Place.Epoch, c.Entries[0].Place.Offset}
	end := r.committed()
	if at.offset <= end.offset && at.epoch <= end.epoch {
		if lost := lostFrom(cr, at); lost < at.offset {
			return r.lost(cr, at, lost)
		}
		return at, nil, nil
	}
	if at.epoch < end.epoch {
		return r.lost(cr, at, lostFrom(cr, at))
	}
	return place{}, nil, status.New(status.CursorInvalid, "the cursor is ahead of everything that topic %q has", r.t.name.Short())
}

// lost tells a reader that it had read records which a weak topic lost in a
// crash: it goes on where their epoch was sealed.
func (r *rng) lost(cr *catalog.Range, at place, sealed ident.Offset) (place, *startGap, error) {
	gap := &startGap{Gap: Gap{Reason: GapLost, Records: uint64(at.offset - sealed), Known: true}, from: at}
	return place{r.epochAt(cr, sealed), sealed}, gap, nil
}

// lostFrom gives the end of the place's epoch if that was sealed below the
// place, else the place's own offset.
func lostFrom(cr *catalog.Range, at place) ident.Offset {
	for _, g := range segmentsOf(cr) {
		if g.Epoch > at.epoch {
			return min(at.offset, max(g.Base, cr.Start))
		}
	}
	return at.offset
}

func decodeCursor(token string) (lineage.Cursor, error) {
	c, err := lineage.Decode(token)
	if errors.Is(err, lineage.ErrMalformed) {
		return c, status.New(status.CursorInvalid, "the cursor is not one that a broker issued: %w", err)
	}
	return c, err
}

// foreignCursor says why a cursor of another topic id is refused.
func (b *Broker) foreignCursor(id ident.TopicID, name catalog.Name) error {
	var other *catalog.Topic
	var grave catalog.Tombstone
	var gone, forgetful bool
	b.control.View(func(s *catalog.State) {
		other, _ = s.Topic(id)
		grave, gone = s.Deleted(id)
		forgetful = s.Deletions() > catalog.MaxTombstones
	})
	switch {
	case other != nil:
		return status.New(status.CursorInvalid, "the cursor is of topic %q, not of %q", other.Name.Short(), name.Short())
	case gone:
		return status.New(status.CursorTopicGone, "the cursor is of a topic %q that was deleted at %s",
			grave.Name.Short(), grave.Deleted.Time().Format("2006-01-02T15:04:05Z"))
	case forgetful:
		return status.New(status.CursorTopicGone, "the cursor is of a topic that is not there any more")
	}
	return status.New(status.CursorInvalid, "the cursor is of a topic that this broker never had")
}

// cursorOutlives gives a better reason than topic_not_found when the start is
// a cursor of a topic that was deleted.
func (b *Broker) cursorOutlives(s Start, err error) error {
	if s.Kind != StartCursor || status.CodeOf(err) != status.TopicNotFound {
		return err
	}
	c, derr := decodeCursor(s.Cursor)
	if derr != nil {
		return err
	}
	if ferr := b.foreignCursor(c.Topic, catalog.Name{}); status.CodeOf(ferr) == status.CursorTopicGone {
		return ferr
	}
	return err
}

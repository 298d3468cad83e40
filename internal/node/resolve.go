package node

import (
	"errors"
	"sort"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/lineage"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// resolve finds the cursor at which a reading begins, and the gap before it.
func (t *topic) resolve(s Start) (lineage.Cursor, *Gap, error) {
	switch s.Kind {
	case StartBeginning:
		return t.state.Load().graph.Start(t.id), nil, nil
	case StartEnd:
		return t.end(), nil, nil
	case StartTime:
		c, err := t.seekTime(s.Time)
		return c, nil, err
	case StartCursor:
		return t.resolveCursor(s.Cursor)
	}
	return lineage.Cursor{}, nil, status.New(status.InvalidArgument, "unknown way to begin: %d", s.Kind)
}

// end is the cursor behind everything that may be read.
func (t *topic) end() lineage.Cursor {
	state := t.state.Load()
	c := lineage.Cursor{Topic: t.id}
	for _, r := range state.leaves {
		cr, _ := state.info.Range(r.id)
		c.Entries = append(c.Entries, lineage.Entry{Band: cr.Band, Place: t.committed(cr)})
	}
	return c
}

// committed is the end of what may be read of a range.
func (t *topic) committed(cr *catalog.Range) lineage.Place {
	p := lineage.Place{Range: cr.ID, Epoch: cr.Epoch, Offset: cr.End(), Hidden: hiddenAtEnd(cr)}
	if cr.Open == nil {
		return p
	}
	p.Epoch = cr.Open.Epoch
	if seg, ok := t.b.store.Segment(cr.Open.ID); ok {
		info := seg.Info()
		if end := info.End(); end > p.Offset {
			p.Offset, p.Hidden = end, hiddenAt(&info)
		}
	}
	return p
}

// hiddenAtEnd counts the broker's own records in the sealed segments of a range
// and before them.
func hiddenAtEnd(cr *catalog.Range) uint64 {
	if n := len(cr.Segments); n > 0 {
		last := &cr.Segments[n-1]
		return uint64(last.End) - last.UserBefore - last.Users
	}
	return uint64(cr.Start) - cr.UserBefore
}

// hiddenAt counts them before the end of a segment. What was lost is taken for
// users'.
func hiddenAt(info *segment.Info) uint64 { return uint64(info.Tail.Base) - info.Tail.UserBefore }

// setOffset moves a place within its range. Where the records before cannot be
// counted, it hides as many as it did.
func (t *topic) setOffset(cr *catalog.Range, p *lineage.Place, to ident.Offset) {
	p.Epoch, p.Offset = epochAt(cr, to), to
	if users, ok := t.usersBefore(cr, to); ok {
		p.Hidden = uint64(to) - users
	}
	p.Hidden = min(p.Hidden, uint64(to))
}

// epochAt is the epoch of the segment that holds an offset.
func epochAt(cr *catalog.Range, o ident.Offset) ident.Epoch {
	if open, ok := cr.Find(o); ok {
		return open.Epoch
	}
	return cr.Epoch
}

// seekTime finds, in each range that reading comes to, the first record that
// was appended at or after a time. A child's records are never older than its
// parents', so a range that ended before is passed over.
func (t *topic) seekTime(at ident.Timestamp) (lineage.Cursor, error) {
	state := t.state.Load()
	c := state.graph.Start(t.id)
	for {
		f, err := state.graph.Normalize(c)
		if err != nil {
			return c, err
		}
		c = f.Cursor
		passed := false
		for i := range c.Entries {
			e := &c.Entries[i]
			cr := state.readable(e)
			switch {
			case cr == nil:
			case cr.Sealed() && cr.LastTime < at && e.Place.Offset < cr.End():
				t.setOffset(cr, &e.Place, cr.End())
				passed = true
			default:
				if e.Place, err = t.seekRange(cr, at); err != nil {
					return c, err
				}
			}
		}
		if !passed {
			return c, nil
		}
	}
}

func (t *topic) seekRange(cr *catalog.Range, at ident.Timestamp) (lineage.Place, error) {
	i := sort.Search(len(cr.Segments), func(i int) bool { return cr.Segments[i].LastTime >= at })
	switch {
	case i < len(cr.Segments):
		return t.seekIn(cr.ID, cr.Segments[i].OpenSegment, at)
	case cr.Open == nil:
		return t.committed(cr), nil
	}
	return t.seekIn(cr.ID, *cr.Open, at)
}

func (t *topic) seekIn(r ident.RangeID, open catalog.OpenSegment, at ident.Timestamp) (lineage.Place, error) {
	p := lineage.Place{Range: r, Epoch: open.Epoch, Offset: open.Base, Hidden: uint64(open.Base) - open.UserBefore}
	seg, ok := t.b.store.Segment(open.ID)
	if !ok {
		return p, nil
	}
	var users uint64
	var err error
	if p.Offset, err = seg.SeekTime(at); err == nil {
		users, err = seg.UserBefore(p.Offset)
		p.Hidden = uint64(p.Offset) - users
	}
	return p, err
}

// resolveCursor finds the places that a token names, or the gaps behind them.
func (t *topic) resolveCursor(token string) (lineage.Cursor, *Gap, error) {
	c, err := decodeCursor(token)
	if err != nil {
		return c, nil, err
	}
	if c.Topic != t.id {
		return c, nil, t.b.foreignCursor(c.Topic, t.name)
	}
	state := t.state.Load()
	if state.graph.Behind(c) {
		t.refresh() // it may have been issued since
		if state = t.state.Load(); state.graph.Behind(c) {
			return c, nil, status.New(status.CursorInvalid, "the cursor names a place that topic %q never had", t.name.Short())
		}
	}
	var gap *Gap
	for i := range c.Entries {
		e := &c.Entries[i]
		cr, ok := state.info.Range(e.Place.Range)
		if !ok {
			continue // forgotten: reading tells the gap
		}
		lost, err := t.checkPlace(cr, e)
		if err != nil {
			return c, nil, err
		}
		gap = gap.plus(lost)
	}
	return c, gap, nil
}

// checkPlace refuses a place that the range never had, and moves one that a
// weak topic lost in a crash to where its epoch was sealed.
func (t *topic) checkPlace(cr *catalog.Range, e *lineage.Entry) (*Gap, error) {
	if both, ok := e.Band.Intersect(cr.Band); !ok || both != e.Band {
		return nil, status.New(status.CursorInvalid, "the cursor names a place that topic %q never had", t.name.Short())
	}
	end := t.committed(cr)
	at := e.Place
	sealed := at.Offset
	switch {
	case at.Epoch < end.Epoch:
		sealed = sealedBelow(cr, at)
	case at.Epoch > end.Epoch || at.Offset > end.Offset:
		return nil, status.New(status.CursorInvalid, "the cursor is ahead of everything that topic %q has", t.name.Short())
	}
	if sealed >= at.Offset {
		return nil, nil
	}
	t.setOffset(cr, &e.Place, sealed)
	return &Gap{Reason: GapLost, Records: at.Users() - min(at.Users(), e.Place.Users()), Known: true}, nil
}

// sealedBelow gives the end of the place's epoch if that was sealed below the
// place, else the place's own offset.
func sealedBelow(cr *catalog.Range, at lineage.Place) ident.Offset {
	for _, g := range segmentsOf(cr) {
		if g.Epoch > at.Epoch {
			return min(at.Offset, max(g.Base, cr.Start))
		}
	}
	return min(at.Offset, max(cr.End(), cr.Start))
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

// ahead counts the records that lie before a reader, by their offsets: those of
// the broker's own that stand between the users' are in it.
func (t *topic) ahead(c lineage.Cursor) (n uint64) {
	t.eachAhead(c, func(_ *catalog.Range, from, to ident.Offset) { n += uint64(to - from) })
	return n
}

// usersAhead counts the users' records that lie before a reader. It is not exact
// if some cannot be read.
func (t *topic) usersAhead(c lineage.Cursor) (n uint64, exact bool) {
	exact = true
	t.eachAhead(c, func(cr *catalog.Range, from, to ident.Offset) {
		before, ok := t.usersBefore(cr, from)
		end, ok2 := t.usersBefore(cr, to)
		if !ok || !ok2 {
			n, exact = n+uint64(to-from), false
			return
		}
		n += end - before
	})
	return n, exact
}

// usersBefore counts the users' records of a range before an offset.
func (t *topic) usersBefore(cr *catalog.Range, at ident.Offset) (uint64, bool) {
	open, ok := cr.Find(at)
	if !ok {
		last := len(cr.Segments) - 1
		if last < 0 || at != cr.End() {
			return cr.UserBefore, at == cr.Start
		}
		return cr.Segments[last].UserBefore + cr.Segments[last].Users, true
	}
	seg, there := t.b.store.Segment(open.ID)
	if !there {
		return open.UserBefore, at == open.Base
	}
	n, err := seg.UserBefore(at)
	return n, err == nil
}

// eachAhead calls f for the stretch of each range that lies before a reader.
func (t *topic) eachAhead(c lineage.Cursor, f func(cr *catalog.Range, from, to ident.Offset)) {
	state := t.state.Load()
	for _, cr := range state.info.Ranges {
		end := t.committed(cr).Offset
		// Where the reader is in the band of the range decides: in the range,
		// before it, or past it.
		place, met := end, false
		for i := range c.Entries {
			e := &c.Entries[i]
			if _, ok := e.Band.Intersect(cr.Band); !ok || e.Place.Range > cr.ID {
				continue
			}
			at := cr.Start
			if e.Place.Range == cr.ID {
				at = max(at, e.Place.Offset)
			}
			if !met || at < place {
				place, met = at, true
			}
		}
		if met && place < end {
			f(cr, place, end)
		}
	}
}

// newest is the cursor before the newest n records, divided over the ranges
// that take appends.
func (t *topic) newest(n uint64) lineage.Cursor {
	state := t.state.Load()
	c := t.end()
	share := ident.Offset(n / uint64(len(c.Entries)))
	for i := range c.Entries {
		p := &c.Entries[i].Place
		cr, _ := state.info.Range(p.Range)
		if cr == nil {
			continue
		}
		t.setOffset(cr, p, p.Offset-min(p.Offset-min(p.Offset, cr.Start), share))
	}
	return c
}

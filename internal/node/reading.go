package node

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/lineage"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// Bounds of a reading.
const (
	maxFetchRecords = 10_000
	maxFetchBytes   = 8 << 20
	// maxScan bounds how much one fetch goes through for a filter that picks
	// nothing.
	maxScan = 64 << 20
	// leastShare is the least that a reading of several ranges takes of one
	// before it goes on to the next.
	leastShare = 64 << 10
)

// bounds of one stretch.
type bounds struct{ records, bytes int }

// stretch is what one look at the log gave.
type stretch struct {
	slices  []Slice
	memory  []segment.Batches // what slices are in
	records int
	bytes   int
	scanned int    // bytes that were looked at
	passed  uint64 // records that were, also those that a filter left out
	// from is before the first record and after the gap.
	from  lineage.Cursor
	next  lineage.Cursor
	gap   *Gap
	atEnd bool
}

func (t *topic) delivery(s *stretch) Delivery {
	d := Delivery{Slices: s.slices, memory: s.memory, Cursor: s.next.Encode(), Gap: s.gap, AtEnd: s.atEnd}
	if len(s.slices) > 0 || s.gap != nil {
		d.Start = s.from.Encode()
	}
	m := t.b.metrics
	m.fetchRecords.Add(float64(s.records))
	m.fetchBytes.Add(float64(s.bytes))
	if s.gap != nil {
		m.gaps.WithLabelValues(s.gap.Reason.String()).Add(float64(s.gap.Records))
	}
	return d
}

func (g GapReason) String() string {
	switch g {
	case GapRetention:
		return "retention"
	case GapOverflow:
		return "overflow"
	case GapLost:
		return "lost"
	}
	return "unknown"
}

// plus makes one gap of two; the first one's reason stands.
func (g *Gap) plus(other *Gap) *Gap {
	switch {
	case g == nil:
		return other
	case other == nil:
		return g
	}
	return &Gap{Reason: g.Reason, Records: g.Records + other.Records, Known: g.Known && other.Known}
}

// read gives records from a cursor on, over as many ranges and segments as fit.
func (t *topic) read(at lineage.Cursor, b bounds, f Filter) (stretch, error) {
	s := stretch{next: at}
	match := f.match()
	for {
		state := t.state.Load()
		f, err := state.graph.Normalize(s.next)
		if err != nil {
			return s, err
		}
		if f.Forgotten {
			s.gap = s.gap.plus(&Gap{Reason: GapRetention})
		}
		s.next = f.Cursor
		ranges := state.ranges(s.next.Entries)
		t.overGaps(ranges, &s)
		s.from = lineage.Cursor{Topic: t.id, Entries: slices.Clone(s.next.Entries)}
		went, err := t.round(ranges, &s, b, match)
		if err != nil {
			return s, err
		}
		if s.records > 0 || s.scanned >= maxScan || s.atEnd || !went {
			break
		}
	}
	if s.records == 0 {
		// Nothing was picked on the way: whoever goes on begins behind it.
		s.from.Entries = slices.Clone(s.next.Entries)
	}
	if s.atEnd && s.records == 0 {
		return s, t.over()
	}
	return s, nil
}

// ranges are those of a frontier's entries, each nil if it cannot be read now.
func (s *topicState) ranges(entries []lineage.Entry) []*catalog.Range {
	ranges := make([]*catalog.Range, len(entries))
	for i := range entries {
		ranges[i] = s.readable(&entries[i])
	}
	return ranges
}

// overGaps moves the readable entries over what is gone at their places.
func (t *topic) overGaps(ranges []*catalog.Range, s *stretch) {
	for i, cr := range ranges {
		if cr == nil {
			continue
		}
		e := &s.next.Entries[i]
		if e.Place.Offset < cr.Start {
			lost := cr.UserBefore - min(cr.UserBefore, e.Place.Users())
			s.gap = s.gap.plus(&Gap{Reason: GapRetention, Records: lost, Known: true})
			e.Place.Epoch, e.Place.Offset = epochAt(cr, cr.Start), cr.Start
			e.Place.Hidden = uint64(cr.Start) - cr.UserBefore
		}
		if lost := t.lostAt(cr, e.Place.Offset); lost != nil {
			s.gap = s.gap.plus(&lost.Gap)
			e.Place.Epoch, e.Place.Offset, e.Place.Hidden = lost.epoch, lost.offset, lost.hidden
		}
	}
}

// round reads from each readable range in turn, beginning with another one each
// time: first a share of what is wanted, then whatever the others left. It says
// whether it got on anywhere, and sets atEnd when there is no more.
func (t *topic) round(ranges []*catalog.Range, s *stretch, b bounds, match matcher) (went bool, err error) {
	n := len(ranges)
	first := int(t.turn.Add(1) % uint64(n))
	share := b.bytes
	if n > 1 {
		share = max(b.bytes/n, leastShare)
	}
	ended := 0
	for pass := range 2 {
		ended = 0
		for k := range n {
			i := (first + k) % n
			e, cr := &s.next.Entries[i], ranges[i]
			if cr == nil {
				continue // it waits for its range's other parent
			}
			before := e.Place.Offset
			end, err := t.readRange(cr, s, i, bounds{b.records, min(b.bytes, s.bytes+share)}, match)
			if err != nil {
				return went, err
			}
			went = went || e.Place.Offset != before
			if end && !cr.Sealed() {
				ended++
			}
			if s.full(b) {
				return went, nil
			}
		}
		if share >= b.bytes || pass == 0 && ended == n {
			break
		}
		share = b.bytes
	}
	s.atEnd = ended == n
	return went, nil
}

// full says whether a stretch has all that it may.
func (s *stretch) full(b bounds) bool {
	return s.records >= b.records || s.records > 0 && s.bytes >= b.bytes || s.scanned >= maxScan
}

// readRange reads from the range of an entry until the bounds, a gap, or the
// end of what there is, and says whether that is where it stands.
func (t *topic) readRange(cr *catalog.Range, s *stretch, entry int, b bounds, match matcher) (end bool, err error) {
	const attempts = 10
	stale := 0
	at := &s.next.Entries[entry].Place
	for !s.full(b) {
		if at.Offset < cr.Start || t.lostAt(cr, at.Offset) != nil {
			return false, nil // told with the next stretch
		}
		limit := segment.Limit{Bytes: b.bytes - s.bytes, Records: b.records - s.records}
		batches, err := t.readSegment(cr, at.Offset, limit)
		switch {
		case errors.Is(err, segment.ErrOutOfRange) && stale < attempts:
			// The segment was rolled or trimmed between the two looks.
			t.refresh()
			now, ok := t.info().Range(cr.ID)
			if !ok {
				return false, nil
			}
			cr = now
			stale++
			continue
		case err != nil:
			return false, err
		case len(batches.List) == 0:
			return true, nil
		}
		done, err := s.take(batches.List, entry, b, match)
		if match == nil {
			s.memory = append(s.memory, batches)
		} else {
			batches.Release() // what was picked is a copy
		}
		if done || err != nil {
			return false, err
		}
	}
	return false, nil
}

// lostGap is a stretch that a repair had to give up, and where it ends.
type lostGap struct {
	Gap
	epoch  ident.Epoch
	offset ident.Offset
	hidden uint64
}

// lostAt gives the lost stretch at the end of a damaged segment, if that is
// where the offset is.
func (t *topic) lostAt(cr *catalog.Range, offset ident.Offset) *lostGap {
	open, ok := cr.Find(offset)
	if !ok {
		return nil
	}
	seg, there := t.b.store.Segment(open.ID)
	if !there || seg.Lost() == 0 {
		return nil
	}
	info := seg.Info()
	if offset < info.Tail.Base {
		return nil
	}
	return &lostGap{
		Gap:   Gap{Reason: GapLost, Records: uint64(info.End() - offset), Known: true},
		epoch: open.Epoch, offset: info.End(), hidden: hiddenAt(&info),
	}
}

// readSegment reads in the segment that holds the offset; nothing at the end
// of the range.
func (t *topic) readSegment(cr *catalog.Range, offset ident.Offset, limit segment.Limit) (segment.Batches, error) {
	open, ok := cr.Find(offset)
	if !ok {
		return segment.Batches{}, nil
	}
	seg, there := t.b.store.Segment(open.ID)
	switch {
	case there:
		return seg.Read(offset, limit)
	case cr.Open != nil && open.ID == cr.Open.ID:
		return segment.Batches{}, nil // granted, not made yet: nothing is in it
	}
	return segment.Batches{}, segment.ErrOutOfRange
}

// take picks the records of whole batches for an entry; it says true when the
// bounds are reached.
func (s *stretch) take(batches [][]byte, entry int, b bounds, match matcher) (bool, error) {
	at := &s.next.Entries[entry].Place
	before := at.Offset
	defer func() { s.passed += uint64(at.Offset - before) }()
	for _, raw := range batches {
		h, err := batch.ParseHeader(raw)
		if err != nil {
			return true, err
		}
		skip := 0
		if at.Offset > h.Base {
			skip = int(at.Offset - h.Base)
		}
		n := int(h.Count) - skip
		s.scanned += len(raw)
		switch {
		case h.Kind != batch.Data:
			at.Epoch, at.Offset, at.Hidden = h.Epoch, h.End(), uint64(h.End())-h.UserBefore
			continue
		case match == nil:
			n = min(n, b.records-s.records)
			s.give(Slice{Batch: raw, Skip: skip, Take: n, Entry: entry})
		default:
			picked, m, err := batch.Select(raw, skip, n, match)
			if err != nil {
				return true, err
			}
			if room := b.records - s.records; m > room {
				return true, s.takePicked(entry, h.Epoch, picked, room)
			}
			if m > 0 {
				s.give(Slice{Batch: picked, Take: m, Entry: entry})
			}
		}
		at.Epoch, at.Offset, at.Hidden = h.Epoch, h.Base+ident.Offset(skip+n), uint64(h.Base)-h.UserBefore
		if s.records >= b.records || s.scanned >= maxScan {
			return true, nil
		}
	}
	return false, nil
}

func (s *stretch) give(slice Slice) {
	s.slices = append(s.slices, slice)
	s.records += slice.Take
	s.bytes += len(slice.Batch)
}

// takePicked takes the first n records of a batch that a filter made, and stops
// behind the last of them.
func (s *stretch) takePicked(entry int, epoch ident.Epoch, picked []byte, n int) error {
	var r batch.Reader
	if err := r.Reset(picked); err != nil {
		return err
	}
	for range n {
		if !r.Next() {
			return r.Err()
		}
	}
	s.give(Slice{Batch: picked, Take: n, Entry: entry})
	at := &s.next.Entries[entry].Place
	at.Epoch, at.Offset, at.Hidden = epoch, r.Record().Offset+1, uint64(r.Header().Base)-r.Header().UserBefore
	return nil
}

type matcher func(key []byte, hasKey bool) bool

func (f Filter) match() matcher {
	switch {
	case f.Key != nil:
		return func(key []byte, hasKey bool) bool { return hasKey && bytes.Equal(key, f.Key) }
	case f.Prefix != nil:
		return func(key []byte, hasKey bool) bool { return hasKey && bytes.HasPrefix(key, f.Prefix) }
	}
	return nil
}

func (f Filter) check() error {
	if f.Key != nil && f.Prefix != nil {
		return status.New(status.InvalidArgument, "a filter is by key or by prefix, not both")
	}
	return nil
}

// Fetch reads a stretch of a topic; it waits up to req.Wait for a first
// record. The errors are topic_not_found, cursor_invalid, cursor_topic_gone,
// invalid_argument, data_corrupt, and canceled when ctx ends.
func (b *Broker) Fetch(ctx context.Context, req FetchRequest) (Delivery, error) {
	began := time.Now()
	t, err := b.lookup(req.Topic)
	if err != nil {
		return Delivery{}, b.cursorOutlives(req.Start, err)
	}
	if err := req.Filter.check(); err != nil {
		return Delivery{}, err
	}
	at, gap, err := t.resolve(req.Start)
	if err != nil {
		return Delivery{}, err
	}
	limit := bounds{bounded(req.MaxRecords, maxFetchRecords), bounded(req.MaxBytes, maxFetchBytes)}
	var expired <-chan time.Time
	if wait := min(req.Wait, MaxWait); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		expired = timer.C
	}
	for {
		changed := t.news.watch()
		s, err := t.read(at, limit, req.Filter)
		if err != nil {
			return Delivery{}, err
		}
		s.gap = gap.plus(s.gap)
		if s.records > 0 || s.gap != nil || !s.atEnd || expired == nil {
			b.metrics.fetch.Observe(time.Since(began).Seconds())
			return t.delivery(&s), nil
		}
		at = s.next
		select {
		case <-changed:
			began = time.Now()
		case <-expired:
			return t.delivery(&s), nil
		case <-ctx.Done():
			return Delivery{}, status.New(status.Canceled, "the fetch was canceled: %w", ctx.Err())
		case <-b.ctx.Done():
			return Delivery{}, errClosed
		}
	}
}

func bounded(n, most int) int {
	if n <= 0 || n > most {
		return most
	}
	return n
}

package node

import (
	"bytes"
	"context"
	"errors"
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
)

// place is where a reader stands in the range.
type place struct {
	epoch  ident.Epoch
	offset ident.Offset
}

// bounds of one stretch.
type bounds struct{ records, bytes int }

// token is the cursor for a place.
func (r *rng) token(at place) string {
	cr := r.t.catalogRange()
	return lineage.Cursor{
		Topic:   r.t.id,
		Entries: []lineage.Entry{{Band: cr.Band, Place: lineage.Place{Range: r.id, Epoch: at.epoch, Offset: at.offset}}},
	}.Encode()
}

// committed is the end of what may be read.
func (r *rng) committed() place {
	cr := r.t.catalogRange()
	if cr.Open == nil {
		return place{cr.Epoch, cr.Start}
	}
	end := place{cr.Open.Epoch, cr.Open.Base}
	if seg, ok := r.b.store.Segment(cr.Open.ID); ok {
		info := seg.Info()
		end.offset = max(end.offset, info.End())
	}
	return end
}

// stretch is what one look at the log gave.
type stretch struct {
	slices  []Slice
	memory  []segment.Batches // what slices are in
	records int
	scanned int
	from    place
	next    place
	gap     *Gap
	atEnd   bool
}

func (r *rng) delivery(s *stretch) Delivery {
	d := Delivery{Slices: s.slices, memory: s.memory, Cursor: r.token(s.next), Gap: s.gap, AtEnd: s.atEnd}
	if len(s.slices) > 0 || s.gap != nil {
		d.Start = r.token(s.from)
	}
	m := r.b.metrics
	n := 0
	for i := range s.slices {
		n += len(s.slices[i].Batch)
	}
	m.fetchRecords.Add(float64(s.records))
	m.fetchBytes.Add(float64(n))
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

// read gives records from a place on, over as many segments as fit.
func (r *rng) read(at place, b bounds, f Filter) (stretch, error) {
	s := stretch{from: at, next: at}
	match := f.match()
	const attempts = 10
	stale := 0
	for s.records < b.records && s.scanned < maxScan {
		cr := r.t.catalogRange()
		if s.next.offset < cr.Start {
			if s.records > 0 {
				return s, nil
			}
			s.gap = &Gap{Reason: GapRetention, Records: uint64(cr.Start - s.next.offset), Known: true}
			s.next = place{r.epochAt(cr, cr.Start), cr.Start}
		}
		room := b.bytes
		for i := range s.slices {
			room -= len(s.slices[i].Batch)
		}
		if room <= 0 {
			return s, nil
		}
		if lost := r.lostAt(cr, s.next.offset); lost != nil {
			if s.records > 0 || s.gap != nil {
				return s, nil
			}
			s.gap, s.next = &lost.Gap, lost.to
		}
		batches, err := r.readSegment(cr, s.next.offset, segment.Limit{Bytes: room, Records: b.records - s.records})
		switch {
		case errors.Is(err, segment.ErrOutOfRange) && stale < attempts:
			// The segment was rolled or trimmed between the two looks.
			r.t.refresh(r.b)
			stale++
			continue
		case err != nil:
			return s, err
		case len(batches.List) == 0:
			s.atEnd = true
			return s, r.reason()
		}
		done, err := s.take(batches.List, b, match)
		if match == nil {
			s.memory = append(s.memory, batches)
		} else {
			batches.Release() // what was picked is a copy
		}
		if done || err != nil {
			return s, err
		}
	}
	return s, nil
}

// lostGap is a stretch that a repair had to give up.
type lostGap struct {
	Gap
	to place
}

// lostAt gives the lost stretch at the end of a damaged segment, if that is
// where the offset is.
func (r *rng) lostAt(cr *catalog.Range, offset ident.Offset) *lostGap {
	open, ok := cr.Find(offset)
	if !ok {
		return nil
	}
	seg, there := r.b.store.Segment(open.ID)
	if !there {
		return nil
	}
	info := seg.Info()
	if info.Lost == 0 || offset < info.Tail.Base {
		return nil
	}
	return &lostGap{
		Gap: Gap{Reason: GapLost, Records: uint64(info.End() - offset), Known: true},
		to:  place{open.Epoch, info.End()},
	}
}

// readSegment reads in the segment that holds the offset; nothing at the end
// of the range.
func (r *rng) readSegment(cr *catalog.Range, offset ident.Offset, limit segment.Limit) (segment.Batches, error) {
	open, ok := cr.Find(offset)
	if !ok {
		return segment.Batches{}, nil
	}
	seg, there := r.b.store.Segment(open.ID)
	switch {
	case there:
		return seg.Read(offset, limit)
	case cr.Open != nil && open.ID == cr.Open.ID:
		return segment.Batches{}, nil // granted, not made yet: nothing is in it
	}
	return segment.Batches{}, segment.ErrOutOfRange
}

// take picks the records of whole batches; it says true when the bounds are
// reached.
func (s *stretch) take(batches [][]byte, b bounds, match matcher) (bool, error) {
	for _, raw := range batches {
		h, err := batch.ParseHeader(raw)
		if err != nil {
			return true, err
		}
		skip := 0
		if s.next.offset > h.Base {
			skip = int(s.next.offset - h.Base)
		}
		n := int(h.Count) - skip
		s.scanned += len(raw)
		switch {
		case h.Kind != batch.Data:
			s.next = place{h.Epoch, h.End()}
			continue
		case match == nil:
			n = min(n, b.records-s.records)
			s.slices = append(s.slices, Slice{Batch: raw, Skip: skip, Take: n})
			s.records += n
		default:
			picked, m, err := batch.Select(raw, skip, n, match)
			if err != nil {
				return true, err
			}
			if room := b.records - s.records; m > room {
				return true, s.takePicked(h.Epoch, picked, room)
			}
			if m > 0 {
				s.slices = append(s.slices, Slice{Batch: picked, Take: m})
				s.records += m
			}
		}
		s.next = place{h.Epoch, h.Base + ident.Offset(skip+n)}
		if s.records >= b.records || s.scanned >= maxScan {
			return true, nil
		}
	}
	return false, nil
}

// takePicked takes the first n records of a batch that a filter made, and stops
// behind the last of them.
func (s *stretch) takePicked(epoch ident.Epoch, picked []byte, n int) error {
	var r batch.Reader
	if err := r.Reset(picked); err != nil {
		return err
	}
	for range n {
		if !r.Next() {
			return r.Err()
		}
	}
	s.slices = append(s.slices, Slice{Batch: picked, Take: n})
	s.records += n
	s.next = place{epoch, r.Record().Offset + 1}
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

// reason is why the range gives nothing more, if that is an error.
func (r *rng) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
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
	at, gap, err := t.rng.resolve(req.Start)
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
		changed := t.rng.watch()
		s, err := t.rng.read(at, limit, req.Filter)
		if err != nil {
			return Delivery{}, err
		}
		if gap != nil {
			s.from, s.gap = gap.from, &gap.Gap
		}
		if s.records > 0 || s.gap != nil || !s.atEnd || expired == nil {
			b.metrics.fetch.Observe(time.Since(began).Seconds())
			return t.rng.delivery(&s), nil
		}
		at = s.next
		select {
		case <-changed:
			began = time.Now()
		case <-expired:
			return t.rng.delivery(&s), nil
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

package node

import (
	"errors"
	"time"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// minRollBytes is the least size at which a segment is rolled because of
// retention.
const minRollBytes = 64 << 10

// rollBytes is the size at which the open segment is rolled: the topic's
// segment size, and no more than a quarter of what retention keeps, so that
// what is kept stays near the limit.
func (r *rng) rollBytes() int64 {
	s := r.t.info().Settings
	limit := s.SegmentBytes
	if s.RetentionBytes > 0 {
		limit = min(limit, max(s.RetentionBytes/4, minRollBytes))
	}
	return int64(limit)
}

// rollAge is likewise the age at which a segment that is not empty is rolled.
func rollAge(s catalog.Settings) time.Duration {
	age := s.SegmentAge
	if s.RetentionAge > 0 {
		age = min(age, max(s.RetentionAge/4, time.Second))
	}
	return age
}

// tend rolls old segments and lets go of what retention does not keep. A clock
// that is not sound deletes nothing by age.
func (t *topic) tend(now ident.Timestamp, sound bool) {
	state := t.state.Load()
	s := state.info.Settings
	for _, r := range state.leaves {
		r.age(s, now, sound)
	}
	if s.RetentionBytes > 0 || s.RetentionAge > 0 {
		t.trim(state.info, now, sound)
	}
}

// age rolls the open segment when it is old, and when all its records are past
// what retention keeps, so that they can be let go of.
func (r *rng) age(s catalog.Settings, now ident.Timestamp, sound bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil || !sound {
		return
	}
	if r.seg != nil && !r.opening && r.first != 0 && since(now, r.first) >= rollAge(s) {
		r.succeed(succeedRoll)
	}
	if s.RetentionAge == 0 {
		return
	}
	cr, ok := r.t.info().Range(r.id)
	if !ok || cr.Open == nil || r.opening {
		return
	}
	seg, ok := r.b.store.Segment(cr.Open.ID)
	if !ok {
		return
	}
	if tail := seg.Info().Tail; tail.UserBefore != cr.Open.UserBefore && since(now, tail.LastTime) > s.RetentionAge {
		r.succeed(succeedRoll)
	}
}

func since(now, then ident.Timestamp) time.Duration {
	return time.Duration(now-then) * time.Microsecond
}

// expiry is what may go of a range: its sealed segments through one.
type expiry struct {
	rng     ident.RangeID
	through ident.SegmentID
}

// trim proposes what the settings let go of, in the background.
func (t *topic) trim(info *catalog.Topic, now ident.Timestamp, sound bool) {
	gone := expired(info, t.bytes(info), now, sound)
	if len(gone) == 0 || !t.trimming.CompareAndSwap(false, true) {
		return
	}
	started := t.b.spawn(func() {
		defer t.trimming.Store(false)
		for _, x := range gone {
			cmd := catalog.Trim{Topic: info.ID, TopicVersion: info.Version, Range: x.rng, Through: x.through}
			res, err := t.b.propose(cmd)
			t.refresh()
			switch {
			case err == nil:
				t.b.log.Debug("retention", "topic", info.Name.Short(), "segments", len(res.Retired))
			case errors.Is(err, catalog.ErrConflict):
				return
			default:
				t.b.log.Warn("retention could not trim", "topic", info.Name.Short(), "err", err)
				return
			}
		}
	})
	if !started {
		t.trimming.Store(false)
	}
}

// expired gives what may go, by range: the sealed segments that are too old,
// and the oldest of all ranges while the rest is still more than retention
// keeps. In a range the oldest goes first, and a range's parents before it.
func expired(info *catalog.Topic, kept uint64, now ident.Timestamp, sound bool) []expiry {
	s := info.Settings
	type candidate struct {
		r    *catalog.Range
		next int
	}
	var open []*candidate
	for _, r := range info.Ranges {
		if len(r.Segments) > 0 {
			open = append(open, &candidate{r: r})
		}
	}
	gone := map[ident.RangeID]ident.SegmentID{}
	for {
		// The oldest segment of all. Append times do not run back along the
		// lineage, and of equal ones the lower range is the parent.
		var oldest *candidate
		for _, c := range open {
			if c.next < len(c.r.Segments) &&
				(oldest == nil || c.r.Segments[c.next].LastTime < oldest.r.Segments[oldest.next].LastTime) {
				oldest = c
			}
		}
		if oldest == nil {
			break
		}
		g := &oldest.r.Segments[oldest.next]
		tooMany := s.RetentionBytes > 0 && kept-g.Bytes >= s.RetentionBytes
		tooOld := s.RetentionAge > 0 && sound && since(now, g.LastTime) > s.RetentionAge
		if !tooMany && !tooOld {
			break
		}
		gone[oldest.r.ID] = g.ID
		kept -= g.Bytes
		oldest.next++
	}
	var list []expiry
	for _, r := range info.Ranges {
		if through, ok := gone[r.ID]; ok {
			list = append(list, expiry{r.ID, through})
		}
	}
	return list
}

// bytes sums what is stored of the topic.
func (t *topic) bytes(info *catalog.Topic) uint64 {
	n := uint64(0)
	for _, r := range info.Ranges {
		n += t.rangeBytes(r)
	}
	return n
}

// rangeBytes sums what is stored of a range.
func (t *topic) rangeBytes(r *catalog.Range) uint64 {
	n := uint64(0)
	for i := range r.Segments {
		n += r.Segments[i].Bytes
	}
	if r.Open == nil {
		return n
	}
	if seg, ok := t.b.store.Segment(r.Open.ID); ok {
		n += uint64(seg.Info().Bytes)
	}
	return n
}

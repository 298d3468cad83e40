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
	s := r.t.info.Load().Settings
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

// tend rolls an old segment and lets go of what retention does not keep. A
// clock that is not sound deletes nothing by age.
func (r *rng) tend(now ident.Timestamp, sound bool) {
	info := r.t.info.Load()
	r.mu.Lock()
	if r.seg != nil && !r.opening && r.first != 0 && sound && since(now, r.first) >= rollAge(info.Settings) {
		r.succeed(succeedRoll)
	}
	r.mu.Unlock()
	r.trim(info, now, sound)
}

func since(now, then ident.Timestamp) time.Duration {
	return time.Duration(now-then) * time.Microsecond
}

// trim proposes what the settings let go of, in the background.
func (r *rng) trim(info *catalog.Topic, now ident.Timestamp, sound bool) {
	s := info.Settings
	if s.RetentionBytes == 0 && s.RetentionAge == 0 {
		return
	}
	cr := info.Ranges[0]
	through := expired(cr, s, r.openBytes(cr), now, sound)
	if through == 0 {
		r.sealExpired(cr, s, now, sound)
		return
	}
	if !r.trimming.CompareAndSwap(false, true) {
		return
	}
	started := r.b.spawn(func() {
		defer r.trimming.Store(false)
		res, err := r.b.propose(catalog.Trim{Topic: info.ID, TopicVersion: info.Version, Range: cr.ID, Through: through})
		switch {
		case err == nil:
			r.t.refresh(r.b)
			r.b.log.Debug("retention", "topic", info.Name.Short(), "segments", len(res.Retired))
		case errors.Is(err, catalog.ErrConflict):
			r.t.refresh(r.b)
		default:
			r.b.log.Warn("retention could not trim", "topic", info.Name.Short(), "err", err)
		}
	})
	if !started {
		r.trimming.Store(false)
	}
}

// expired gives the last of the leading sealed segments that may go; 0 is
// none.
func expired(cr *catalog.Range, s catalog.Settings, openBytes uint64, now ident.Timestamp, sound bool) ident.SegmentID {
	kept := openBytes
	for i := range cr.Segments {
		kept += cr.Segments[i].Bytes
	}
	through := ident.SegmentID(0)
	for i := range cr.Segments {
		g := &cr.Segments[i]
		tooMany := s.RetentionBytes > 0 && kept-g.Bytes >= s.RetentionBytes
		tooOld := s.RetentionAge > 0 && sound && since(now, g.LastTime) > s.RetentionAge
		if !tooMany && !tooOld {
			break
		}
		through = g.ID
		kept -= g.Bytes
	}
	return through
}

// sealExpired rolls an open segment whose records are all past their age, so
// that they can be let go of.
func (r *rng) sealExpired(cr *catalog.Range, s catalog.Settings, now ident.Timestamp, sound bool) {
	if s.RetentionAge == 0 || !sound || cr.Open == nil {
		return
	}
	seg, ok := r.b.store.Segment(cr.Open.ID)
	if !ok {
		return
	}
	tail := seg.Info().Tail
	if tail.Base == cr.Open.Base || since(now, tail.LastTime) <= s.RetentionAge {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.succeed(succeedRoll)
}

func (r *rng) openBytes(cr *catalog.Range) uint64 {
	if cr.Open == nil {
		return 0
	}
	if seg, ok := r.b.store.Segment(cr.Open.ID); ok {
		return uint64(seg.Info().Bytes)
	}
	return 0
}

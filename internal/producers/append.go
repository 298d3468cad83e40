package producers

import (
	"fmt"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// Accept takes a batch into the state that was appended with its first record
// at offset base, in an epoch, at the log time now. Judge must have said so
// before, or an earlier Judge of the same log: for what it would not have said
// Accept returns ErrLog and changes nothing.
func (s *State) Accept(h *batch.Producer, records []Record, epoch ident.Epoch, base ident.Offset, now ident.Timestamp) error {
	s.mustBeComplete()
	if err := s.check(h, records); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	p := s.live(h.ID, now)
	if p != nil && h.Session < p.session {
		return fmt.Errorf("%w: session %d of producer %x after %d", ErrLog, h.Session, h.ID, p.session)
	}
	j := judgement{entries: s.session(p, h.Session)}
	if known := j.lookUp(records); known > 0 {
		return fmt.Errorf("%w: %d records of producer %x from sequence %d are there twice", ErrLog, known, h.ID, h.First)
	}
	entries := s.next(p, h)
	for i := range entries {
		e := &entries[i]
		if runs := runsIn(e.band, records, Place{s.id, epoch, base, now}); len(runs) > 0 {
			e.add(runs)
		}
	}
	if p == nil {
		s.evict(now)
	}
	s.put(h.ID, &producer{h.Session, now, entries})
	return nil
}

func (s *State) put(id batch.ProducerID, p *producer) {
	s.producers[id] = p
	s.soonest = min(s.soonest, expiry(id, p.last))
}

// runsIn are the records of a batch that lie in a band, if the first record of
// the batch stands at place.
func runsIn(band keyspace.Band, records []Record, place Place) []run {
	var runs []run
	for n, r := range records {
		if !band.Contains(r.Position) {
			continue
		}
		next := run{r.Sequence, 1, place}
		next.place.Offset += ident.Offset(n)
		if n := len(runs); n > 0 && next.follows(&runs[n-1]) {
			runs[n-1].count++
		} else {
			runs = append(runs, next)
		}
	}
	return runs
}

// Discard takes out what the range's own log held at offset from and behind it,
// because it left the log again uncommitted. Sessions, floors and times of last
// use stay: they are what clients said, and true without the records. A state
// that is folded again from the log may lack them, and gives the same verdicts
// to clients that keep to the rules.
func (s *State) Discard(from ident.Offset) {
	for _, p := range s.producers {
		entries := make([]entry, len(p.entries))
		for i, e := range p.entries {
			var kept []run
			for _, r := range e.runs() {
				if r.place.Range == s.id && r.place.Offset+ident.Offset(r.count) > from {
					if r.place.Offset >= from {
						continue
					}
					r.count = uint64(from - r.place.Offset)
				}
				kept = append(kept, r)
			}
			e.put(kept)
			entries[i] = e
		}
		p.entries = entries
	}
}

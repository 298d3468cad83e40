// Package producers recognizes the retries of a producer at a range, by the
// rules P of the protocol. It is pure: log time comes in with each call.
//
// A State is a fold over the range's log in uncommitted order: every stored
// batch is given to it once and in order, by Accept while the range runs and by
// Fold when the log is read again; what leaves the log again is given to
// Discard. What Judge says rests on that prefix, so no answer but an append may
// be given before the tail at the time of the judgement is committed (I13).
//
// Per producer a State has one session and, per band, a floor F and the set S
// of the sequences above F that are in the log, with their results. The bands
// of a producer's entries tile the range's band; there is one entry until a
// merge brings two together. Sequences at or below F are settled at the
// client. What always holds: a sequence is in S exactly if its record is in the
// log and F has not passed it.
//
// Order rests on prev: a record follows the one before it of those of its band
// that may still come. These are more than the client still sends: what it has
// abandoned above the floor may be on its way, and is new to the range. So a
// client counts it as unsettled in prev until a floor passes it, and no batch
// reaches across it (TestAbandonedAboveTheFloorNeedsPrev).
package producers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// The limits of a State.
const (
	// MaxProducers is how many producers a range remembers. Beyond them new
	// ones are refused until others expire; a merge may bring it above.
	MaxProducers = 10_000
	// MaxWindow bounds the coded set of accepted sequences above the floor, in
	// bytes per producer and band. In flight batches take about six bytes each
	// and a byte or two for every hole in their sequences.
	MaxWindow = 64 << 10
	// MaxEntries is how many entries a producer may have for a batch to cut one.
	// Merges may bring together more.
	MaxEntries = 16
)

// ErrLog is wrapped by errors about a log that cannot have been written by
// these rules: what was stored was not judged before, or is folded twice.
var ErrLog = errors.New("the log breaks the rules of producers")

// State is what a range knows of its producers. It is not safe for concurrent
// use.
type State struct {
	id        ident.RangeID
	band      keyspace.Band
	producers map[batch.ProducerID]*producer
	// soonest is a lower bound of the times at which a producer expires.
	soonest ident.Timestamp
	// pending is the carried-forward state of which not all has been folded.
	pending *carried
}

// producer is what a range knows of one. Its slices are replaced and never
// written to, so that copies may share them.
type producer struct {
	session uint64
	last    ident.Timestamp
	entries []entry
}

// entry is a producer's state for the positions of a band.
type entry struct {
	band  keyspace.Band
	floor uint64
	set   set
	// top is the last sequence of the set, or the floor if it is empty, and next
	// the place behind it: most batches come behind all others, and need to know
	// no more.
	top  uint64
	next Place
}

// New is the state of a range without history.
func New(id ident.RangeID, band keyspace.Band) *State {
	return &State{id: id, band: band, producers: map[batch.ProducerID]*producer{}, soonest: forever}
}

// Len is the number of producers that take memory; some may have expired.
func (s *State) Len() int { return len(s.producers) }

// Complete says whether all of a carried-forward state has been folded. A state
// that is not complete may not be asked.
func (s *State) Complete() bool { return s.pending == nil }

// live is the producer of that id, unless it has expired.
func (s *State) live(id batch.ProducerID, now ident.Timestamp) *producer {
	p := s.producers[id]
	if p == nil || expired(id, p.last, now) {
		return nil
	}
	return p
}

// ids are the producers in the order of their ids.
func (s *State) ids() []batch.ProducerID {
	return slices.SortedFunc(maps.Keys(s.producers), func(a, b batch.ProducerID) int { return bytes.Compare(a[:], b[:]) })
}

// Close forgets a producer whose id was drawn, at once; a CloseRecord
// must be in the log for it. Of an older session, of a producer that the user
// named, and of one that is not known it does nothing.
func (s *State) Close(id batch.ProducerID, session uint64) {
	if s.Closes(id, session) {
		delete(s.producers, id)
	}
}

// Closes says whether Close would forget anything.
func (s *State) Closes(id batch.ProducerID, session uint64) bool {
	p := s.producers[id]
	return p != nil && Drawn(id) && session >= p.session
}

// session is what p means to batches of a session: a new session, like a new
// producer, begins with nothing known.
func (s *State) session(p *producer, session uint64) []entry {
	if p == nil || session > p.session {
		return []entry{{band: s.band}}
	}
	return p.entries
}

// find is the index of the entry that has the position.
func find(entries []entry, at ident.Position) int {
	i, _ := slices.BinarySearchFunc(entries, at, func(e entry, at ident.Position) int {
		if e.band.Last < at {
			return -1
		}
		return 1
	})
	return i
}

// cut gives entries of which each lies inside or outside of the band of h. Only
// a client that has not taken a merge over into its bands needs it: it first
// settles what is outstanding, by the floors and in the order of the bands it
// knows. A cut is as sound as a split. Without it the set of an entry could have
// a sequence that does not follow all those before it in the entry's band, and
// continues would be wrong.
func cut(entries []entry, h *batch.Producer) []entry {
	pieces := make([]entry, 0, len(entries)+2)
	for _, e := range entries {
		part, some := e.band.Intersect(h.Band)
		if !some || part == e.band {
			pieces = append(pieces, e)
			continue
		}
		bands := append(e.band.Without(part), part)
		slices.SortFunc(bands, func(a, b keyspace.Band) int { return cmp.Compare(a.First, b.First) })
		for _, b := range bands {
			piece := e
			piece.band = b
			pieces = append(pieces, piece)
		}
	}
	return pieces
}

// inside says whether e lies in the band of h, outside of which e lies else.
func (e *entry) inside(h *batch.Producer) bool { return h.Band.Contains(e.band.First) }

// floorAfter is e's floor once h is appended.
func (e *entry) floorAfter(h *batch.Producer) uint64 {
	if e.inside(h) {
		return max(e.floor, h.Floor)
	}
	return e.floor
}

// raise moves the floor of e and prunes its set.
func (e *entry) raise(floor uint64) {
	switch {
	case floor >= e.top:
		e.floor = floor
		e.put(nil)
	case floor > e.floor:
		e.set = e.set.above(e.floor, floor)
		e.floor = floor
	}
}

// put makes runs above the floor the set.
func (e *entry) put(runs []run) {
	e.set = nil
	e.top, e.next = e.floor, Place{}
	if len(runs) > 0 {
		e.set = appendRuns(make([]byte, 0, 8*len(runs)), e.floor, Place{}, runs)
		e.mark(runs)
	}
}

// mark notes what comes behind the runs of the set.
func (e *entry) mark(runs []run) {
	if n := len(runs); n > 0 {
		e.top = runs[n-1].end()
		e.next = runs[n-1].at(e.top + 1)
	}
}

// add takes runs into the set.
func (e *entry) add(runs []run) {
	if first := &runs[0]; first.first <= e.top || first.first == e.top+1 && first.place == e.next {
		e.put(union(e.runs(), runs))
		return
	}
	set := make([]byte, len(e.set), len(e.set)+8*len(runs))
	copy(set, e.set)
	e.set = appendRuns(set, e.top, e.next, runs)
	e.mark(runs)
}

func (e *entry) runs() []run { return e.set.decode(e.floor) }

// join makes one entry of equal neighbours in the band of h. This is how the
// entries of a merge end: a client that speaks for the merged band has settled
// all that was outstanding, so its floor empties both sets. Sets that differ
// stay apart, even above one floor: that of the one says nothing about what came
// before in the band of the other.
func join(entries []entry, h *batch.Producer) []entry {
	joined := make([]entry, 0, len(entries))
	for _, e := range entries {
		if n := len(joined); n > 0 && e.inside(h) && joined[n-1].inside(h) &&
			joined[n-1].floor == e.floor && bytes.Equal(joined[n-1].set, e.set) {
			joined[n-1].band.Last = e.band.Last
			continue
		}
		joined = append(joined, e)
	}
	return joined
}

// next are the entries for a batch of h: cut at its band, raised to its floor
// and joined.
func (s *State) next(p *producer, h *batch.Producer) []entry {
	entries := cut(s.session(p, h.Session), h)
	for i := range entries {
		entries[i].raise(entries[i].floorAfter(h))
	}
	return join(entries, h)
}

// check says what of a batch cannot be judged, or nil.
func (s *State) check(h *batch.Producer, records []Record) error {
	if len(records) == 0 || records[0].Sequence != h.First {
		return fmt.Errorf("the records do not begin with sequence %d", h.First)
	}
	if h.Floor > h.Prev || h.Prev >= h.First {
		return fmt.Errorf("floor %d, prev %d, first %d do not follow each other", h.Floor, h.Prev, h.First)
	}
	for i, r := range records {
		if i > 0 && r.Sequence <= records[i-1].Sequence {
			return fmt.Errorf("sequence %d comes after %d", r.Sequence, records[i-1].Sequence)
		}
		if !s.band.Contains(r.Position) || !h.Band.Contains(r.Position) {
			return fmt.Errorf("sequence %d has position %016x outside of the band %s, or of the range's, %s",
				r.Sequence, uint64(r.Position), h.Band, s.band)
		}
	}
	return nil
}

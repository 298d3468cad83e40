package producers

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// Decision is what becomes of a batch.
type Decision uint8

// The decisions.
const (
	// Refuse: the batch is answered with the verdict's error.
	Refuse Decision = iota
	// Append: the batch is appended, and Accept told so.
	Append
	// Duplicate: all of the batch was appended before; it is answered with the
	// verdict's results.
	Duplicate
)

// Known says what a range knows of a record.
type Known uint8

// What can be known.
const (
	// NotKnown: the record is not in the log, as far as the range knows.
	NotKnown Known = iota
	// Appended: the record is in the log at the result's place.
	Appended
	// Settled: the client has settled the record, so its result is forgotten.
	Settled
)

// Result is what is known of one record of a batch.
type Result struct {
	Known Known
	Place Place // if Appended
}

// Verdict is the answer of Judge.
type Verdict struct {
	Decision Decision
	// Results has one result a record, of duplicates and partial duplicates.
	Results []Result
	// Err is why the batch is refused, with one of the codes that Judge names.
	Err *status.Error
}

func refuse(code status.Code, format string, args ...any) Verdict {
	return Verdict{Err: status.New(code, format, args...)}
}

// Judge says what becomes of a batch with the producer fields h and these
// records, if log time is now. It changes nothing. The codes of its refusals:
//
//   - invalid_argument: the fields or the records contradict each other
//   - producer_fenced: a newer session of the producer has appended
//   - partial_duplicate: only some records are in the log; the results say which
//   - window_full: too much above the floor is in the log (MaxWindow), or the
//     bands of the producer's batches differ too much (MaxEntries)
//   - out_of_order: an earlier record that may still come is not in the log
//   - limit_reached: the range has too many other producers (MaxProducers)
func (s *State) Judge(h *batch.Producer, records []Record, now ident.Timestamp) Verdict {
	s.mustBeComplete()
	if err := s.check(h, records); err != nil {
		return refuse(status.InvalidArgument, "%w", err)
	}
	p := s.live(h.ID, now)
	switch {
	case p != nil && h.Session < p.session:
		return refuse(status.ProducerFenced, "session %d of the producer was followed by session %d", h.Session, p.session)
	case p == nil && !s.room(now):
		return refuse(status.LimitReached, "the range has %d producers, the most that it remembers", MaxProducers)
	}
	j := judgement{entries: s.session(p, h.Session)}
	switch known := j.lookUp(records); {
	case known == len(records):
		return Verdict{Decision: Duplicate, Results: j.results}
	case known > 0:
		v := refuse(status.PartialDuplicate, "%d of %d records were appended before", known, len(records))
		v.Results = j.results
		return v
	}
	before := len(j.entries)
	j = judgement{entries: s.next(p, h)}
	if n := len(j.entries); n > before && n > MaxEntries {
		return refuse(status.WindowFull, "the producer would have %d bands with a floor of their own, at most %d", n, MaxEntries)
	}
	if size := j.window(records); size > MaxWindow {
		return refuse(status.WindowFull, "the sequences above %d would take %d bytes, at most %d", h.Floor, size, MaxWindow)
	}
	if !j.continues(h) {
		return refuse(status.OutOfOrder, "sequence %d comes before %d, and is not in the log", h.Prev, h.First)
	}
	return Verdict{Decision: Append}
}

// judgement holds the decoded entries of a producer.
type judgement struct {
	entries []entry
	decoded [][]run // of each entry, once it was needed
	results []Result
}

// runs are those of entry i.
func (j *judgement) runs(i int) []run {
	if j.decoded == nil {
		j.decoded = make([][]run, len(j.entries))
	}
	if j.decoded[i] == nil {
		j.decoded[i] = j.entries[i].runs()
	}
	return j.decoded[i]
}

// lookUp fills the results and counts what is known. A sequence is judged by
// its position's entry.
func (j *judgement) lookUp(records []Record) (known int) {
	if !slices.ContainsFunc(j.entries, func(e entry) bool { return records[0].Sequence <= e.top }) {
		return 0 // all of it is behind all that is known
	}
	j.results = make([]Result, len(records))
	for i, r := range records {
		e := find(j.entries, r.Position)
		if r.Sequence <= j.entries[e].floor {
			j.results[i].Known = Settled
			known++
		} else if place, ok := search(j.runs(e), r.Sequence); ok {
			j.results[i] = Result{Appended, place}
			known++
		}
	}
	return known
}

// continues says whether the batch follows what may come before it. Prev lies in
// the band of the batch, its position is not known: so each entry of that band
// must have it in its set, or a floor that has passed it. That one set has it
// would not do: in its band prev may have been the first to come, while in
// another one, before a merge, something earlier is missing. The batch's own
// floor counts: where nothing before it is unsettled, prev is that floor.
func (j *judgement) continues(h *batch.Producer) bool {
	for i := range j.entries {
		if e := &j.entries[i]; e.inside(h) && h.Prev > e.floor && h.Prev != e.top {
			if _, ok := search(j.runs(i), h.Prev); !ok {
				return false
			}
		}
	}
	return true
}

// farAway is a place that differs from all others in every field, and by much.
var farAway = Place{Range: 1 << 62, Epoch: 1 << 62, Offset: 1 << 62, AppendTime: -1 << 62}

// window is at least the size of the largest set once the records are appended,
// wherever that will be.
func (j *judgement) window(records []Record) (size int) {
	for i := range j.entries {
		e := &j.entries[i]
		// Most batches are far below the limit, and need not be looked at.
		if most := len(e.set) + firstRunBytes + runBytes*len(records); most <= MaxWindow && records[0].Sequence > e.top {
			size = max(size, most)
			continue
		}
		if runs := runsIn(e.band, records, farAway); len(runs) > 0 {
			size = max(size, len(appendRuns(nil, e.floor, Place{}, union(j.runs(i), runs))))
		}
	}
	return size
}

// What a run of one batch takes in a set at most: two integers, and the first of
// them its place as well.
const (
	runBytes      = 2 * binary.MaxVarintLen64
	firstRunBytes = 4 * binary.MaxVarintLen64
)

func (s *State) mustBeComplete() {
	if s.pending != nil {
		panic(fmt.Sprintf("producers: a state is asked of which only %d parts are folded", s.pending.parts))
	}
}

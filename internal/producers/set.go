package producers

import (
	"encoding/binary"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/varint"
)

// Place is the result of an appended record: where it stands, and when it was
// appended. The range is part of it because a child answers for its parents.
type Place struct {
	Range      ident.RangeID
	Epoch      ident.Epoch
	Offset     ident.Offset
	AppendTime ident.Timestamp
}

// run is neighbouring sequences with neighbouring offsets of one batch. A run
// has at least one.
type run struct {
	first uint64
	count uint64
	place Place // of the first
}

func (r *run) end() uint64 { return r.first + r.count - 1 }

// at is the place of a sequence of r.
func (r *run) at(sequence uint64) Place {
	p := r.place
	p.Offset += ident.Offset(sequence - r.first)
	return p
}

// follows says whether r continues l, so that the two are one run.
func (r *run) follows(l *run) bool {
	return r.first == l.end()+1 && r.place == l.at(r.first)
}

// from is what is left of r at and above a sequence.
func (r *run) from(sequence uint64) run {
	return run{sequence, r.end() - sequence + 1, r.at(sequence)}
}

// set is a set of sequences with their places, in the coding of FORMAT.md: runs
// in rising order, none continuing the one before. It is kept coded, because it
// takes a twentieth of the memory and its limit is one of coded bytes.
type set []byte

// What a run says of itself, in the lowest bits of its count.
const (
	newHome   = 1 << iota // range and epoch follow
	newOffset             // the offset does not continue the run before
	newTime               // the append time follows
	runBits   = iota
)

// appendRuns codes runs above a floor, or behind those of a set with this top and
// this place behind it.
func appendRuns(b []byte, floor uint64, expect Place, runs []run) set {
	for i := range runs {
		r := &runs[i]
		var flags uint64
		if r.place.Range != expect.Range || r.place.Epoch != expect.Epoch {
			flags |= newHome
		}
		if r.place.Offset != expect.Offset {
			flags |= newOffset
		}
		if r.place.AppendTime != expect.AppendTime {
			flags |= newTime
		}
		b = binary.AppendUvarint(b, r.first-floor-1)
		b = binary.AppendUvarint(b, (r.count-1)<<runBits|flags)
		if flags&newHome != 0 {
			b = varint.AppendDifference(b, uint64(r.place.Range), uint64(expect.Range))
			b = varint.AppendDifference(b, uint64(r.place.Epoch), uint64(expect.Epoch))
		}
		if flags&newOffset != 0 {
			b = varint.AppendDifference(b, uint64(r.place.Offset), uint64(expect.Offset))
		}
		if flags&newTime != 0 {
			b = varint.AppendDifference(b, uint64(r.place.AppendTime), uint64(expect.AppendTime))
		}
		floor, expect = r.end(), r.at(r.end()+1)
	}
	return b
}

// decode gives the runs of a set that this package made or checked.
func (b set) decode(floor uint64) []run {
	runs, ok := b.parse(floor)
	if !ok {
		panic("producers: a set in memory is malformed")
	}
	return runs
}

// parse reads what appendRuns wrote, and nothing else.
func (b set) parse(floor uint64) ([]run, bool) {
	runs := make([]run, 0, len(b)/2) // no run has less than two bytes
	for w := (walk{in: varint.Scanner{Rest: b}, floor: floor}); ; {
		more, ok := w.next()
		if !ok || !more {
			return runs, ok
		}
		runs = append(runs, w.run)
	}
}

// above is the set above a higher floor, below its last sequence. The coding of
// all runs but the first stays.
func (b set) above(floor, higher uint64) set {
	for w := (walk{in: varint.Scanner{Rest: b}, floor: floor}); ; {
		if more, ok := w.next(); !ok || !more {
			panic("producers: a set in memory is malformed")
		}
		if w.run.end() > higher {
			first := w.run
			if first.first <= higher {
				first = first.from(higher + 1)
			}
			rest := w.in.Rest
			return append(appendRuns(make([]byte, 0, firstRunBytes+runBytes+len(rest)), higher, Place{}, []run{first}), rest...)
		}
	}
}

// walk goes over the runs of a set.
type walk struct {
	in     varint.Scanner
	floor  uint64 // what the next run is relative to
	behind Place
	some   bool
	run    run
}

// next reads a run. It is not ok if that is none that appendRuns writes.
func (w *walk) next() (more, ok bool) {
	if len(w.in.Rest) == 0 {
		return false, true
	}
	s := &w.in
	gap := s.Uvarint()
	head := s.Uvarint()
	r := run{w.floor + gap + 1, head>>runBits + 1, w.behind}
	if head&newHome != 0 {
		r.place.Range = ident.RangeID(s.Difference(uint64(w.behind.Range)))
		r.place.Epoch = ident.Epoch(s.Difference(uint64(w.behind.Epoch)))
	}
	if head&newOffset != 0 {
		r.place.Offset = ident.Offset(s.Difference(uint64(w.behind.Offset)))
	}
	if head&newTime != 0 {
		r.place.AppendTime = ident.Timestamp(s.Difference(uint64(w.behind.AppendTime)))
	}
	if s.Bad || !r.canonical(head, w.behind) || r.first <= w.floor || r.end() < r.first || r.end() == ^uint64(0) ||
		w.some && r.follows(&w.run) {
		return false, false
	}
	w.run, w.some = r, true
	w.floor, w.behind = r.end(), r.at(r.end()+1)
	return true, true
}

// canonical says whether a run names only what differs from expect.
func (r *run) canonical(head uint64, expect Place) bool {
	home := r.place.Range != expect.Range || r.place.Epoch != expect.Epoch
	return home == (head&newHome != 0) &&
		(r.place.Offset != expect.Offset) == (head&newOffset != 0) &&
		(r.place.AppendTime != expect.AppendTime) == (head&newTime != 0)
}

// union merges two lists of runs. Where they overlap they say the same.
func union(a, b []run) []run {
	all := make([]run, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		if len(a) == 0 || len(b) > 0 && b[0].first < a[0].first {
			a, b = b, a
		}
		r := a[0]
		a = a[1:]
		if n := len(all); n > 0 {
			l := &all[n-1]
			switch {
			case r.end() <= l.end():
				continue
			case r.first <= l.end():
				r = r.from(l.end() + 1)
			}
			if r.follows(l) {
				l.count += r.count
				continue
			}
		}
		all = append(all, r)
	}
	return all
}

// search finds the place of a sequence.
func search(runs []run, sequence uint64) (Place, bool) {
	low, high := 0, len(runs)
	for low < high {
		if mid := (low + high) / 2; runs[mid].end() < sequence {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(runs) || runs[low].first > sequence {
		return Place{}, false
	}
	return runs[low].at(sequence), true
}

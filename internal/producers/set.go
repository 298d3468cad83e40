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

// encode codes runs above a floor.
func encode(floor uint64, runs []run) set {
	if len(runs) == 0 {
		return nil
	}
	b := make([]byte, 0, 8*len(runs))
	var expect Place
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

// parse reads what encode wrote, and nothing else.
func (b set) parse(floor uint64) ([]run, bool) {
	var runs []run
	var expect Place
	for s := (varint.Scanner{Rest: b}); len(s.Rest) > 0; {
		gap := s.Uvarint()
		head := s.Uvarint()
		r := run{floor + gap + 1, head>>runBits + 1, expect}
		if head&newHome != 0 {
			r.place.Range = ident.RangeID(s.Difference(uint64(expect.Range)))
			r.place.Epoch = ident.Epoch(s.Difference(uint64(expect.Epoch)))
		}
		if head&newOffset != 0 {
			r.place.Offset = ident.Offset(s.Difference(uint64(expect.Offset)))
		}
		if head&newTime != 0 {
			r.place.AppendTime = ident.Timestamp(s.Difference(uint64(expect.AppendTime)))
		}
		if s.Bad || !r.canonical(head, expect) || r.first <= floor || r.end() < r.first || r.end() == ^uint64(0) ||
			len(runs) > 0 && r.follows(&runs[len(runs)-1]) {
			return nil, false
		}
		runs = append(runs, r)
		floor, expect = r.end(), r.at(r.end()+1)
	}
	return runs, true
}

// canonical says whether a run names only what differs from expect.
func (r *run) canonical(head uint64, expect Place) bool {
	home := r.place.Range != expect.Range || r.place.Epoch != expect.Epoch
	return home == (head&newHome != 0) &&
		(r.place.Offset != expect.Offset) == (head&newOffset != 0) &&
		(r.place.AppendTime != expect.AppendTime) == (head&newTime != 0)
}

// prune gives the runs above a floor.
func prune(runs []run, floor uint64) []run {
	for i := range runs {
		if r := &runs[i]; r.end() > floor {
			if r.first <= floor {
				*r = r.from(floor + 1)
			}
			return runs[i:]
		}
	}
	return nil
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

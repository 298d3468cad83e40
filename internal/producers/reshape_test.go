package producers

import (
	"testing"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

func (l *log) split() (lower, upper *log) {
	l.t.Helper()
	a, b, err := l.Split(middle, l.id+1, l.id+2)
	if err != nil {
		l.t.Fatal(err)
	}
	return newLog(l.t, a), newLog(l.t, b)
}

func merged(lower, upper *log) *log {
	lower.t.Helper()
	m, err := Merge(lower.State, upper.State, 9, t0)
	if err != nil {
		lower.t.Fatal(err)
	}
	return newLog(lower.t, m)
}

func TestChildrenKnowWhatTheirParentHas(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	l.want("append", header(1, 0, 0), append(lows(1), highs(2)...))
	a, b := l.split()
	a.want("duplicate [r1/0]", header(1, 0, 0), lows(1))
	b.want("duplicate [r1/1]", header(2, 0, 1), highs(2))
	b.want("append", in(high, header(3, 1, 2)), highs(3))
	a.want("append", in(low, header(4, 0, 1)), lows(4))
	l.want("out_of_order", header(5, 0, 4), lows(5))
}

func TestMergeJudgesASequenceByItsPosition(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	l.want("append", header(1, 0, 0), lows(1))
	a, b := l.split()
	a.want("append", in(low, header(5, 4, 4)), lows(5))
	m := merged(a, b)
	// 3 is settled for the lower band, and new for the upper.
	m.want("duplicate [settled]", in(low, header(3, 1, 1)), lows(3))
	m.want("append", in(high, header(3, 1, 1)), highs(3))
	m.want("duplicate [r9/0]", in(high, header(3, 1, 1)), highs(3))
	m.want("duplicate [r2/0]", in(low, header(5, 4, 4)), lows(5))
}

// TestPrevOfOneBandSaysNothingOfAnother: 2 came to the upper band alone, while
// 1, which the lower band lacks, is on its way. A late batch from before the
// split names 2 as the one before it.
func TestPrevOfOneBandSaysNothingOfAnother(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	a, b := l.split()
	b.want("append", in(high, header(2, 0, 0)), highs(2))
	m := merged(a, b)
	m.want("out_of_order", header(3, 0, 2), lows(3))
	m.want("append", in(low, header(1, 0, 0)), lows(1))
	m.want("append", in(low, header(3, 0, 1)), lows(3))
}

func TestFloorOfTheMergedBandEndsItsEntries(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	a, b := l.split()
	a.want("append", in(low, header(1, 0, 0)), lows(1))
	b.want("append", in(high, header(2, 0, 0)), highs(2))
	m := merged(a, b)
	if n := len(m.producers[chosen].entries); n != 2 {
		t.Fatal(n, "entries")
	}
	m.want("append", header(3, 2, 2), append(lows(3), highs(4)...))
	if n := len(m.producers[chosen].entries); n != 1 {
		t.Fatal(n, "entries")
	}
	m.want("append", header(5, 2, 4), lows(5))
}

// TestSetsThatDifferStayApart: a batch from before the split speaks for both
// bands, and its floor passes nothing.
func TestSetsThatDifferStayApart(t *testing.T) {
	a, b := newLog(t, New(1, keyspace.Full())).split()
	a.want("append", in(low, header(1, 0, 0)), lows(1))
	b.want("append", in(high, header(2, 0, 0)), highs(2))
	m := merged(a, b)
	m.want("append", header(3, 0, 0), lows(3))
	m.want("duplicate [r3/0]", in(high, header(2, 0, 0)), highs(2))
	m.want("duplicate [r2/0 r9/0]", in(low, header(1, 0, 0)), lows(1, 3))
	m.want("out_of_order", header(4, 0, 2), lows(4))
}

// TestClientThatKeepsToTheFormerBandsGoesOn: what it abandoned is passed by the
// floor of a band that is no range's any more, and in a range that has not
// heard of the producer.
func TestClientThatKeepsToTheFormerBandsGoesOn(t *testing.T) {
	m := merged(newLog(t, New(1, keyspace.Full())).split())
	m.want("append", in(low, header(4, 3, 3)), lows(4))
	m.want("append", in(high, header(3, 2, 2)), highs(3))
	m.want("out_of_order", in(high, header(7, 2, 6)), highs(7))
	m.want("append", header(8, 7, 7), lows(8))
}

func TestOfTwoSessionsTheHigherStays(t *testing.T) {
	a, b := newLog(t, New(1, keyspace.Full())).split()
	a.want("append", in(low, header(1, 0, 0)), lows(1))
	second := in(high, header(1, 0, 0))
	second.Session = 2
	b.want("append", second, highs(1))
	m := merged(a, b)
	m.want("producer_fenced", in(low, header(2, 0, 1)), lows(2))
	m.want("duplicate [r3/0]", second, highs(1))
	there := in(low, header(2, 0, 0))
	there.Session = 2
	m.want("append", there, lows(2))
}

func TestOtherBandsThanTheRangesAreCutWithinALimit(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	refused := 0
	for i := range ident.Position(2 * MaxEntries) {
		h := header(uint64(i)+1, 0, 0)
		h.Band = keyspace.Band{First: i << 32, Last: i<<32 + 9}
		switch got := l.produce(h, []Record{{h.First, i << 32}}); got {
		case "append":
		case "window_full":
			refused++
		default:
			t.Fatal(got)
		}
	}
	if n := len(l.producers[chosen].entries); refused == 0 || n > MaxEntries {
		t.Fatal(n, "entries;", refused, "refused")
	}
	l.want("append", header(100, 99, 99), lows(100))
	if n := len(l.producers[chosen].entries); n != 1 {
		t.Fatal(n, "entries")
	}
}

func TestReshapingElsewhereIsAnError(t *testing.T) {
	a, b := newLog(t, New(1, keyspace.Full())).split()
	for _, at := range []ident.Position{0, middle, ^ident.Position(0)} {
		if _, _, err := a.Split(at, 8, 9); err == nil {
			t.Errorf("split at %x", uint64(at))
		}
	}
	if _, err := Merge(b.State, a.State, 9, t0); err == nil {
		t.Error("merged in the wrong order")
	}
}

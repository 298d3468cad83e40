package producers

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// addGolden writes the golden file if there is none, and touches no other.
var addGolden = flag.Bool("add-golden", false, "write the golden file if it does not exist")

const goldenFile = "testdata/v1-state.bin"

func parts(s *State, now ident.Timestamp) (values [][]byte) {
	for r := range s.Carry(now) {
		values = append(values, r.Value)
	}
	return values
}

// foldValues folds the values as one control batch each.
func foldValues(s *State, values ...[]byte) error {
	b := batch.NewBuilder(batch.Options{Kind: batch.Control})
	for _, v := range values {
		if err := b.Add(&batch.Record{Key: []byte(CarryKey), Value: v}); err != nil {
			return err
		}
		if err := s.Fold(b.Finish()); err != nil {
			return err
		}
	}
	return nil
}

// goldenState has what a state can have: two producers, entries of a merge that
// differ, runs with and without holes, of a parent and of an own batch.
func goldenState(t *testing.T) *State {
	l := newLog(t, New(1, keyspace.Full()))
	l.want("append", header(1, 0, 0), lows(1, 2, 5))
	lower, upper, err := l.Split(middle, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	a, b := newLog(t, lower), newLog(t, upper)
	a.now, b.now = t0+1000, t0+2000
	a.want("append", in(low, header(6, 2, 5)), lows(6))
	b.want("append", in(high, header(7, 1, 5)), highs(7, 8))
	m, err := Merge(a.State, b.State, 4, t0+3000)
	if err != nil {
		t.Fatal(err)
	}
	c := newLog(t, m)
	c.now = t0 + 3000
	h := header(300, 299, 299)
	h.ID, h.Session = issued, 9
	c.want("append", h, lows(300))
	return m
}

func TestGoldenState(t *testing.T) {
	values := parts(goldenState(t), t0+3000)
	if len(values) != 1 {
		t.Fatal(len(values), "parts")
	}
	if _, err := os.Stat(goldenFile); *addGolden && errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(goldenFile, values[0], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(values[0], want) {
		t.Fatalf("wrote % x\nwant  % x", values[0], want)
	}
	s := New(4, keyspace.Full())
	if err := foldValues(s, want); err != nil {
		t.Fatal(err)
	}
	l := newLog(t, s)
	l.want("duplicate [settled r1/2 r2/0]", in(low, header(2, 0, 1)), lows(2, 5, 6))
	l.want("duplicate [r1/1 r1/2 r3/0 r3/1]", in(high, header(2, 0, 1)), highs(2, 5, 7, 8))
}

func TestEveryFlippedBitOfTheGoldenFileIsSeenOrMeansSomethingElse(t *testing.T) {
	want, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(want) * 8 {
		b := bytes.Clone(want)
		b[i/8] ^= 1 << (i % 8)
		roundTrip(t, b)
	}
	for n := range want {
		roundTrip(t, want[:n])
	}
}

// roundTrip folds a part; if that makes a whole state, the state is carried by
// just these bytes.
func roundTrip(t *testing.T, b []byte) {
	s := New(4, keyspace.Full())
	if err := s.foldPart(b); err != nil || !s.Complete() {
		return
	}
	if again := parts(s, -forever); len(again) != 1 || !bytes.Equal(again[0], b) {
		t.Fatalf("read % x\nwrote % x", b, again)
	}
}

// FuzzPart: no bytes make it panic, and a state has one form.
func FuzzPart(f *testing.F) {
	golden, err := os.ReadFile(goldenFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(parts(New(4, keyspace.Full()), t0)[0])
	f.Fuzz(func(t *testing.T, b []byte) { roundTrip(t, b) })
}

func TestLargeStateIsCarriedInParts(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	var q []uint64
	for i := range uint64(batch.MaxRecords) {
		q = append(q, 1+2*i)
	}
	for i := range 100 {
		l.want("append", numbered(i, false), lows(q...))
	}
	values := parts(l.State, t0)
	if len(values) < 4 {
		t.Fatal(len(values), "parts")
	}
	for i, v := range values {
		if len(v) > 1<<20+16 {
			t.Errorf("part %d has %d bytes", i, len(v))
		}
	}
	s := New(1, keyspace.Full())
	// A primary that died after two parts is followed by one that carries all.
	if err := foldValues(s, values[:2]...); err != nil || s.Complete() {
		t.Fatal("two parts:", err)
	}
	if err := foldValues(s, values[3]); !errors.Is(err, ErrCorrupt) {
		t.Fatal("a part is missing:", err)
	}
	if err := foldValues(s, values...); err != nil || !s.Complete() {
		t.Fatal("all parts:", err)
	}
	if again := parts(s, t0); len(again) != len(values) || !bytes.Equal(bytes.Join(again, nil), bytes.Join(values, nil)) {
		t.Fatal("another state came back")
	}
	s = New(1, keyspace.Full())
	short := bytes.Clone(values[0][:3])
	if err := foldValues(s, short, append([]byte{version, 0, 1}, values[0][3:]...)); !errors.Is(err, ErrCorrupt) {
		t.Fatal("a part that was not full:", err)
	}
}

func TestRecordsBehindAnIncompleteStateAreAnError(t *testing.T) {
	s := New(1, keyspace.Full())
	if err := foldValues(s, []byte{version, 0, 0}); err != nil {
		t.Fatal(err)
	}
	b := batch.NewBuilder(batch.Options{Producer: header(1, 0, 0)})
	if err := b.Add(&batch.Record{Sequence: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.Fold(b.Finish()); !errors.Is(err, ErrLog) {
		t.Fatal(err)
	}
}

func TestOtherVersionsAreRefused(t *testing.T) {
	if err := foldValues(New(1, keyspace.Full()), []byte{version + 1, lastPart, 0}); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestExpiredProducersAreNotCarried(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	for _, id := range []batch.ProducerID{chosen, issued} {
		h := header(1, 0, 0)
		h.ID = id
		l.want("append", h, lows(1))
	}
	s := New(1, keyspace.Full())
	if err := foldValues(s, parts(l.State, t0+ident.Timestamp(DrawnLifetime.Microseconds()))...); err != nil {
		t.Fatal(err)
	}
	if s.Len() != 1 || s.producers[chosen] == nil {
		t.Fatal(s.Len(), "producers")
	}
}

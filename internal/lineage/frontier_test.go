package lineage

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// world is a topic with all its records in memory, of which a graph says only
// what a catalog would.
type world struct {
	ranges []*worldRange
	next   ident.RangeID
	epoch  ident.Epoch
	// written counts the records of each sixteenth of the keyspace.
	written [16]int
	readers []*reader
}

type worldRange struct {
	Range
	records []record
	parents []ident.RangeID
}

// record is the n-th of a sixteenth.
type record struct{ at, n int }

func position(sixteenth int) ident.Position { return ident.Position(sixteenth) << 60 }

func newWorld() *world {
	w := &world{next: 1}
	w.add(keyspace.Full())
	return w
}

func (w *world) add(band keyspace.Band, parents ...*worldRange) *worldRange {
	w.epoch++
	r := &worldRange{Range: Range{ID: w.next, Band: band, First: w.epoch, StartEpoch: w.epoch}}
	w.next++
	w.ranges = append(w.ranges, r)
	for _, p := range parents {
		p.Sealed, p.End = true, ident.Offset(len(p.records))
		p.Children = append(slices.Clip(p.Children), r.ID)
		r.parents = append(r.parents, p.ID)
	}
	return r
}

func (w *world) graph() *Graph {
	g := &Graph{Next: w.next}
	for _, r := range w.ranges {
		g.Ranges = append(g.Ranges, r.Range)
	}
	return g
}

func (w *world) leaves() []*worldRange {
	var list []*worldRange
	for _, r := range w.ranges {
		if !r.Sealed {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *worldRange) int {
		if a.Band.First < b.Band.First {
			return -1
		}
		return 1
	})
	return list
}

func (w *world) append(t *rapid.T) {
	for range rapid.IntRange(1, 20).Draw(t, "records") {
		at := rapid.IntRange(0, 15).Draw(t, "sixteenth")
		for _, r := range w.leaves() {
			if r.Band.Contains(position(at)) {
				r.records = append(r.records, record{at, w.written[at]})
			}
		}
		w.written[at]++
	}
}

func (w *world) split(t *rapid.T) {
	r := rapid.SampledFrom(w.leaves()).Draw(t, "leaf")
	at := position(rapid.IntRange(1, 15).Draw(t, "sixteenth"))
	if at <= r.Band.First || at > r.Band.Last {
		t.Skip("outside")
	}
	w.add(keyspace.Band{First: r.Band.First, Last: at - 1}, r)
	w.add(keyspace.Band{First: at, Last: r.Band.Last}, r)
}

func (w *world) merge(t *rapid.T) {
	leaves := w.leaves()
	if len(leaves) < 2 {
		t.Skip("one leaf")
	}
	i := rapid.IntRange(0, len(leaves)-2).Draw(t, "leaf")
	l, r := leaves[i], leaves[i+1]
	w.add(keyspace.Band{First: l.Band.First, Last: r.Band.Last}, l, r)
}

// trim lets go of the oldest records of a range that has no parent with any.
func (w *world) trim(t *rapid.T) {
	r := rapid.SampledFrom(w.ranges).Draw(t, "range")
	for _, p := range w.ranges {
		if slices.Contains(r.parents, p.ID) && int(p.Start) < len(p.records) {
			t.Skip("a parent has records")
		}
	}
	r.Start = ident.Offset(rapid.IntRange(int(r.Start), len(r.records)).Draw(t, "start"))
}

// forget drops the stub of a range whose records and parents are gone.
func (w *world) forget(t *rapid.T) {
	for i, r := range w.ranges {
		if r.Sealed && int(r.Start) == len(r.records) && len(r.parents) == 0 {
			w.ranges = slices.Delete(w.ranges, i, i+1)
			for _, c := range w.ranges {
				c.parents = slices.DeleteFunc(c.parents, func(id ident.RangeID) bool { return id == r.ID })
			}
			return
		}
	}
	t.Skip("nothing to forget")
}

// reader reads from a cursor that it keeps as a token.
type reader struct {
	token string
	// next is the record that is due of each sixteenth.
	next         [16]int
	seen, missed int
	// unknown: a gap had no count.
	unknown bool
}

func (w *world) join(t *rapid.T) {
	if len(w.readers) == 4 {
		t.Skip("enough readers")
	}
	r := &reader{token: w.graph().Start(topic).Encode()}
	for _, g := range w.ranges {
		for _, rec := range g.records[:g.Start] {
			r.next[rec.at] = max(r.next[rec.at], rec.n+1)
		}
	}
	// Records of forgotten ranges are before the start too.
	for at := range r.next {
		if first, ok := w.firstKept(at); ok {
			r.next[at] = first
		} else {
			r.next[at] = w.written[at]
		}
	}
	w.readers = append(w.readers, r)
}

func (w *world) firstKept(at int) (int, bool) {
	for _, g := range w.ranges {
		for _, rec := range g.records[g.Start:] {
			if rec.at == at {
				return rec.n, true
			}
		}
	}
	return 0, false
}

func (w *world) keeps(rec record) bool {
	return slices.ContainsFunc(w.ranges, func(r *worldRange) bool { return slices.Contains(r.records[r.Start:], rec) })
}

// read reads some records of one readable range. It says false at the end.
func (w *world) read(t *rapid.T, r *reader) bool {
	g := w.graph()
	c, err := Decode(r.token)
	if err != nil {
		t.Fatal(err)
	}
	f, err := g.Normalize(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err != nil {
		t.Fatalf("%+v: %v", f, err)
	}
	if again, err := g.Normalize(f.Cursor); err != nil || again.Forgotten || again.Encode() != f.Encode() {
		t.Fatalf("%+v is not in normal form: %+v, %v", f, again, err)
	}
	r.unknown = r.unknown || f.Forgotten
	var readable []int
	end := true
	for i := range f.Entries {
		e := &f.Entries[i]
		if !g.Readable(e) {
			end = false
			continue
		}
		readable = append(readable, i)
		end = end && int(e.Place.Offset) == len(w.find(e.Place.Range).records)
	}
	if len(readable) == 0 {
		t.Fatalf("nothing is readable: %+v", f)
	}
	e := &f.Entries[rapid.SampledFrom(readable).Draw(t, "entry")]
	src := w.find(e.Place.Range)
	at := e.Place.Offset
	if at < src.Start {
		r.missed += int(src.Start - at)
		at = src.Start
	}
	n := min(len(src.records)-int(at), rapid.IntRange(0, 10).Draw(t, "records"))
	for _, rec := range src.records[at:][:n] {
		if rec.n < r.next[rec.at] || rec.n > r.next[rec.at] && r.missed == 0 && !r.unknown {
			t.Fatalf("record %d of sixteenth %d, due is %d", rec.n, rec.at, r.next[rec.at])
		}
		r.next[rec.at] = rec.n + 1
		r.seen++
	}
	e.Place.Offset = at + ident.Offset(n)
	r.token = f.Encode()
	return !end
}

func (w *world) find(id ident.RangeID) *worldRange {
	i := slices.IndexFunc(w.ranges, func(r *worldRange) bool { return r.ID == id })
	return w.ranges[i]
}

func TestEveryRecordIsReadOnceInOrderOrTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.join(t)
		t.Repeat(map[string]func(*rapid.T){
			"append": w.append,
			"split":  w.split,
			"merge":  w.merge,
			"trim":   w.trim,
			"forget": w.forget,
			"join":   w.join,
			"read":   func(t *rapid.T) { w.read(t, rapid.SampledFrom(w.readers).Draw(t, "reader")) },
		})
		for i, r := range w.readers {
			steps := 0
			for w.read(t, r) {
				if steps++; steps > 100_000 {
					t.Fatalf("reader %d never ends", i)
				}
			}
			for at, n := range w.written {
				if w.keeps(record{at, n - 1}) && r.next[at] != n {
					t.Fatalf("reader %d has read sixteenth %d up to %d of %d", i, at, r.next[at], n)
				}
			}
		}
	})
}

// A reader without a forgotten range misses exactly what its gaps count.
func TestGapsCountWhatWasMissed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.join(t)
		t.Repeat(map[string]func(*rapid.T){
			"append": w.append,
			"split":  w.split,
			"merge":  w.merge,
			"trim":   w.trim,
			"read":   func(t *rapid.T) { w.read(t, w.readers[0]) },
		})
		r := w.readers[0]
		for w.read(t, r) {
		}
		total := 0
		for _, n := range w.written {
			total += n
		}
		if r.seen+r.missed != total {
			t.Fatalf("%d read and %d told missing of %d", r.seen, r.missed, total)
		}
	})
}

func TestACursorFromLaterIsToldApart(t *testing.T) {
	w := newWorld()
	c := tile(nil, func(int) Place { return Place{Range: 2} })
	if !w.graph().Behind(c) || w.graph().Behind(w.graph().Start(topic)) {
		t.Error("what is ahead is not told from what is not")
	}
	if _, err := w.graph().Normalize(c); !errors.Is(err, ErrAhead) {
		t.Fatal(err)
	}
}

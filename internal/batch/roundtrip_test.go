package batch

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/record"
)

// drawTime draws a time that is not zero, now and then at an end of its range.
func drawTime(t *rapid.T, label string) ident.Timestamp {
	return ident.Timestamp(rapid.OneOf(
		rapid.Int64Range(1_700_000_000_000_000, 1_700_000_001_000_000),
		rapid.Int64().Filter(func(n int64) bool { return n != 0 }),
	).Draw(t, label))
}

func drawRecord(t *rapid.T, o Options) Record {
	r := Record{
		Kind:  RecordKind(rapid.IntRange(0, 3).Draw(t, "kind")),
		Value: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "value"),
		Time:  drawTime(t, "time"),
	}
	if r.Kind == Tombstone || rapid.Bool().Draw(t, "has key") {
		r.Key = append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "key")...)
	}
	if r.Kind == Tombstone {
		r.Value = nil
	}
	if rapid.Bool().Draw(t, "has expiry") {
		r.Expiry = drawTime(t, "expiry")
	}
	if rapid.Bool().Draw(t, "has not-before") {
		r.NotBefore = drawTime(t, "not before")
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		r.Headers = append(r.Headers, record.Header{
			Key:   rapid.StringN(0, 8, 20).Draw(t, "header"),
			Value: rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(t, "header value"),
		})
	}
	if o.Kind == Restated && rapid.Bool().Draw(t, "restated") {
		r.Original = Original{
			Epoch:      ident.Epoch(rapid.Uint64Min(1).Draw(t, "epoch")),
			Offset:     ident.Offset(rapid.Uint64().Draw(t, "offset")),
			AppendTime: drawTime(t, "original append time"),
		}
	}
	return r
}

func drawOptions(t *rapid.T) Options {
	o := Options{
		Kind:        Kind(rapid.IntRange(0, 2).Draw(t, "batch kind")),
		Compression: Compression(rapid.IntRange(0, 2).Draw(t, "compression")),
	}
	if rapid.Bool().Draw(t, "has producer") {
		o.Producer = &Producer{ID: ProducerID{1, 2, 3}, Session: 4, Floor: 5, Prev: 6, Band: keyspace.Full()}
	}
	return o
}

// drawBatch builds a batch of drawn records, stamps it, and gives the records
// with their sequences.
func drawBatch(t *rapid.T) ([]byte, []Record, Options, Stamp) {
	o := drawOptions(t)
	recs := make([]Record, rapid.IntRange(1, 12).Draw(t, "records"))
	seq := uint64(6)
	b := NewBuilder(o)
	for i := range recs {
		recs[i] = drawRecord(t, o)
		if o.Producer != nil {
			seq += rapid.Uint64Range(1, 1000).Draw(t, "sequence")
			recs[i].Sequence = seq
		}
		if err := b.Add(&recs[i]); err != nil {
			t.Fatal(err)
		}
	}
	size := b.Size()
	out := b.Finish()
	if len(out) > size || o.Compression == None && len(out) != size {
		t.Fatalf("Size said %d, the batch has %d bytes", size, len(out))
	}
	base := ident.Offset(rapid.Uint64Max(1<<60).Draw(t, "base"))
	s := Stamp{Epoch: 3, Base: base, UserBefore: 7, Chain: 8, AppendTime: 9}
	s.Apply(out)
	return out, recs, o, s
}

// requireView compares what a Reader shows with what was added.
func requireView(t interface{ Fatalf(string, ...any) }, v *View, want *Record, offset ident.Offset) {
	got := Record{
		Kind: v.Kind, Key: v.Key, Value: v.Value, Time: v.Time, Expiry: v.Expiry, NotBefore: v.NotBefore,
		Sequence: v.Sequence, Original: v.Original,
	}
	for k, val := range v.Headers() {
		got.Headers = append(got.Headers, record.Header{Key: string(k), Value: val})
	}
	same := v.Offset == offset && v.NumHeaders() == len(want.Headers) &&
		got.Kind == want.Kind && bytes.Equal(got.Key, want.Key) && (got.Key == nil) == (want.Key == nil) &&
		bytes.Equal(got.Value, want.Value) && got.Time == want.Time && got.Expiry == want.Expiry &&
		got.NotBefore == want.NotBefore && got.Sequence == want.Sequence && got.Original == want.Original &&
		slices.EqualFunc(got.Headers, want.Headers, func(a, b record.Header) bool {
			return a.Key == b.Key && bytes.Equal(a.Value, b.Value)
		})
	if !same {
		t.Fatalf("record at %d: got %+v at %d, want %+v", offset, got, v.Offset, *want)
	}
}

func TestReaderGivesBackWhatWasAdded(t *testing.T) {
	var r Reader // one for all batches: nothing of one may show in the next
	rapid.Check(t, func(t *rapid.T) {
		out, recs, o, s := drawBatch(t)
		if err := r.Reset(out); err != nil {
			t.Fatal(err)
		}
		h := r.Header()
		if h.Kind != o.Kind || h.Epoch != s.Epoch || h.Base != s.Base || h.UserBefore != s.UserBefore ||
			h.Chain != s.Chain || h.AppendTime != s.AppendTime || int(h.Count) != len(recs) {
			t.Fatalf("header %+v", *h)
		}
		p, ok := r.Producer()
		if ok != (o.Producer != nil) {
			t.Fatalf("producer fields: %v", ok)
		}
		if ok {
			want := *o.Producer
			want.First = recs[0].Sequence
			if p != want {
				t.Fatalf("producer %+v, want %+v", p, want)
			}
		}
		for i := range recs {
			if !r.Next() {
				t.Fatalf("ended at record %d: %v", i, r.Err())
			}
			requireView(t, r.Record(), &recs[i], s.Base+ident.Offset(i))
		}
		if r.Next() || r.Err() != nil {
			t.Fatalf("no end: %v", r.Err())
		}
	})
}

func TestSkipPassesExactlyTheRecordsThatNextWouldRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		out, recs, _, s := drawBatch(t)
		if rapid.Bool().Draw(t, "sparse") {
			var err error
			out, _, err = Select(out, 0, len(recs), func([]byte, bool) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			for i := range recs {
				recs[i].Sequence = 0
			}
		}
		var r Reader
		if err := r.Reset(out); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(recs); i++ {
			n := rapid.IntRange(0, len(recs)+1).Draw(t, "skip")
			r.Skip(n)
			if i += n; i >= len(recs) {
				break
			}
			if !r.Next() {
				t.Fatalf("ended at record %d: %v", i, r.Err())
			}
			requireView(t, r.Record(), &recs[i], s.Base+ident.Offset(i))
		}
		if r.Next() || r.Err() != nil {
			t.Fatalf("no end: %v", r.Err())
		}
	})
}

func TestSelectKeepsTheMatchingRecordsAtTheirOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		out, recs, o, s := drawBatch(t)
		keep := make([]bool, len(recs))
		for i := range keep {
			keep[i] = rapid.Bool().Draw(t, "keep")
		}
		skip := rapid.IntRange(0, len(recs)).Draw(t, "skip")
		take := rapid.IntRange(0, len(recs)+1).Draw(t, "take")
		i := skip - 1
		sparse, n, err := Select(out, skip, take, func(key []byte, hasKey bool) bool {
			i++
			if !bytes.Equal(key, recs[i].Key) || hasKey != (recs[i].Key != nil) {
				t.Fatalf("asked about key %q, want that of record %d", key, i)
			}
			return keep[i]
		})
		if err != nil {
			t.Fatal(err)
		}
		var want []int
		for i := skip; i < min(skip+take, len(recs)); i++ {
			if keep[i] {
				want = append(want, i)
			}
		}
		if n != len(want) {
			t.Fatalf("%d records, want %d", n, len(want))
		}
		if n == 0 {
			if sparse != nil {
				t.Fatal("a batch without records")
			}
			return
		}
		var r Reader
		if err := r.Reset(sparse); err != nil {
			t.Fatal(err)
		}
		h := r.Header()
		if !h.Sparse || h.HasProducer || h.Compression != None || h.Kind != o.Kind || h.Epoch != s.Epoch ||
			h.AppendTime != s.AppendTime || h.Base != s.Base+ident.Offset(want[0]) {
			t.Fatalf("header %+v", *h)
		}
		if o.Kind == Data && h.UserBefore != s.UserBefore+uint64(want[0]) {
			t.Fatalf("%d user records before, want %d", h.UserBefore, s.UserBefore+uint64(want[0]))
		}
		for _, i := range want {
			if !r.Next() {
				t.Fatalf("ended before record %d: %v", i, r.Err())
			}
			rec := recs[i]
			rec.Sequence = 0
			requireView(t, r.Record(), &rec, s.Base+ident.Offset(i))
		}
		if r.Next() || r.Err() != nil {
			t.Fatalf("no end: %v", r.Err())
		}
	})
}

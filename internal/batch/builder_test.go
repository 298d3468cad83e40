package batch

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/record"
)

// readAll reads a batch to its end.
func readAll(t testing.TB, b []byte) (n int) {
	t.Helper()
	var r Reader
	if err := r.Reset(b); err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		n++
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return n
}

func TestBuilderRefusesRecordsOverTheirLimits(t *testing.T) {
	headers := func(n, size int) Record {
		h := make([]record.Header, n)
		h[0].Value = make([]byte, size)
		return Record{Headers: h}
	}
	for name, c := range map[string]struct {
		atLimit, over Record
	}{
		"key":          {Record{Key: make([]byte, record.MaxKey)}, Record{Key: make([]byte, record.MaxKey+1)}},
		"value":        {Record{Value: make([]byte, 1000)}, Record{Value: make([]byte, 1001)}},
		"headers":      {headers(record.MaxHeaders, 0), headers(record.MaxHeaders+1, 0)},
		"header bytes": {headers(1, record.MaxHeaderBytes), headers(2, record.MaxHeaderBytes+1)},
	} {
		b := NewBuilder(Options{MaxValue: 1000})
		if err := b.Add(&c.over); !errors.Is(err, ErrRecordTooLarge) || !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s over its limit: %v", name, err)
		}
		if err := b.Add(&c.atLimit); err != nil {
			t.Errorf("%s at its limit: %v", name, err)
		}
		if n := readAll(t, b.Finish()); n != 1 {
			t.Errorf("%s: %d records", name, n)
		}
	}
}

func TestLargestRecordFitsIntoABatch(t *testing.T) {
	r := Record{
		Key: make([]byte, record.MaxKey), Value: make([]byte, record.MaxValueBound),
		Headers: make([]record.Header, record.MaxHeaders),
		Time:    -1, Expiry: 1 << 62, NotBefore: 1 << 62,
		Original: Original{^ident.Epoch(0), ^ident.Offset(0), -1 << 63}, Sequence: 1<<64 - 2,
	}
	r.Headers[0].Value = make([]byte, record.MaxHeaderBytes)
	b := NewBuilder(Options{Kind: Restated, Producer: &Producer{Band: keyspace.Full()}})
	if err := b.Add(&r); err != nil {
		t.Fatal(err)
	}
	if n := readAll(t, b.Finish()); n != 1 {
		t.Fatalf("%d records", n)
	}
}

func TestBuilderIsFullAtTheMostRecordsAndAtTheMostBytes(t *testing.T) {
	for name, r := range map[string]Record{
		"records": {Value: []byte("x")},
		"bytes":   {Value: make([]byte, 1<<20)},
	} {
		b := NewBuilder(Options{})
		var err error
		n := 0
		for ; err == nil && n <= MaxRecords; n++ {
			err = b.Add(&r)
		}
		if !errors.Is(err, ErrFull) || !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrRecordTooLarge) {
			t.Fatalf("%s: %v", name, err)
		}
		if b.Count() != n-1 || readAll(t, b.Finish()) != n-1 {
			t.Errorf("%s: the refused record changed the batch", name)
		}
		if err := b.Add(&r); err != nil || b.Count() != 1 {
			t.Errorf("%s: the next batch does not begin: %v", name, err)
		}
	}
}

func TestBuilderRefusesRecordsWithoutAnEncoding(t *testing.T) {
	for name, r := range map[string]Record{
		"a tombstone without a key":      {Kind: Tombstone, Sequence: 6},
		"a tombstone with a value":       {Kind: Tombstone, Key: []byte("k"), Value: []byte("v"), Sequence: 6},
		"an unknown kind":                {Kind: Checkpoint + 1, Sequence: 6},
		"an original in a data batch":    {Original: Original{Epoch: 1}, Sequence: 6},
		"a sequence that does not go on": {Sequence: 5},
	} {
		b := NewBuilder(Options{Producer: &Producer{Band: keyspace.Full()}})
		if err := b.Add(&Record{Sequence: 5}); err != nil {
			t.Fatal(err)
		}
		if err := b.Add(&r); !errors.Is(err, ErrMalformed) || b.Count() != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := NewBuilder(Options{Kind: Restated})
	if err := b.Add(&Record{Original: Original{Offset: 1}}); !errors.Is(err, ErrMalformed) {
		t.Errorf("an original without epoch: %v", err)
	}
}

func TestBatchesOfOneBuilderShareNoMemory(t *testing.T) {
	for _, c := range []Compression{None, S2, Zstd} {
		b := NewBuilder(Options{Compression: c})
		var first, was []byte
		for i := range 3 {
			if err := b.Add(&Record{Value: bytes.Repeat([]byte{byte(i)}, 500)}); err != nil {
				t.Fatal(err)
			}
			out := b.Finish()
			if i == 0 {
				first, was = out, bytes.Clone(out)
			}
		}
		if !bytes.Equal(first, was) {
			t.Errorf("compression %d: the next batch overwrote the one before", c)
		}
	}
}

func TestBuilderWithoutRecordsGivesNoBatch(t *testing.T) {
	b := NewBuilder(Options{})
	if b.Finish() != nil {
		t.Error("a batch without records")
	}
	if err := b.Add(&Record{}); err != nil {
		t.Fatal(err)
	}
	b.Reset(Options{Compression: S2})
	if b.Count() != 0 || b.Size() != HeaderSize || b.Finish() != nil {
		t.Error("Reset kept a record")
	}
}

func TestPayloadThatCompressionDoesNotShrinkStaysAsItIs(t *testing.T) {
	for _, c := range []Compression{S2, Zstd} {
		for value, want := range map[string]Compression{"x": None, string(make([]byte, 500)): c} {
			b := NewBuilder(Options{Compression: c})
			if err := b.Add(&Record{Value: []byte(value)}); err != nil {
				t.Fatal(err)
			}
			h, err := Check(b.Finish())
			if err != nil || h.Compression != want {
				t.Errorf("%d bytes with compression %d have %d: %v", len(value), c, h.Compression, err)
			}
		}
	}
}

func TestRecordsComeBackAsTheyWereProduced(t *testing.T) {
	want := record.Record{
		Key: []byte("key"), Value: []byte("value"), Time: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		Headers: []record.Header{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}},
	}
	b := NewBuilder(Options{})
	if err := b.AddRecord(&want); err != nil {
		t.Fatal(err)
	}
	out := b.Finish()
	want.AppendTime = time.Date(2026, 1, 2, 3, 4, 5, 7000, time.UTC)
	Stamp{AppendTime: 1767323045_000_007}.Apply(out)
	var r Reader
	if err := r.Reset(out); err != nil || !r.Next() {
		t.Fatal(err, r.Err())
	}
	own, shared := r.Record().ToRecord(), r.Record().Shared()
	requireRecord(t, own, want)
	requireRecord(t, shared, want)
	clear(out)
	requireRecord(t, own, want)
	if bytes.Equal(shared.Value, want.Value) || bytes.Equal(shared.Headers[0].Value, want.Headers[0].Value) {
		t.Error("Shared copied")
	}
}

func requireRecord(t *testing.T, got, want record.Record) {
	t.Helper()
	if !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) || !got.Time.Equal(want.Time) ||
		!got.AppendTime.Equal(want.AppendTime) || len(got.Headers) != len(want.Headers) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i, h := range want.Headers {
		if got.Headers[i].Key != h.Key || !bytes.Equal(got.Headers[i].Value, h.Value) {
			t.Fatalf("header %d: got %+v, want %+v", i, got.Headers[i], h)
		}
	}
}

func TestNoKeyAndTheEmptyKeyAreTwo(t *testing.T) {
	b := NewBuilder(Options{})
	for _, key := range [][]byte{nil, {}} {
		if err := b.AddRecord(&record.Record{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	var r Reader
	if err := r.Reset(b.Finish()); err != nil {
		t.Fatal(err)
	}
	for _, has := range []bool{false, true} {
		if !r.Next() {
			t.Fatal(r.Err())
		}
		own, shared := r.Record().ToRecord(), r.Record().Shared()
		if (own.Key != nil) != has || (shared.Key != nil) != has {
			t.Errorf("key %v, %v", own.Key, shared.Key)
		}
	}
}

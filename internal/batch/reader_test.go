package batch

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/quirelog/quire/internal/keyspace"
)

// wrap makes a batch with good checksums around any payload.
func wrap(h Header, payload ...[]byte) []byte {
	all := slices.Concat(payload...)
	b := make([]byte, h.PayloadAt(), h.PayloadAt()+len(all))
	if h.HasProducer {
		p := Producer{First: 10, Band: keyspace.Full()}
		p.put(b[HeaderSize:])
	}
	b = append(b, all...)
	if h.Compression == None {
		h.RawSize = uint32(len(all))
	}
	h.encode(b)
	return b
}

func TestRecordsThatNoBuilderWritesAreRefused(t *testing.T) {
	plain, sparse := Header{Count: 1}, Header{Count: 1, Sparse: true}
	restated := Header{Count: 1, Kind: Restated}
	producer := Header{Count: 1, HasProducer: true}
	two := func(h Header) Header { h.Count = 2; return h }
	most := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1} // 2^64-1
	for name, b := range map[string][]byte{
		"a length past the end":              wrap(plain, []byte{3, 0, 0}),
		"a length past all":                  wrap(plain, most),
		"a length with a needless byte":      wrap(plain, []byte{0x82, 0, 0, 0}),
		"a length of more than 64 bits":      wrap(plain, most[:9], []byte{2, 0, 0}),
		"a length without an end":            wrap(plain, []byte{0x80, 0x80, 0x80}),
		"no flags":                           wrap(two(plain), []byte{0, 4, 0, 0, 1, 2}),
		"no time":                            wrap(two(plain), []byte{1, 0, 3, 0, 0, 'v'}),
		"a time with a needless byte":        wrap(plain, []byte{3, 0, 0x82, 0}),
		"an unknown flag":                    wrap(plain, []byte{2, 0x80, 0}),
		"a key past the record":              wrap(plain, []byte{3, flagKey, 0, 1}),
		"a key of all bytes":                 wrap(plain, []byte{12, flagKey, 0}, most),
		"an expiry of zero":                  wrap(plain, []byte{3, flagExpiry, 0, 0}),
		"no expiry":                          wrap(two(plain), []byte{2, flagExpiry, 0, 2, 0, 0}),
		"a not-before of zero":               wrap(plain, []byte{3, flagNotBefore, 0, 0}),
		"an original in a data batch":        wrap(plain, []byte{5, flagOriginal, 0, 1, 0, 0}),
		"an original without epoch":          wrap(restated, []byte{5, flagOriginal, 0, 0, 0, 0}),
		"a cut original":                     wrap(restated, []byte{3, flagOriginal, 0, 1}),
		"no headers after all":               wrap(plain, []byte{3, flagHeaders, 0, 0}),
		"more headers than bytes":            wrap(plain, []byte{5, flagHeaders, 0, 2, 0, 0}),
		"more headers than numbers":          wrap(plain, []byte{12, flagHeaders, 0}, most),
		"a header past the record":           wrap(plain, []byte{5, flagHeaders, 0, 1, 2, 0}),
		"a tombstone without key":            wrap(plain, []byte{2, byte(Tombstone), 0}),
		"a tombstone with a value":           wrap(plain, []byte{4, byte(Tombstone) | flagKey, 0, 0, 'v'}),
		"fewer records than the count":       wrap(two(plain), []byte{6, 0, 0, 1, 2, 3, 4}),
		"more records than the count":        wrap(plain, []byte{2, 0, 0, 2, 0, 0}),
		"a byte behind the last record":      wrap(plain, []byte{2, 0, 0, 0}),
		"a sequence that is not the first":   wrap(producer, []byte{3, 0, 1, 0}),
		"a sequence that wraps":              wrap(two(producer), []byte{3, 0, 0, 0, 12, 0}, most, []byte{0}),
		"a sequence that is the last of all": wrap(two(producer), []byte{3, 0, 0, 0, 12, 0, 0xf4}, most[1:], []byte{0}),
		"an offset that is not the first":    wrap(sparse, []byte{3, 0, 1, 0}),
		"an offset that wraps":               wrap(two(sparse), []byte{3, 0, 0, 0, 12, 0}, most, []byte{0}),
		"an offset that is the last of all":  wrap(two(sparse), []byte{3, 0, 0, 0, 12, 0, 0xfe}, most[1:], []byte{0}),
	} {
		var r Reader
		if err := r.Reset(b); err != nil {
			t.Errorf("%s: not refused for its records: %v", name, err)
			continue
		}
		n := 0
		for r.Next() {
			n++
		}
		if !errors.Is(r.Err(), ErrCorrupt) {
			t.Errorf("%s: %d records, %v", name, n, r.Err())
		}
		if r.Next() {
			t.Errorf("%s: a record after the error", name)
		}
	}
}

func TestSkipSeesBadLengthsAndBytesBehindTheLastRecord(t *testing.T) {
	for name, b := range map[string][]byte{
		"a length past the end":         wrap(Header{Count: 1}, []byte{3, 0, 0}),
		"a byte behind the last record": wrap(Header{Count: 1}, []byte{2, 0, 0, 0}),
		"a bad offset":                  wrap(Header{Count: 1, Sparse: true}, []byte{3, 0, 1, 0}),
	} {
		var r Reader
		if err := r.Reset(b); err != nil {
			t.Fatal(err)
		}
		if r.Skip(1); !errors.Is(r.Err(), ErrCorrupt) {
			t.Errorf("%s: %v", name, r.Err())
		}
	}
}

func TestReaderKeepsNothingOfABatchThatIsRefused(t *testing.T) {
	var r Reader
	if err := r.Reset(golden(t, "plain")); err != nil || !r.Next() {
		t.Fatal(err, r.Err())
	}
	bad := golden(t, "plain")
	bad[len(bad)-1] ^= 1
	if err := r.Reset(bad); !errors.Is(err, ErrCorrupt) || !errors.Is(r.Err(), ErrCorrupt) || r.Next() {
		t.Fatalf("%v, %v", err, r.Err())
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestPayloadThatExpandsToAnotherSizeIsRefusedWithoutMemoryForIt(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	record := []byte{0x80, 1, 0, 0} // 128 bytes, all zero behind this
	exact := slices.Concat(record, make([]byte, 126))
	bomb := slices.Concat(record, make([]byte, 64<<20))
	unsized := func(b []byte) []byte { // a frame that does not say its size
		var out writer
		w, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(b)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, c := range map[string]struct {
		compression Compression
		payload     []byte
		good        bool
	}{
		"s2, exact":                {S2, s2.Encode(nil, exact), true},
		"s2, larger":               {S2, s2.Encode(nil, bomb), false},
		"s2, a byte less":          {S2, s2.Encode(nil, exact[:len(exact)-1]), false},
		"s2, garbage":              {S2, []byte("garbage"), false},
		"s2, bytes behind":         {S2, append(s2.Encode(nil, exact), 0), false},
		"zstd, exact":              {Zstd, enc.EncodeAll(exact, nil), true},
		"zstd, larger":             {Zstd, enc.EncodeAll(bomb, nil), false},
		"zstd, larger and unsized": {Zstd, unsized(bomb), false},
		"zstd, a byte less":        {Zstd, enc.EncodeAll(exact[:len(exact)-1], nil), false},
		"zstd, a byte more":        {Zstd, enc.EncodeAll(append(exact, 0), nil), false},
		"zstd, many frames":        {Zstd, slices.Repeat(enc.EncodeAll(exact, nil), 1000), false},
		"zstd, garbage":            {Zstd, []byte("garbage"), false},
		"zstd, nothing":            {Zstd, nil, false},
		"zstd, bytes behind":       {Zstd, append(enc.EncodeAll(exact, nil), 0), false},
	} {
		b := wrap(Header{Count: 1, Compression: c.compression, RawSize: uint32(len(exact))}, c.payload)
		var r Reader
		var err error
		const enough = 2 << 20 // for the state of a decoder, and less than the bomb
		if n := allocated(func() { err = r.Reset(b) }); n > enough {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
		if c.good {
			if err != nil || !r.Next() || r.Next() || r.Err() != nil {
				t.Errorf("%s: %v, %v", name, err, r.Err())
			}
		} else if !errors.Is(err, ErrCorrupt) || r.Next() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type writer []byte

func (w *writer) Write(b []byte) (int, error) { *w = append(*w, b...); return len(b), nil }

func TestReadingAllocatesNothingPerRecord(t *testing.T) {
	records := goldenRecords()
	for _, c := range []Compression{None, S2, Zstd} {
		b := NewBuilder(Options{Compression: c})
		for i := range 1000 {
			if err := b.Add(&records[i%len(records)]); err != nil {
				t.Fatal(err)
			}
		}
		out := b.Finish()
		var r Reader
		sum := 0
		walk := func() {
			if err := r.Reset(out); err != nil {
				t.Fatal(err)
			}
			r.Skip(100)
			for r.Next() {
				v := r.Record()
				sum += len(v.Key) + len(v.Value) + int(v.Offset)
				for k, val := range v.Headers() {
					sum += len(k) + len(val)
				}
			}
			if r.Err() != nil {
				t.Fatal(r.Err())
			}
		}
		walk() // decompression takes its memory here
		if n := testing.AllocsPerRun(20, walk); n > 1 {
			t.Errorf("compression %d: %v allocations for 1,000 records", c, n)
		}
	}
}

func TestBuildingAllocatesNothingPerRecord(t *testing.T) {
	records := goldenRecords()
	for _, c := range []Compression{None, S2, Zstd} {
		b := NewBuilder(Options{Compression: c})
		n := testing.AllocsPerRun(20, func() {
			for i := range 1000 {
				if err := b.Add(&records[i%len(records)]); err != nil {
					t.Fatal(err)
				}
			}
			b.Finish()
		})
		if n > 10 {
			t.Errorf("compression %d: %v allocations for 1,000 records", c, n)
		}
	}
}

func TestVarintsHaveTheLengthThatIsPredicted(t *testing.T) {
	for shift := range 65 {
		for _, x := range []uint64{1<<shift - 1, 1 << shift, 1<<shift + 1} {
			b := binary.AppendUvarint(nil, x)
			s := scanner{b: b}
			if got := s.uvarint(); got != x || s.bad || len(s.b) > 0 || uvarintLen(x) != len(b) {
				t.Errorf("%d: %d bytes, predicted %d, read %d", x, len(b), uvarintLen(x), got)
			}
			if z := int64(x); unzigzag(zigzag(z)) != z {
				t.Errorf("%d does not come back", z)
			}
		}
	}
}

package batch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/record"
)

// benchRecords are 4,096 records of 256 bytes under 16-byte keys. The bytes are
// random, or a quarter of them if there shall be something to compress.
func benchRecords(c Compression) []Record {
	rng := rand.NewChaCha8([32]byte{1})
	recs := make([]Record, 4096)
	for i := range recs {
		v := make([]byte, 256)
		_, _ = rng.Read(v)
		if c != None {
			clear(v[64:])
		}
		recs[i] = Record{
			Key:   fmt.Appendf(nil, "key-%012d", rng.Uint64()%10000),
			Value: v,
			Time:  ident.Timestamp(1_700_000_000_000_000 + int64(i)*7),
		}
	}
	return recs
}

func benchBatch(c Compression) []byte {
	b := NewBuilder(Options{Compression: c})
	for _, r := range benchRecords(c) {
		if err := b.Add(&r); err != nil {
			panic(err)
		}
	}
	return b.Finish()
}

var compressionNames = map[Compression]string{None: "none", S2: "s2", Zstd: "zstd"}

func perRecord(b *testing.B, records int) {
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportAllocs()
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range []Compression{None, S2, Zstd} {
		recs := benchRecords(c)
		b.Run(compressionNames[c], func(b *testing.B) {
			bld := NewBuilder(Options{Compression: c})
			for b.Loop() {
				for i := range recs {
					if err := bld.Add(&recs[i]); err != nil {
						b.Fatal(err)
					}
				}
				bld.Finish()
			}
			perRecord(b, len(recs))
		})
	}
}

func BenchmarkEncodeRecord(b *testing.B) {
	var recs []record.Record
	for _, r := range benchRecords(None) {
		recs = append(recs, record.Record{Key: r.Key, Value: r.Value, Time: r.Time.Time()})
	}
	bld := NewBuilder(Options{})
	for b.Loop() {
		for i := range recs {
			if err := bld.AddRecord(&recs[i]); err != nil {
				b.Fatal(err)
			}
		}
		bld.Finish()
	}
	perRecord(b, len(recs))
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range []Compression{None, S2, Zstd} {
		b.Run(compressionNames[c], func(b *testing.B) {
			bytes := benchBatch(c)
			var r Reader
			for b.Loop() {
				if err := r.Reset(bytes); err != nil {
					b.Fatal(err)
				}
				for r.Next() {
				}
				if r.Err() != nil {
					b.Fatal(r.Err())
				}
			}
			perRecord(b, 4096)
		})
	}
}

func BenchmarkSkip(b *testing.B) {
	bytes := benchBatch(None)
	var r Reader
	for b.Loop() {
		if err := r.Reset(bytes); err != nil {
			b.Fatal(err)
		}
		r.Skip(4096)
	}
	perRecord(b, 4096)
}

func BenchmarkValidate(b *testing.B) {
	bytes := benchBatch(None)
	span := keyspace.Band{First: 1}
	for name, lim := range map[string]Limits{"plain": {}, "span": {Span: &span}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Validate(bytes, lim); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b, 4096)
		})
	}
}

func BenchmarkSelect(b *testing.B) {
	bytes := benchBatch(None)
	for b.Loop() {
		n := 0
		_, _, err := Select(bytes, 0, 4096, func([]byte, bool) bool { n++; return n%2 == 0 })
		if err != nil {
			b.Fatal(err)
		}
	}
	perRecord(b, 4096)
}

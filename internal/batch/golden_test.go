package batch

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/record"
)

// The golden files are what version 1 is. The flag writes those that are
// missing and touches no other.
var addGolden = flag.Bool("add-golden", false, "write the golden files that do not exist")

const t0 = ident.Timestamp(1_480_000_000_000_000)

var goldenStamp = Stamp{
	Epoch: 3, Base: 1000, UserBefore: 990, Chain: 0x0123456789abcdef, AppendTime: t0 + 5_000_000,
}

func goldenRecords() []Record {
	return []Record{
		{Key: []byte("us"), Value: []byte("M 7.8, 53 km NNE of Amberley"), Time: t0},
		{Value: []byte("no key"), Time: t0 + 1},
		{Key: []byte{}, Value: []byte("an empty key"), Time: t0 - 1_000_000},
		{Kind: Tombstone, Key: []byte("ci"), Time: t0 + 2},
		{
			Key: []byte("nc"), Value: []byte(strings.Repeat("The Geysers ", 12)), Time: t0 + 3,
			Headers: []record.Header{{Key: "trace", Value: []byte{1, 2, 3}}, {Key: "", Value: nil}, {Key: "trace"}},
			Expiry:  t0 + 60_000_000, NotBefore: t0 - 60_000_000,
		},
		{Kind: Delta, Key: []byte("n"), Value: []byte{2}, Time: 1},
	}
}

type goldenBatch struct {
	name    string
	options Options
	records []Record
	offsets []ident.Offset // nil: from the stamp's base on
}

func goldenBatches() []goldenBatch {
	numbered := goldenRecords()
	for i := range numbered {
		numbered[i].Sequence = []uint64{501, 502, 503, 700, 701, 100_000}[i]
	}
	restated := goldenRecords()[:5]
	for i := range restated {
		restated[i].Original = Original{
			Epoch: ident.Epoch(1 + i/3), Offset: ident.Offset(20 * i), AppendTime: restated[i].Time + 250,
		}
	}
	restated[1] = Record{Kind: Checkpoint, Key: []byte("n"), Value: []byte{84}, Time: t0 + 9}
	all := goldenRecords()
	return []goldenBatch{
		{name: "plain", records: all},
		{name: "s2", options: Options{Compression: S2}, records: all},
		{name: "zstd", options: Options{Compression: Zstd}, records: all},
		{name: "producer", records: numbered, options: Options{Producer: &Producer{
			ID: ProducerID{0: 0xab, 15: 0xcd}, Session: 2, Floor: 480, Prev: 499,
			Band: keyspace.Band{First: 0, Last: 1<<63 - 1},
		}}},
		{
			name: "sparse", records: []Record{all[1], all[2], all[4]},
			offsets: []ident.Offset{1001, 1002, 1004},
		},
		{name: "restated", options: Options{Kind: Restated}, records: restated},
		{name: "control", options: Options{Kind: Control}, records: []Record{
			{Value: []byte("tick"), Time: t0},
			{Key: []byte("p"), Value: []byte("state"), Time: t0 + 100},
		}},
	}
}

// build encodes the batch of a golden file.
func (g *goldenBatch) build(t *testing.T) []byte {
	t.Helper()
	if g.offsets != nil {
		i := -1
		out, n, err := Select(golden(t, "plain"), 1, 4, func([]byte, bool) bool { i++; return i != 2 })
		if err != nil || n != len(g.records) {
			t.Fatalf("%d selected: %v", n, err)
		}
		return out
	}
	b := NewBuilder(g.options)
	for i := range g.records {
		if err := b.Add(&g.records[i]); err != nil {
			t.Fatal(err)
		}
	}
	out := b.Finish()
	goldenStamp.Apply(out)
	return out
}

func (g *goldenBatch) file() string { return "testdata/v1-" + g.name + ".batch" }

// golden is the content of a golden file.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile((&goldenBatch{name: name}).file())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoldenBatchesDecode(t *testing.T) {
	for _, g := range goldenBatches() {
		t.Run(g.name, func(t *testing.T) {
			if _, err := os.Stat(g.file()); os.IsNotExist(err) && *addGolden {
				if err := os.WriteFile(g.file(), g.build(t), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var r Reader
			if err := r.Reset(golden(t, g.name)); err != nil {
				t.Fatal(err)
			}
			h := r.Header()
			if h.Compression != g.options.Compression || h.Kind != g.options.Kind || h.Sparse != (g.offsets != nil) ||
				h.Epoch != goldenStamp.Epoch || h.AppendTime != goldenStamp.AppendTime || int(h.Count) != len(g.records) {
				t.Errorf("header %+v", *h)
			}
			for i := range g.records {
				if !r.Next() {
					t.Fatalf("ended before record %d: %v", i, r.Err())
				}
				offset := goldenStamp.Base + ident.Offset(i)
				if g.offsets != nil {
					offset = g.offsets[i]
				}
				requireView(t, r.Record(), &g.records[i], offset)
			}
			if r.Next() || r.Err() != nil {
				t.Fatalf("no end: %v", r.Err())
			}
		})
	}
}

func TestUncompressedBatchesEncodeToTheGoldenBytes(t *testing.T) {
	for _, g := range goldenBatches() {
		// What a compressor writes may change with its version.
		if g.options.Compression == None && !bytes.Equal(g.build(t), golden(t, g.name)) {
			t.Errorf("%s: other bytes than in %s", g.name, g.file())
		}
	}
}

func TestEveryFlippedBitIsAnError(t *testing.T) {
	for _, g := range goldenBatches() {
		b := golden(t, g.name)
		for i := range len(b) * 8 {
			b[i/8] ^= 1 << (i % 8)
			if _, err := Check(b); err == nil {
				t.Fatalf("%s: nobody notices bit %d of byte %d", g.name, i%8, i/8)
			}
			b[i/8] ^= 1 << (i % 8)
		}
	}
}

func TestEveryCutOrLongerBatchIsAnError(t *testing.T) {
	for _, g := range goldenBatches() {
		b := golden(t, g.name)
		for n := range b {
			if _, err := Check(b[:n]); err == nil {
				t.Fatalf("%s: cut to %d of %d bytes", g.name, n, len(b))
			}
		}
		if _, err := Check(append(b, 0)); err == nil {
			t.Fatalf("%s: a byte more", g.name)
		}
	}
}

package node

import (
	"cmp"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/segment"
)

// What a range's load is judged by: so many of its newest records, in at most so
// many bytes.
const (
	sampleRecords = 20_000
	sampleBytes   = 4 << 20
)

// halving is the position that halves what was appended to a range last, by
// bytes: the middle of its band, if that has fewer than two keys or cannot be
// read.
func (t *topic) halving(r *rng) ident.Position {
	if at, ok := halve(t.recentLoad(r)); ok {
		return at
	}
	at, ok := r.band.Middle()
	if !ok {
		return r.band.First // which no split takes
	}
	return at
}

// recentLoad sums the bytes of the newest records by the positions of their
// keys.
func (t *topic) recentLoad(r *rng) map[ident.Position]int {
	cr, ok := t.info().Range(r.id)
	if !ok || cr.Open == nil {
		return nil
	}
	end := t.committed(cr).Offset
	from := max(cr.Start, end-min(end, sampleRecords))
	batches, err := t.readSegment(cr, from, segment.Limit{Bytes: sampleBytes, Records: sampleRecords})
	if err != nil {
		return nil
	}
	defer batches.Release()
	var records batch.Reader
	load := map[ident.Position]int{}
	for _, b := range batches.List {
		if records.Reset(b) != nil {
			return nil
		}
		for records.Next() {
			if v := records.Record(); v.Key != nil {
				load[keyspace.PositionOf(v.Key)] += len(v.Key) + len(v.Value)
			}
		}
	}
	return load
}

// halve gives the position that comes closest to leaving half of a load on each
// side, half-way between the keys beside it.
func halve(load map[ident.Position]int) (ident.Position, bool) {
	type key struct {
		at     ident.Position
		weight int
	}
	keys := make([]key, 0, len(load))
	total := 0
	for at, weight := range load {
		keys = append(keys, key{at, weight})
		total += weight
	}
	if len(keys) < 2 {
		return 0, false
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Compare(a.at, b.at) })
	best, off, below := 1, total, 0
	for i := 1; i < len(keys); i++ {
		below += keys[i-1].weight
		if d := max(2*below-total, total-2*below); d < off {
			best, off = i, d
		}
	}
	low, high := keys[best-1].at, keys[best].at
	return low + (high-low)/2 + 1, true
}

package producers

import (
	"testing"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// What a batch of 1,000 records costs its range beside the append, with four
// batches of its producer in flight: of a topic with one range, where the
// sequences follow each other, and with 64, where each range has one in 64.
func BenchmarkBatch(b *testing.B) {
	for _, c := range []struct {
		name string
		step uint64
	}{{"dense", 1}, {"sparse", 64}} {
		b.Run(c.name, func(b *testing.B) {
			const records, inFlight = 1000, 4
			s := New(1, keyspace.Full())
			h := batch.Producer{ID: DrawnID([16]byte{1}), Session: 1, Band: keyspace.Full()}
			sent := make([]Record, records)
			sequence := uint64(1)
			last := make([]uint64, inFlight)
			for n := 0; b.Loop(); n++ {
				for i := range sent {
					sent[i] = Record{Sequence: sequence, Position: ident.Position(sequence)}
					sequence += c.step
				}
				h.First = sent[0].Sequence
				h.Floor, h.Prev = last[n%inFlight], last[(n+inFlight-1)%inFlight]
				last[n%inFlight] = sent[records-1].Sequence
				now := ident.Timestamp(n)
				if v := s.Judge(&h, sent, now); v.Decision != Append {
					b.Fatal(v.Err)
				}
				if err := s.Accept(&h, sent, 1, ident.Offset(n*records), now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

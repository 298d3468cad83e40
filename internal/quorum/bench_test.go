package quorum

import (
	"testing"

	"github.com/quirelog/quire/internal/batch"
)

// BenchmarkAppend is a batch of 64 records of 256 bytes on its way through a
// primary and two followers, without a disk, a network or a copy of its bytes.
func BenchmarkAppend(b *testing.B) {
	builder := batch.NewBuilder(batch.Options{})
	for range 64 {
		if err := builder.Add(&batch.Record{Value: make([]byte, 256), Time: 1}); err != nil {
			b.Fatal(err)
		}
	}
	payload := builder.Finish()
	t := newTrio(b, nil)
	t.serve()
	// The batches that are on their way at one time need memory of their own.
	const depth = 1024
	ring := make([][]byte, depth)
	for i := range ring {
		ring[i] = append([]byte(nil), payload...)
	}
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	token := uint64(0)
	for b.Loop() {
		token++
		if err := t.ranges[0].Append(t.now, 1, token, ring[token%depth]); err != nil {
			b.Fatal(err)
		}
		if token%8 == 0 {
			t.settle()
			t.forget()
		}
	}
}

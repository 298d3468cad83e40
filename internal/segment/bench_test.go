package segment

import (
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/record"
)

// BenchmarkWays measures both ways of a commit round on the real disk: so many
// segments get a batch each of so many bytes, all at once, through the journal
// or each through its own file. The crossover of Config.DirectBytes comes from
// it (docs/evidence.md).
func BenchmarkWays(b *testing.B) {
	for _, segments := range []int{1, 8, 64} {
		for _, kib := range []int{4, 16, 64, 256} {
			for _, way := range []string{"journal", "direct"} {
				b.Run(fmt.Sprintf("segments=%d/KiB=%d/%s", segments, kib, way), func(b *testing.B) {
					benchmarkWay(b, segments, kib<<10, way == "direct")
				})
			}
		}
	}
}

func benchmarkWay(b *testing.B, segments, size int, direct bool) {
	cfg := Config{DirectBytes: 1 << 30, JournalFileBytes: 128 << 20, BallastReserve: -1}
	if direct {
		cfg.DirectBytes = 1
	}
	s, err := Open(vfs.Default, b.TempDir(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	open := make([]*Segment, segments)
	for i := range open {
		if open[i], err = s.Create(Meta{ID: ident.SegmentID(i + 1), Range: ident.RangeID(i + 1), Epoch: 1}); err != nil {
			b.Fatal(err)
		}
	}
	builder := batch.NewBuilder(batch.Options{})
	if err := builder.AddRecord(&record.Record{Value: make([]byte, size-200)}); err != nil {
		b.Fatal(err)
	}
	encoded := builder.Finish()
	b.SetBytes(int64(segments * len(encoded)))
	for b.Loop() {
		var wg sync.WaitGroup
		wg.Add(segments)
		for _, g := range open {
			raw := append([]byte(nil), encoded...)
			tail := g.Tail()
			batch.Stamp{Epoch: 1, Base: tail.Base, UserBefore: tail.UserBefore, Chain: tail.Chain, AppendTime: tail.LastTime}.Apply(raw)
			if err := g.Append(raw, func(err error) {
				if err != nil {
					b.Error(err)
				}
				wg.Done()
			}); err != nil {
				b.Fatal(err)
			}
		}
		wg.Wait()
	}
}

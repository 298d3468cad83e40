package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/node"
)

// What creating topics costs on a broker that is alone, in a store on the disk of
// the temporary directory.
//
//	go test ./internal/bench -run '^$' -bench Create -benchtime 10000x

func BenchmarkCreateTopic(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			broker, err := node.Open(node.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = broker.Close() })
			took := NewLatencies()
			var created atomic.Int64
			var working sync.WaitGroup
			b.ResetTimer()
			for w := range callers {
				working.Go(func() {
					for n := created.Add(1); n <= int64(b.N); n = created.Add(1) {
						began := time.Now()
						if _, err := broker.CreateTopic(context.Background(), fmt.Sprint("t", n), catalog.Log, nil); err != nil {
							b.Error(err)
							return
						}
						took.Add(w, time.Since(began))
					}
				})
			}
			working.Wait()
			b.StopTimer()
			q := took.Quantiles()
			b.ReportMetric(q.P50, "p50-µs")
			b.ReportMetric(q.P99, "p99-µs")
			b.ReportMetric(b.Elapsed().Seconds(), "s")
		})
	}
}

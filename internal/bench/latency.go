package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies collects times. It keeps each with three significant digits, and
// may be used by many goroutines.
type Latencies struct {
	shards [latencyShards]struct {
		mu sync.Mutex
		h  *hdrhistogram.Histogram
	}
}

const (
	// latencyShards keeps workers from waiting for each other.
	latencyShards = 8
	// maxLatency is the longest time that is told from longer ones.
	maxLatency = 10 * time.Minute
)

// NewLatencies makes an empty collection.
func NewLatencies() *Latencies {
	l := &Latencies{}
	for i := range l.shards {
		l.shards[i].h = hdrhistogram.New(1, int64(maxLatency), 3)
	}
	return l
}

// Add takes a time that a worker has measured.
func (l *Latencies) Add(worker int, d time.Duration) {
	s := &l.shards[worker%latencyShards]
	d = min(max(d, 1), maxLatency)
	s.mu.Lock()
	defer s.mu.Unlock()
	// The value is within the bounds, which is all that can be wrong.
	_ = s.h.RecordValue(int64(d))
}

// Quantiles are what a run tells of its times, in microseconds.
type Quantiles struct {
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	P999 float64 `json:"p999_us"`
	Max  float64 `json:"max_us"`
}

// Quantiles sums up what was added so far.
func (l *Latencies) Quantiles() Quantiles {
	all := hdrhistogram.New(1, int64(maxLatency), 3)
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		all.Merge(s.h)
		s.mu.Unlock()
	}
	at := func(q float64) float64 { return micros(time.Duration(all.ValueAtQuantile(q))) }
	return Quantiles{P50: at(50), P99: at(99), P999: at(99.9), Max: micros(time.Duration(all.Max()))}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

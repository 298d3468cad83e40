package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quirelog/quire/internal/segment"
)

// metrics are the broker's measurements. It is the store's observer.
type metrics struct {
	registry *prometheus.Registry

	produce        prometheus.Histogram
	produceRecords prometheus.Counter
	produceBytes   prometheus.Counter
	produceErrors  prometheus.Counter
	// produceRepeated counts batches, not records, as produceErrors does.
	produceRepeated prometheus.Counter
	fetch           prometheus.Histogram
	fetchRecords    prometheus.Counter
	fetchBytes      prometheus.Counter
	gaps            *prometheus.CounterVec
	syncs           map[segment.SyncKind]prometheus.Observer
	queued          prometheus.Histogram
	round           prometheus.Histogram
	roundAppends    prometheus.Histogram
	limits          *prometheus.CounterVec
	damage          prometheus.Counter
}

func newMetrics(r *prometheus.Registry) *metrics {
	seconds := prometheus.ExponentialBuckets(20e-6, 2, 20)
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		r.MustRegister(h)
		return h
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		r.MustRegister(c)
		return c
	}
	m := &metrics{
		registry:        r,
		produce:         histogram("quire_produce_seconds", "Time from a produce request to its answer.", seconds),
		produceRecords:  counter("quire_produce_records_total", "Records acknowledged."),
		produceBytes:    counter("quire_produce_bytes_total", "Bytes of batches acknowledged."),
		produceErrors:   counter("quire_produce_errors_total", "Produce requests refused or failed."),
		produceRepeated: counter("quire_produce_repeated_total", "Batches that an earlier try of their producer had appended."),
		fetch:           histogram("quire_fetch_seconds", "Time that a fetch or delivery took, without waiting for records.", seconds),
		fetchRecords:    counter("quire_fetch_records_total", "Records delivered to fetches and subscriptions."),
		fetchBytes:      counter("quire_fetch_bytes_total", "Bytes of batches delivered."),
		gaps:            vec("quire_gap_records_total", "Records that readers were told they do not get.", "reason"),
		queued:          histogram("quire_append_queued_seconds", "Longest wait of a commit round's appends in the queue.", seconds),
		round:           histogram("quire_commit_round_seconds", "Time of a commit round, its sync included.", seconds),
		roundAppends: histogram("quire_commit_round_appends", "Appends made durable by one commit round.",
			prometheus.ExponentialBuckets(1, 2, 14)),
		limits: vec("quire_limit_hits_total", "Times that a limit was hit.", "limit"),
		damage: counter("quire_scrub_damage_total", "Damages that scrubs found."),
		syncs:  map[segment.SyncKind]prometheus.Observer{},
	}
	syncs := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "quire_fsync_seconds", Help: "Time of one fsync or fdatasync.", Buckets: seconds,
	}, []string{"kind"})
	r.MustRegister(syncs)
	for _, k := range []segment.SyncKind{segment.SyncJournal, segment.SyncDirect, segment.SyncCheckpoint, segment.SyncMeta} {
		m.syncs[k] = syncs.WithLabelValues(k.String())
	}
	return m
}

// watch adds the gauges that are read when they are asked for.
func (m *metrics) watch(b *Broker) {
	gauge := func(name, help string, f func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	gauge("quire_topics", "Topics that this broker serves.", func() float64 {
		b.mu.RLock()
		defer b.mu.RUnlock()
		return float64(len(b.topics))
	})
	gauge("quire_segments", "Segments in the store.", func() float64 { return float64(len(b.store.Segments())) })
	gauge("quire_segment_bytes", "Bytes in the store's segments.", func() float64 {
		sum := int64(0)
		for _, s := range b.store.Segments() {
			sum += s.Bytes
		}
		return float64(sum)
	})
	gauge("quire_recovery_seconds", "Time that the recovery at the start took.", func() float64 {
		return b.store.Recovery().Took.Seconds()
	})
	gauge("quire_recovery_torn_bytes", "Bytes above the durable mark that the recovery dropped.", func() float64 {
		return float64(b.store.Recovery().Torn)
	})
}

func (m *metrics) Round(r segment.RoundStats) {
	m.round.Observe(r.Took.Seconds())
	if r.Appends > 0 {
		m.queued.Observe(r.Queued.Seconds())
		m.roundAppends.Observe(float64(r.Appends))
	}
}

func (m *metrics) Synced(k segment.SyncKind, took time.Duration) { m.syncs[k].Observe(took.Seconds()) }

func (m *metrics) Limit(name string) { m.limits.WithLabelValues(name).Inc() }

package bench

import (
	"math"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// The shapes of load.
const (
	Produce  = "produce"
	Fetch    = "fetch"
	Fanout   = "fanout"
	Recovery = "recovery"
	Split    = "split"
)

// Settings say what a run does. All of them are part of its result.
type Settings struct {
	// Payload is the size of each value. Keys is how many distinct keys there
	// are, of KeySize bytes, drawn uniformly.
	Payload int `json:"payload_bytes"`
	Keys    int `json:"keys"`
	KeySize int `json:"key_bytes"`
	// Topics are written all at once.
	Topics int `json:"topics"`
	// Ranges is into how many ranges each topic is split first.
	Ranges int `json:"ranges"`
	// Records is how many are written; 0 is as many as fit into Duration.
	Records  uint64        `json:"records"`
	Duration time.Duration `json:"-"`
	Seconds  float64       `json:"duration_seconds"`
	// Rate bounds the records written a second; 0 is as fast as it goes.
	// Latencies then count from the time at which a record was to be sent.
	Rate float64 `json:"rate_per_second"`

	// Connections is how many connections the writers share.
	Connections int `json:"connections"`
	// Batched says that client.Producer gathers the records; otherwise each
	// record is a request of its own.
	Batched bool `json:"batched"`
	// InFlight is how many requests are under way: in all if unbatched, for
	// each producer if batched.
	InFlight int `json:"in_flight"`
	// BatchBytes, Linger and Buffer are the producers'; the buffer is that of
	// all of them together.
	BatchBytes  int           `json:"batch_bytes"`
	Linger      time.Duration `json:"-"`
	LingerUS    float64       `json:"linger_us"`
	Buffer      int           `json:"buffer_bytes"`
	Compression string        `json:"compression"`

	// Readers is how many read the whole topic at the same time.
	Readers int `json:"readers,omitempty"`
	// Subscribers is how many follow the tail, and Ahead how many records the
	// writer may be ahead of the slowest of them.
	Subscribers int    `json:"subscribers,omitempty"`
	Ahead       uint64 `json:"ahead,omitempty"`
	// Splits is how often the topic is split.
	Splits int `json:"splits,omitempty"`
	// ProbeBytes is how much a single fetch asks for when fetches are timed
	// one by one, and Probes how many there are.
	ProbeBytes int `json:"probe_bytes,omitempty"`
	Probes     int `json:"probes,omitempty"`
	// Bytes is how much data a broker has to recover.
	Bytes int64 `json:"bytes,omitempty"`
	// Cold says that the files are dropped from the page cache before they are
	// read.
	Cold bool `json:"cold"`

	// Fsync is the setting of the topics.
	Fsync string `json:"fsync"`
	// Verify says that everything is read back and compared.
	Verify bool   `json:"verify"`
	Seed   uint64 `json:"seed"`
	// OwnBroker says that the run started a broker for itself.
	OwnBroker bool `json:"own_broker"`
}

// Defaults are the settings of a shape of which nothing was said. The seed is
// left out, since each run has another.
func Defaults(shape string) Settings {
	s := Settings{
		Payload: 256, Keys: 10_000, Topics: 1, Ranges: 1, Duration: 5 * time.Second,
		Connections: 1, Batched: true, InFlight: client.DefaultMaxInFlight,
		BatchBytes: client.DefaultBatchBytes, Buffer: client.DefaultMaxBuffered,
		Compression: client.CompressionNone.String(), Fsync: "always", Verify: true,
	}
	switch shape {
	case Fetch:
		s.Readers, s.Records, s.Duration = 1, 1_000_000, 0
		s.ProbeBytes, s.Probes = 64<<10, 1000
	case Fanout:
		s.Subscribers, s.Ahead = 10, 16_384
	case Split:
		s.Subscribers, s.Ahead, s.Splits, s.Rate, s.Duration = 1, 1<<20, 100, 50_000, 20*time.Second
	case Recovery:
		s.Bytes, s.Duration, s.Buffer = 256<<20, 0, 8<<20
	}
	return s
}

// Bounds of what a run may be told.
const (
	maxKeys        = 10_000_000
	maxTopics      = 100_000
	maxConnections = 1000
	maxInFlight    = 100_000
	maxReaders     = 1000
	maxSplits      = 10_000
	maxDuration    = 24 * time.Hour
	maxRecords     = 1 << 36
	maxBytes       = 1 << 42
)

// complete checks the settings and fills in what follows from others.
func (s *Settings) complete(shape string) error {
	s.KeySize = KeySize
	for _, b := range []struct {
		name              string
		value, least, top int64
	}{
		{"payload", int64(s.Payload), MinPayload, record.MaxValue},
		{"keys", int64(s.Keys), 1, maxKeys},
		{"topics", int64(s.Topics), 1, maxTopics},
		{"ranges", int64(s.Ranges), 1, catalog.MaxRanges},
		{"records", int64(min(s.Records, math.MaxInt64)), 0, maxRecords},
		{"duration", int64(s.Duration), 0, int64(maxDuration)},
		{"connections", int64(s.Connections), 1, maxConnections},
		{"in-flight", int64(s.InFlight), 1, s.topInFlight()},
		{"batch-bytes", int64(s.BatchBytes), 1, client.MaxBatchBytes},
		{"linger", int64(s.Linger), 0, int64(client.MaxLinger)},
		{"buffer", int64(s.Buffer), 1, 1 << 36},
		{"readers", int64(s.Readers), 0, maxReaders},
		{"subscribers", int64(s.Subscribers), 0, maxReaders},
		{"splits", int64(s.Splits), 0, maxSplits},
		{"probe-bytes", int64(s.ProbeBytes), 0, client.MaxFetchBytes},
		{"probes", int64(s.Probes), 0, 1 << 20},
		{"bytes", s.Bytes, 0, maxBytes},
	} {
		if b.value < b.least || b.value > b.top {
			return status.New(status.UsageError, "--%s is %d, allowed are %d to %d", b.name, b.value, b.least, b.top)
		}
	}
	if _, err := compressionOf(s.Compression); err != nil {
		return err
	}
	if s.Rate < 0 || math.IsNaN(s.Rate) || math.IsInf(s.Rate, 0) {
		return status.New(status.UsageError, "--rate is %g; it is how many records a second, or 0", s.Rate)
	}
	if err := s.completeShape(shape); err != nil {
		return err
	}
	s.Seconds, s.LingerUS = s.Duration.Seconds(), micros(s.Linger)
	return nil
}

func (s *Settings) topInFlight() int64 {
	if s.Batched {
		return client.MaxMaxInFlight
	}
	return maxInFlight
}

func (s *Settings) completeShape(shape string) error {
	switch shape {
	case Recovery:
		if !s.OwnBroker {
			return status.New(status.UsageError, "recovery kills the broker, so it runs on one of its own, without --addr")
		}
		if s.Records = uint64(s.Bytes) / uint64(s.Payload+KeySize); s.Records < uint64(s.Topics) {
			s.Records = uint64(s.Topics)
		}
	case Fetch:
		if s.Readers == 0 {
			return status.New(status.UsageError, "--readers is 0; fetch needs one")
		}
		if !s.OwnBroker && s.Cold {
			return status.New(status.UsageError, "--cold restarts the broker, so it goes without --addr")
		}
	case Split:
		if s.Splits == 0 || s.Duration == 0 || s.Topics != 1 {
			return status.New(status.UsageError, "split needs one topic, --splits of at least 1 and a --duration")
		}
	case Fanout:
		if s.Subscribers == 0 || s.Ahead == 0 {
			return status.New(status.UsageError, "--subscribers and --ahead are at least 1")
		}
		if s.Topics != 1 {
			return status.New(status.UsageError, "fanout follows one topic")
		}
	}
	if s.Records == 0 && s.Duration == 0 {
		return status.New(status.UsageError, "say how much to write, with --records or --duration")
	}
	if s.Records > 0 {
		s.Duration = 0
	}
	return nil
}

// plan is who writes where.
func (s *Settings) plan() Plan {
	if s.Batched {
		return Plan{Workers: max(s.Topics, s.Connections), Topics: s.Topics}
	}
	return Plan{Workers: s.InFlight, Topics: s.Topics}
}

// weight is what a record counts in bytes.
func (s *Settings) weight() float64 { return float64(s.Payload + KeySize) }

// durable says whether an acknowledgement means that the record is on the disk.
func (s *Settings) durable() bool { return s.Fsync == "always" }

func compressionOf(name string) (client.Compression, error) {
	for _, c := range []client.Compression{client.CompressionNone, client.CompressionS2, client.CompressionZstd} {
		if c.String() == name {
			return c, nil
		}
	}
	return 0, status.New(status.UsageError, "--compression %q is none of none, s2, zstd", name)
}

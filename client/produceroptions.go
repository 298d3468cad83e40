package client

import (
	"time"

	"github.com/quirelog/quire/internal/batch"
)

// ProducerOption configures a [Producer].
type ProducerOption func(*producerConfig)

// Compression says how a producer compresses its batches.
type Compression uint8

// The compressions.
const (
	// CompressionNone leaves batches as they are.
	CompressionNone Compression = iota
	// CompressionS2 is fast and finds repetition.
	CompressionS2
	// CompressionZstd is slower and smaller.
	CompressionZstd
)

func (c Compression) String() string {
	switch c {
	case CompressionNone:
		return "none"
	case CompressionS2:
		return "s2"
	case CompressionZstd:
		return "zstd"
	default:
		return "unknown"
	}
}

// Defaults and bounds of a producer.
const (
	DefaultBatchBytes  = 1 << 20
	DefaultMaxInFlight = 5
	MaxMaxInFlight     = 256
	DefaultMaxBuffered = 64 << 20
	MaxLinger          = time.Minute
)

type producerConfig struct {
	linger       time.Duration
	batchBytes   int
	batchRecords int
	maxInFlight  int
	maxBuffered  int
	compression  Compression
	name         string
}

func newProducerConfig(opts []ProducerOption) (producerConfig, error) {
	cfg := producerConfig{
		batchBytes:   DefaultBatchBytes,
		batchRecords: MaxBatchRecords,
		maxInFlight:  DefaultMaxInFlight,
		maxBuffered:  DefaultMaxBuffered,
	}
	for _, opt := range opts {
		opt(&cfg)
	}
	return cfg, cfg.check()
}

func (cfg *producerConfig) check() error {
	for _, o := range []struct {
		name        string
		value, most int
		least       int
	}{
		{"Linger", int(cfg.linger), int(MaxLinger), 0},
		{"BatchBytes", cfg.batchBytes, MaxBatchBytes, 1},
		{"BatchRecords", cfg.batchRecords, MaxBatchRecords, 1},
		{"MaxInFlight", cfg.maxInFlight, MaxMaxInFlight, 1},
		{"MaxBuffered", cfg.maxBuffered, 1 << 40, 1},
		{"WithCompression", int(cfg.compression), int(CompressionZstd), 0},
	} {
		if o.value < o.least || o.value > o.most {
			return invalid("producer option %s is %d, allowed are %d to %d",
				o.name, o.value, o.least, o.most)
		}
	}
	return nil
}

// batchOptions are those of a batch whose producer fields will be in fields.
func (cfg *producerConfig) batchOptions(fields *batch.Producer) batch.Options {
	o := batch.Options{Producer: fields}
	switch cfg.compression {
	case CompressionS2:
		o.Compression = batch.S2
	case CompressionZstd:
		o.Compression = batch.Zstd
	}
	return o
}

// Linger lets a batch that is not full wait so long for more records before it
// is sent; default 0, at most [MaxLinger]. Without it records wait only while
// two requests are under way already: one that the broker makes durable, and
// one that it does next.
func Linger(d time.Duration) ProducerOption {
	return func(cfg *producerConfig) { cfg.linger = d }
}

// BatchBytes is the size at which a batch is full; default
// [DefaultBatchBytes], at most [MaxBatchBytes], and smaller where the batches
// that gather would take more than half of [MaxBuffered]. A record that is larger
// goes alone.
func BatchBytes(n int) ProducerOption {
	return func(cfg *producerConfig) { cfg.batchBytes = n }
}

// BatchRecords is the number of records at which a batch is full; default and
// most is [MaxBatchRecords].
func BatchRecords(n int) ProducerOption {
	return func(cfg *producerConfig) { cfg.batchRecords = n }
}

// MaxInFlight is how many batches may be under way at the same time; default
// [DefaultMaxInFlight], at most [MaxMaxInFlight].
func MaxInFlight(n int) ProducerOption {
	return func(cfg *producerConfig) { cfg.maxInFlight = n }
}

// MaxBuffered bounds the bytes of records that are not answered yet; default
// [DefaultMaxBuffered]. Send waits while there are more. One record is always
// taken.
func MaxBuffered(bytes int) ProducerOption {
	return func(cfg *producerConfig) { cfg.maxBuffered = bytes }
}

// WithCompression compresses batches; default [CompressionNone].
func WithCompression(c Compression) ProducerOption {
	return func(cfg *producerConfig) { cfg.compression = c }
}

// ProducerName gives the producer a name of at most 255 bytes, of which only one
// writes: of the producers with this name the one that was begun last. What the
// others send then fails with [status.ProducerFenced], so that a program that
// was paused and replaced does no harm when it wakes up. Each begins with
// numbers of its own: what another one of this name sent is not recognized.
func ProducerName(name string) ProducerOption {
	return func(cfg *producerConfig) { cfg.name = name }
}

// Package node composes a broker: the store, the catalog that control drives,
// and the ranges that append and are read. It is the only place where all
// parts meet, and it imports no front: those call it.
//
// A Broker is safe for concurrent use.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/control"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// Config says how to open a broker. The zero value of a field is its default.
type Config struct {
	// Dir is the data directory.
	Dir string
	// FS is where it lies. Default: the operating system's.
	FS vfs.FS
	// Clock tells the time of day. Default time.Now.
	Clock func() time.Time
	// Log gets the story. Default: dropped.
	Log *slog.Logger
	// Registry gets the metrics. Default: one of its own.
	Registry *prometheus.Registry
	// Store tunes the disk.
	Store segment.Config
	// MaxTopics bounds the topics. Default 100,000.
	MaxTopics int
	// WaitingBytes bounds the batches that wait for a segment to be opened,
	// over all topics. Default 64 MiB.
	WaitingBytes int64
	// CarryBytes is after how many bytes of a segment what a range knows of its
	// producers is written into it again, so that little is read of it after a
	// start. Default 64 MiB, and at least 16 times what is written.
	CarryBytes int64
	// TendInterval is how often retention and ages are looked at. Default 1 s.
	TendInterval time.Duration
	// ScrubInterval is how long the broker rests between two readings of all
	// that is stored; negative is never. Default 24 h.
	ScrubInterval time.Duration
	// ScrubRate bounds them, in bytes a second. Default 64 MiB.
	ScrubRate int64
}

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.MaxTopics == 0 {
		c.MaxTopics = 100_000
	}
	if c.WaitingBytes == 0 {
		c.WaitingBytes = 64 << 20
	}
	if c.CarryBytes == 0 {
		c.CarryBytes = 64 << 20
	}
	if c.TendInterval == 0 {
		c.TendInterval = time.Second
	}
	if c.ScrubInterval == 0 {
		c.ScrubInterval = 24 * time.Hour
	}
	if c.ScrubRate == 0 {
		c.ScrubRate = 64 << 20
	}
	return c
}

// Broker is a node's broker.
type Broker struct {
	cfg     Config
	log     *slog.Logger
	store   *segment.Store
	control *control.Control
	owner   catalog.Owner
	metrics *metrics
	clock   clock

	// waitingBytes counts the batches that wait for a segment.
	waitingBytes atomic.Int64

	mu     sync.RWMutex
	topics map[ident.TopicID]*topic
	// names is a cache of parsed names: what requests say, to the topic.
	names map[string]*topic

	retired   chan struct{}
	ctx       context.Context
	stop      context.CancelFunc
	tasks     sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

// Open opens the data directory and recovers. Errors are *status.Error with
// the codes data_locked, data_corrupt, data_newer, data_read_only, disk_full.
func Open(cfg Config) (*Broker, error) {
	cfg = cfg.withDefaults()
	b := &Broker{
		cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Registry),
		topics: map[ident.TopicID]*topic{}, names: map[string]*topic{},
		retired: make(chan struct{}, 1),
	}
	b.clock.init(cfg.Clock)
	storeConfig := cfg.Store
	storeConfig.Observer, storeConfig.Log = b.metrics, cfg.Log
	store, err := segment.Open(cfg.FS, cfg.Dir, storeConfig)
	if err != nil {
		return nil, err
	}
	b.store = store
	b.owner = catalog.Owner{Store: store.Identity(), Process: ident.NewIncarnation()}
	b.control, err = control.Open(store, control.Config{
		Clock: cfg.Clock, Log: cfg.Log, Voters: []ident.StoreID{store.Identity()},
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	b.control.View(func(s *catalog.State) {
		for t := range s.After(catalog.Name{}) {
			b.topics[t.ID] = newTopic(b, t)
		}
	})
	b.metrics.watch(b)
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.tasks.Go(b.tend)
	b.tasks.Go(b.deleteRetired)
	if cfg.ScrubInterval > 0 {
		b.tasks.Go(b.scrub)
	}
	r := store.Recovery()
	b.log.Info("store open", "store", store.Identity(), "segments", r.Segments, "topics", len(b.topics),
		"replayed_rounds", r.Rounds, "replayed_bytes", r.Replayed, "kept_bytes", r.Kept, "torn_bytes", r.Torn, "took", r.Took)
	return b, nil
}

// Recovery says what opening the store found and did.
func (b *Broker) Recovery() segment.Recovery { return b.store.Recovery() }

// Done is closed when the store has failed for ever; Err says why.
func (b *Broker) Done() <-chan struct{} { return b.store.Done() }

// Err is why the broker stopped; nil while it works.
func (b *Broker) Err() error { return b.store.Err() }

// Ready says why the broker does not serve, or nil.
func (b *Broker) Ready() error {
	if err := b.ctx.Err(); err != nil {
		return errClosed
	}
	if err := b.store.Err(); err != nil {
		return err
	}
	return b.control.Err()
}

var errClosed = status.New(status.Unavailable, "the broker is closed")

// Close ends what waits, writes what was handed in, and releases the data
// directory. It is idempotent.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.mu.Lock()
		b.stop()
		b.mu.Unlock()
		b.tasks.Wait()
		b.control.Close()
		b.closeErr = b.store.Close()
	})
	return b.closeErr
}

// lookup finds the topic that has a name now.
func (b *Broker) lookup(name string) (*topic, error) {
	b.mu.RLock()
	t := b.names[name]
	b.mu.RUnlock()
	if t != nil && t.gone.Load() == nil {
		return t, nil
	}
	n, err := catalog.ParseName(name)
	if err != nil {
		return nil, err
	}
	var found *catalog.Topic
	b.control.View(func(s *catalog.State) { found, _ = s.Lookup(n) })
	if found == nil {
		return nil, status.New(status.TopicNotFound, "there is no topic %q", n.Short())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t = b.topics[found.ID]
	if t == nil {
		return nil, status.New(status.TopicNotFound, "there is no topic %q", n.Short())
	}
	b.names[name] = t
	return t, nil
}

// tend looks at each topic now and then: ages, retention, the clock.
func (b *Broker) tend() {
	ticker := time.NewTicker(b.cfg.TendInterval)
	defer ticker.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.store.Done():
			return
		case <-ticker.C:
		}
		now, sound := b.clock.check()
		if !sound {
			b.metrics.Limit("clock_jump")
		}
		b.mu.RLock()
		topics := make([]*topic, 0, len(b.topics))
		for _, t := range b.topics {
			topics = append(topics, t)
		}
		b.mu.RUnlock()
		for _, t := range topics {
			t.tend(now, sound)
		}
	}
}

// scrub reads all that is stored now and then, and reports what is damaged.
// The damaged segments stay as they are: reads of them answer data_corrupt.
func (b *Broker) scrub() {
	timer := time.NewTimer(b.cfg.ScrubInterval)
	defer timer.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-timer.C:
		}
		_ = b.store.Scrub(b.ctx, b.cfg.ScrubRate, func(err error) {
			b.metrics.damage.Inc()
			b.log.Error("stored bytes are damaged; stop the broker and run quire doctor", "err", err)
		})
		timer.Reset(b.cfg.ScrubInterval)
	}
}

// deleteRetired deletes the segments that committed commands retired, and
// confirms that.
func (b *Broker) deleteRetired() {
	for {
		var list []catalog.Retired
		b.control.View(func(s *catalog.State) { list = s.RetiredOn(b.owner.Store) })
		if len(list) > 0 {
			err := b.deleteSegments(list[:min(len(list), catalog.MaxConfirm)])
			if err == nil {
				continue
			}
			b.log.Warn("segments are not deleted yet", "segments", len(list), "err", err)
		}
		select {
		case <-b.ctx.Done():
			return
		case <-b.store.Done():
			return
		case <-b.retired:
		}
	}
}

func (b *Broker) deleteSegments(list []catalog.Retired) error {
	ids := make([]ident.SegmentID, len(list))
	for i := range list {
		ids[i] = list[i].Segment
	}
	if err := b.store.Delete(ids...); err != nil {
		return err
	}
	_, err := b.control.Propose(catalog.ConfirmRetired{Retired: list})
	return err
}

// wakeDeleter says that a command retired segments.
func (b *Broker) wakeDeleter() {
	select {
	case b.retired <- struct{}{}:
	default:
	}
}

// propose runs a command and turns what only a proposer understands into an
// error for users.
func (b *Broker) propose(cmd catalog.Command) (catalog.Result, error) {
	res, err := b.control.Propose(cmd)
	if len(res.Retired) > 0 {
		b.wakeDeleter()
	}
	if err != nil && status.CodeOf(err) == status.Internal && errors.Is(err, catalog.ErrMalformed) {
		err = fmt.Errorf("catalog: %w", err)
	}
	return res, err
}

// spawn runs f in a goroutine that Close waits for. It says false when the
// broker is closed.
func (b *Broker) spawn(f func()) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.ctx.Err() != nil {
		return false
	}
	b.tasks.Go(f)
	return true
}

package client

import (
	"time"

	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
)

// Defaults and bounds of reading.
const (
	// MaxFetchRecords and MaxFetchBytes are the defaults of a fetch and the
	// most it may ask for.
	MaxFetchRecords = 10_000
	MaxFetchBytes   = 8 << 20
	// MaxWait is the longest a fetch may wait.
	MaxWait = 5 * time.Minute
	// DefaultWindowRecords and DefaultWindowBytes are how much a subscription
	// lets the broker send ahead; MaxWindowRecords and MaxWindowBytes is the
	// most.
	DefaultWindowRecords = 10_000
	DefaultWindowBytes   = 4 << 20
	MaxWindowRecords     = 1 << 20
	MaxWindowBytes       = 16 << 20
	// MaxQueue is the default and the most of [Queue].
	MaxQueue = 10_000
)

// FetchOption configures [Client.Fetch].
type FetchOption interface{ setFetch(*fetchConfig) }

// ReadOption configures [Client.Read].
type ReadOption interface{ setRead(*readConfig) }

// SubscribeOption configures [Client.Subscribe].
type SubscribeOption interface{ setSubscribe(*subscribeConfig) }

type fetchConfig struct {
	filter     *quirev1.Filter
	maxRecords int
	maxBytes   int
	wait       time.Duration
}

func (cfg *fetchConfig) check() error {
	switch {
	case cfg.maxRecords < 0 || cfg.maxRecords > MaxFetchRecords:
		return invalid("MaxRecords is %d, allowed are 1 to %d", cfg.maxRecords, MaxFetchRecords)
	case cfg.maxBytes < 0 || cfg.maxBytes > MaxFetchBytes:
		return invalid("MaxBytes is %d, allowed are 1 to %d", cfg.maxBytes, MaxFetchBytes)
	case cfg.wait < 0 || cfg.wait > MaxWait:
		return invalid("Wait is %v, allowed are 0 to %v", cfg.wait, MaxWait)
	}
	return checkFilter(cfg.filter)
}

type readConfig struct{ filter *quirev1.Filter }

type subscribeConfig struct {
	filter       *quirev1.Filter
	records      int
	bytes        int
	overflow     Overflow
	queueRecords int
}

func (cfg *subscribeConfig) check() error {
	switch {
	case cfg.records < 1 || cfg.records > MaxWindowRecords:
		return invalid("a window of %d records, allowed are 1 to %d", cfg.records, MaxWindowRecords)
	case cfg.bytes < 1 || cfg.bytes > MaxWindowBytes:
		return invalid("a window of %d bytes, allowed are 1 to %d", cfg.bytes, MaxWindowBytes)
	case cfg.overflow > Disconnect:
		return invalid("overflow policy %d does not exist", cfg.overflow)
	case cfg.queueRecords < 0 || cfg.queueRecords > MaxQueue:
		return invalid("a queue of %d records, allowed are 1 to %d", cfg.queueRecords, MaxQueue)
	}
	return checkFilter(cfg.filter)
}

func checkFilter(f *quirev1.Filter) error {
	if n := max(len(f.GetKey()), len(f.GetKeyPrefix())); n > record.MaxKey {
		return invalid("a filter of %d bytes, a key has at most %d", n, record.MaxKey)
	}
	return nil
}

// FilterOption picks records by their key, at the broker. It is for fetches,
// reads and subscriptions.
type FilterOption struct{ filter *quirev1.Filter }

// Key picks the records that have exactly this key. Of several filters the
// last one holds.
func Key(key []byte) FilterOption {
	if key == nil {
		key = []byte{}
	}
	return FilterOption{&quirev1.Filter{By: &quirev1.Filter_Key{Key: key}}}
}

// KeyPrefix picks the records whose key begins with prefix.
func KeyPrefix(prefix []byte) FilterOption {
	if prefix == nil {
		prefix = []byte{}
	}
	return FilterOption{&quirev1.Filter{By: &quirev1.Filter_KeyPrefix{KeyPrefix: prefix}}}
}

func (o FilterOption) setFetch(cfg *fetchConfig)         { cfg.filter = o.filter }
func (o FilterOption) setRead(cfg *readConfig)           { cfg.filter = o.filter }
func (o FilterOption) setSubscribe(cfg *subscribeConfig) { cfg.filter = o.filter }

type fetchOption func(*fetchConfig)

func (o fetchOption) setFetch(cfg *fetchConfig) { o(cfg) }

// MaxRecords bounds the records of a fetch; default and most is
// [MaxFetchRecords].
func MaxRecords(n int) FetchOption {
	return fetchOption(func(cfg *fetchConfig) { cfg.maxRecords = n })
}

// MaxBytes bounds the bytes of a fetch; default and most is [MaxFetchBytes].
// The first record comes whatever its size.
func MaxBytes(n int) FetchOption {
	return fetchOption(func(cfg *fetchConfig) { cfg.maxBytes = n })
}

// Wait is how long a fetch that finds nothing waits for a first record;
// default 0, at most [MaxWait]. Other requests of the client do not wait for
// it.
func Wait(d time.Duration) FetchOption {
	return fetchOption(func(cfg *fetchConfig) { cfg.wait = d })
}

type subscribeOption func(*subscribeConfig)

func (o subscribeOption) setSubscribe(cfg *subscribeConfig) { o(cfg) }

// Window is how much a subscription lets the broker send ahead of what the
// program has consumed: the default is [DefaultWindowRecords] and
// [DefaultWindowBytes], the most [MaxWindowRecords] and [MaxWindowBytes].
func Window(records, bytes int) SubscribeOption {
	return subscribeOption(func(cfg *subscribeConfig) { cfg.records, cfg.bytes = records, bytes })
}

// Overflow says what becomes of a subscription whose window is shut while more
// records than its queue holds are waiting at the broker.
type Overflow uint8

// The overflow policies. Every record that is dropped is reported by a
// [*GapError].
const (
	// Block leaves the records in the topic: the subscription falls behind.
	Block Overflow = iota
	// DropOldest skips to the newest records that the queue holds.
	DropOldest
	// DropNewest keeps the queue and skips what comes while it is full.
	DropNewest
	// Disconnect ends the subscription with [status.SlowConsumer].
	Disconnect
)

// WithOverflow sets the overflow policy; default [Block].
func WithOverflow(o Overflow) SubscribeOption {
	return subscribeOption(func(cfg *subscribeConfig) { cfg.overflow = o })
}

// Queue is how many records may wait at the broker before the overflow policy
// acts; default and most is [MaxQueue].
func Queue(records int) SubscribeOption {
	return subscribeOption(func(cfg *subscribeConfig) { cfg.queueRecords = records })
}

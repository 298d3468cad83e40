package segment

import (
	"fmt"
	"log/slog"
	"time"
)

// Config tunes a store. The zero value of a field is its default.
type Config struct {
	// JournalFileBytes is the size of one journal file; a multiple of 4 KiB.
	// Default 32 MiB, at least 64 KiB, at most 1 GiB.
	JournalFileBytes int64
	// JournalFiles is how many there may be; appends wait for a checkpoint
	// when all are full. Default 4, at least 1, at most 16.
	JournalFiles int
	// RoundBytes bounds what one commit round takes, at least one batch. Default
	// 8 MiB, at least 64 KiB.
	RoundBytes int
	// DirectBytes is the size from which a segment's part of a round is made
	// durable by a sync of its own file instead of the journal. Default
	// 128 KiB; docs/evidence.md has the measured crossover.
	DirectBytes int
	// MarkInterval bounds how long a direct round stays without its mark in
	// the journal, and the last journal round without one behind it. Default
	// 100 ms.
	MarkInterval time.Duration
	// MarkBytes bounds how many bytes do. Default 64 MiB.
	MarkBytes int64
	// QueueBytes bounds what waits to be written; more is refused as
	// overloaded. Default 256 MiB.
	QueueBytes int64
	// TailCacheBytes bounds the newest batches that are kept in memory for
	// tail readers, over all segments. Default 64 MiB.
	TailCacheBytes int64
	// OpenFiles bounds the segment files that are open at a time. Default
	// 4,096, at least 16.
	OpenFiles int
	// SyncWorkers is how many segment files are synced at the same time by a
	// checkpoint and by Open; the disk then flushes once for several. Default 8.
	SyncWorkers int
	// VerifyBytes bounds how much Open reads to verify segments, whole ones as
	// long as they fit; scrubs and readers verify the rest. Default 128 MiB,
	// negative is none.
	VerifyBytes int64
	// MinFreeBytes is the space on the disk below which appends are refused
	// with disk_full. Default 64 MiB; negative is none.
	MinFreeBytes int64
	// BallastReserve is what the ballast holds beside the journal's capacity.
	// Default 16 MiB; negative makes no ballast.
	BallastReserve int64
	// Observer is told what happens; nil tells nobody.
	Observer Observer
	// Log gets the story; nil drops it.
	Log *slog.Logger
}

// Observer is told what the store does. Its methods are called from the
// store's goroutines and must be quick.
type Observer interface {
	// Round reports one commit round: how many appends and bytes it made
	// durable, how long the oldest waited in the queue, and how long the sync
	// took (0 if there was none).
	Round(RoundStats)
	// Synced counts one fsync or fdatasync of a file.
	Synced(kind SyncKind, took time.Duration)
	// Limit reports that a limit was hit: "queue_bytes", "journal_files",
	// "disk_full", "open_files".
	Limit(name string)
}

// RoundStats describes a commit round.
type RoundStats struct {
	Appends int
	Bytes   int
	Journal bool
	Direct  int
	Queued  time.Duration
	Took    time.Duration
}

// SyncKind says what was synced.
type SyncKind uint8

// The kinds of syncs.
const (
	SyncJournal SyncKind = iota
	SyncDirect
	SyncCheckpoint
	SyncMeta
)

func (k SyncKind) String() string {
	return [...]string{"journal", "direct", "checkpoint", "meta"}[k]
}

const blockSize = 4096

func (c Config) withDefaults() (Config, error) {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	defInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.JournalFileBytes, 32<<20)
	defInt(&c.JournalFiles, 4)
	defInt(&c.RoundBytes, 8<<20)
	defInt(&c.DirectBytes, 128<<10)
	def(&c.MarkBytes, 64<<20)
	def(&c.QueueBytes, 256<<20)
	def(&c.TailCacheBytes, 64<<20)
	defInt(&c.OpenFiles, 4096)
	defInt(&c.SyncWorkers, 8)
	def(&c.VerifyBytes, 128<<20)
	def(&c.MinFreeBytes, 64<<20)
	def(&c.BallastReserve, 16<<20)
	if c.MarkInterval == 0 {
		c.MarkInterval = 100 * time.Millisecond
	}
	if c.Observer == nil {
		c.Observer = nobody{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.JournalFileBytes < 64<<10 || c.JournalFileBytes > 1<<30 || c.JournalFileBytes%blockSize != 0:
		return c, fmt.Errorf("journal file size %d: want a multiple of %d from 64 KiB to 1 GiB", c.JournalFileBytes, blockSize)
	case c.JournalFiles < 1 || c.JournalFiles > 16:
		return c, fmt.Errorf("journal files %d: want 1 to 16", c.JournalFiles)
	case c.RoundBytes < 64<<10:
		return c, fmt.Errorf("round size %d: want at least 64 KiB", c.RoundBytes)
	case c.SyncWorkers < 1 || c.SyncWorkers > 64:
		return c, fmt.Errorf("sync workers %d: want 1 to 64", c.SyncWorkers)
	case c.OpenFiles < 16:
		return c, fmt.Errorf("open files %d: want at least 16", c.OpenFiles)
	}
	return c, nil
}

type nobody struct{}

func (nobody) Round(RoundStats)               {}
func (nobody) Synced(SyncKind, time.Duration) {}
func (nobody) Limit(string)                   {}

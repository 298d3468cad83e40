// Package batch has the bytes of a batch, the unit of append, replication,
// storage and delivery. A producer encodes a batch once with a Builder; the
// broker validates it, stamps its own part of the header and from then on only
// copies it; a reader walks it with a Reader without allocating. FORMAT.md
// draws the layout. The package is pure.
package batch

import (
	"errors"
	"fmt"
)

// The errors of this package, wrapped with what was wrong.
var (
	// ErrCorrupt: the bytes are not a batch, or a damaged one.
	ErrCorrupt = errors.New("corrupt batch")
	// ErrVersion: the batch has a version that this program does not know.
	ErrVersion = errors.New("unknown batch version")
	// ErrTooLarge: the batch, one of its records or a part of one is over
	// its limit.
	ErrTooLarge = errors.New("over the limit")
	// ErrRecordTooLarge is the ErrTooLarge of one record: no other way to
	// batch it helps.
	ErrRecordTooLarge = fmt.Errorf("record %w", ErrTooLarge)
	// ErrFull is the ErrTooLarge of a Builder that has no room for a record
	// which fits into an empty batch: Finish, then Add it again.
	ErrFull = fmt.Errorf("batch %w", ErrTooLarge)
	// ErrMalformed: a Builder was given a record that has no encoding.
	ErrMalformed = errors.New("malformed record")
	// ErrKind: a producer may not write this kind of batch or record.
	ErrKind = errors.New("kind not allowed")
)

const (
	// MaxSize bounds a batch, as stored and with its payload uncompressed.
	MaxSize = 8 << 20
	// MaxRecords bounds the records of one batch.
	MaxRecords = 16384
	// sparseSlack is what a Sparse batch may be larger than MaxSize. Selecting
	// from a batch adds at most two bytes of offset to each record, and one to
	// the length before it.
	sparseSlack = 4 * MaxRecords
)

// Compression says how a payload is compressed.
type Compression uint8

// The compressions.
const (
	None Compression = iota
	S2
	Zstd
)

// Kind says what a batch's records are.
type Kind uint8

// The kinds of batches.
const (
	// Data are records that a producer wrote.
	Data Kind = iota
	// Control are records of the broker's own, which no reader is shown.
	Control
	// Restated are copies that compaction appended.
	Restated
)

// RecordKind says what a record means to the projections.
type RecordKind uint8

// The kinds of records.
const (
	// Value is a record as such, and to a cache the value of its key.
	Value RecordKind = iota
	// Tombstone deletes its key. It has a key and no value.
	Tombstone
	// Delta is added to the counter of its key.
	Delta
	// Checkpoint stands for everything of its key that was appended before it.
	// Only the broker writes it.
	Checkpoint
)

// Package ident holds the identifiers and small numbers that every other
// package speaks in. Each is a type of its own, so that swapping two of them
// does not compile. It imports nothing of this module, and everything may
// import it.
package ident

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Position is a point in the keyspace [0, 2^64): xxh3_64 of a key.
type Position uint64

// RangeID names a range for ever; ids are never reused within a store's
// catalog. Zero is no range.
type RangeID uint64

func (r RangeID) String() string { return "r" + strconv.FormatUint(uint64(r), 10) }

// SegmentID names a segment for ever; ids are never reused. Zero is no
// segment.
type SegmentID uint64

func (s SegmentID) String() string { return "s" + strconv.FormatUint(uint64(s), 10) }

// Epoch is the number that fences: the epoch of a range rises with each grant
// of its primary. Zero is before the first grant.
type Epoch uint64

// Offset numbers the records of a range 0, 1, 2, … without holes.
type Offset uint64

// Incarnation is a random 128-bit identity: of a store, or of one life of a
// topic name.
type Incarnation [16]byte

// NewIncarnation draws a random identity.
func NewIncarnation() Incarnation {
	var i Incarnation
	// crypto/rand.Read never fails: it crashes the program instead.
	_, _ = rand.Read(i[:])
	return i
}

// IsZero says whether i names nothing.
func (i Incarnation) IsZero() bool { return i == Incarnation{} }

func (i Incarnation) String() string { return hex.EncodeToString(i[:]) }

// ParseIncarnation reads what String wrote.
func ParseIncarnation(s string) (Incarnation, error) {
	var i Incarnation
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(i) {
		return Incarnation{}, fmt.Errorf("identity %q: want %d hex digits", s, 2*len(i))
	}
	copy(i[:], b)
	return i, nil
}

// StoreID is the identity of one store (one disk of one node), made with it
// and never reused.
type StoreID = Incarnation

// TopicID is the identity of one incarnation of a topic: a topic that is
// deleted and made again under the same name has another.
type TopicID = Incarnation

// Timestamp is a time in microseconds since the Unix epoch, as batches and
// catalog commands carry it. Zero is no time.
type Timestamp int64

// TimestampOf converts t, truncating to microseconds. The zero time is zero.
func TimestampOf(t time.Time) Timestamp {
	if t.IsZero() {
		return 0
	}
	return Timestamp(t.UnixMicro())
}

// Time converts to a time.Time in UTC. Zero is the zero time.
func (t Timestamp) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t)).UTC()
}

// Package record has the unit that Quire stores: a key, a value, headers and
// times. It is plain data, safe to copy; its byte slices belong to whoever made
// the record and are never changed by this module.
package record

import "time"

// Limits of one record. A topic may set a higher limit for its values, up to
// MaxValueBound.
const (
	// MaxKey is the most bytes a key may have.
	MaxKey = 4 << 10
	// MaxValue is the most bytes a value may have unless its topic says
	// otherwise.
	MaxValue = 1 << 20
	// MaxValueBound is the highest value limit that a topic may set. It is
	// what fits into one batch beside its key and headers.
	MaxValueBound = 8<<20 - 64<<10
	// MaxHeaders is the most headers a record may have.
	MaxHeaders = 64
	// MaxHeaderBytes is the most bytes all header keys and values of a record
	// may have together.
	MaxHeaderBytes = 16 << 10
)

// Record is one record.
type Record struct {
	// Key decides the order: records of one key are read back in the order in
	// which they were acknowledged. A nil key is no key, and no order is
	// promised; an empty key that is not nil is a key like any other.
	Key []byte
	// Value is the payload; nil and empty are the same.
	Value []byte
	// Headers are small named values beside the payload, in the producer's
	// order; names may repeat.
	Headers []Header
	// Time is the producer's timestamp, kept in microseconds. When it is zero
	// the client sets it at the call.
	Time time.Time
	// AppendTime is when the broker appended the record. It is set on records
	// that were read and ignored on records that are produced. Within a topic
	// it never runs backwards for one key.
	AppendTime time.Time
}

// Header is one named value of a record.
type Header struct {
	Key   string
	Value []byte
}

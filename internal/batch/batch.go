// Package batch has the bytes of a batch, the unit of append, replication,
// storage and delivery. A producer encodes a batch once with a Builder; the
// broker validates it, stamps its own part of the header and from then on only
// copies it; a reader walks it with a Reader without allocating. FORMAT.md
// draws the layout. The package is pure.
package batch

import "errors"

// The errors of this package, wrapped with what was wrong.
var (
	// ErrCorrupt: the bytes are not a batch, or a damaged one.
	ErrCorrupt = errors.New("corrupt batch")
	// ErrVersion: the batch has a version that this program does not know.
	ErrVersion = errors.New("unknown batch version")
	// ErrTooLarge: the batch, one of its records or a part of one is over
	// its limit.
	ErrTooLarge = errors.New("over the limit")
	// ErrOutside: a key lies outside the band that the batch was checked for.
	ErrOutside = errors.New("key outside the range")
)

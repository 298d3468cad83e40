// Package keyspace says where keys live: the position of a key, and bands of
// positions. It is pure. A topic's leaf ranges tile the keyspace [0, 2^64)
// with bands, exactly.
package keyspace

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/quirelog/quire/internal/ident"
)

// PositionOf is the position of a key: its xxh3_64. It is part of the storage
// format and never changes.
func PositionOf(key []byte) ident.Position {
	return ident.Position(xxh3.Hash(key))
}

// Band is a set of neighbouring positions, first and last included, so that
// the whole keyspace has a value. First is never above Last.
type Band struct {
	First, Last ident.Position
}

// Full is the band of all positions.
func Full() Band { return Band{0, ^ident.Position(0)} }

// Contains says whether p lies in the band.
func (b Band) Contains(p ident.Position) bool { return b.First <= p && p <= b.Last }

// Valid says whether the band has at least one position.
func (b Band) Valid() bool { return b.First <= b.Last }

// Intersect gives the positions that both bands have, if there are any.
func (b Band) Intersect(c Band) (Band, bool) {
	both := Band{max(b.First, c.First), min(b.Last, c.Last)}
	return both, both.Valid()
}

// With is the smallest band that has b and p. A band that is not valid has
// nothing.
func (b Band) With(p ident.Position) Band {
	if !b.Valid() {
		return Band{p, p}
	}
	return Band{min(b.First, p), max(b.Last, p)}
}

// Without gives what is left of b on both sides of part, which lies in it.
func (b Band) Without(part Band) []Band {
	var rest []Band
	if b.First < part.First {
		rest = append(rest, Band{b.First, part.First - 1})
	}
	if part.Last < b.Last {
		rest = append(rest, Band{part.Last + 1, b.Last})
	}
	return rest
}

// Middle is the first position of the upper half of the band, and false for a
// band of one position, which has no halves.
func (b Band) Middle() (p ident.Position, ok bool) {
	return b.First + (b.Last-b.First)/2 + 1, b.First < b.Last
}

func (b Band) String() string {
	return fmt.Sprintf("[%016x,%016x]", uint64(b.First), uint64(b.Last))
}

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

// IsFull says whether the band is the whole keyspace.
func (b Band) IsFull() bool { return b == Full() }

// Valid says whether the band has at least one position.
func (b Band) Valid() bool { return b.First <= b.Last }

func (b Band) String() string {
	return fmt.Sprintf("[%016x,%016x]", uint64(b.First), uint64(b.Last))
}

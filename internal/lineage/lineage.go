// Package lineage has cursors: how far a reader is in a topic, over all of its
// ranges. A Cursor is a value; its token is the one string that stands for it,
// which readers keep and echo and never look into. FORMAT.md draws the token.
// The package is pure.
package lineage

import (
	"errors"
	"fmt"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// ErrMalformed: a token is none that this program could have made. It is
// wrapped with what was wrong.
var ErrMalformed = errors.New("malformed cursor")

// MaxEntries bounds the entries of a cursor.
const MaxEntries = 65536

// Place is where a record stands, or where the next one will.
type Place struct {
	Range  ident.RangeID
	Epoch  ident.Epoch
	Offset ident.Offset
	// Hidden is how many of the range's records before Offset are the broker's
	// own. A batch says it: its base less the users' records before it. It lets a
	// gap be counted in what users wrote, also when the records are gone.
	Hidden uint64
}

// Users is how many records users wrote before p in its range.
func (p Place) Users() uint64 { return uint64(p.Offset) - p.Hidden }

// Entry is how far a reader is in one band of the keyspace: everything of the
// band before Place has been read. It carries the band because the range may be
// gone when the cursor comes back.
type Entry struct {
	Band  keyspace.Band
	Place Place
}

// Cursor is how far a reader is in a topic. The bands of its entries tile the
// keyspace in order.
type Cursor struct {
	Topic   ident.TopicID
	Entries []Entry
}

// Check says what is wrong with a cursor, if anything is.
func (c Cursor) Check() error {
	if n := len(c.Entries); n == 0 || n > MaxEntries {
		return fmt.Errorf("%w: %d entries, at least 1 and at most %d", ErrMalformed, n, MaxEntries)
	}
	next := ident.Position(0)
	for i := range c.Entries {
		e := &c.Entries[i]
		if e.Place.Range == 0 {
			return fmt.Errorf("%w: entry %d names no range", ErrMalformed, i)
		}
		if e.Band.First != next || !e.Band.Valid() || i > 0 && next == 0 {
			return fmt.Errorf("%w: the bands do not tile the keyspace at entry %d", ErrMalformed, i)
		}
		if e.Place.Hidden > uint64(e.Place.Offset) {
			return fmt.Errorf("%w: entry %d hides %d of %d records", ErrMalformed, i, e.Place.Hidden, e.Place.Offset)
		}
		next = e.Band.Last + 1
	}
	if next != 0 {
		return fmt.Errorf("%w: the bands end at %016x", ErrMalformed, uint64(next))
	}
	return nil
}

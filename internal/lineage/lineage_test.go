package lineage

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

var topic = ident.TopicID{0xca, 0xfe, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// tile makes a cursor whose bands end before each of the bounds, which rise.
func tile(bounds []ident.Position, place func(i int) Place) Cursor {
	c := Cursor{Topic: topic}
	first := ident.Position(0)
	for i := range len(bounds) + 1 {
		last := ^ident.Position(0)
		if i < len(bounds) {
			last = bounds[i] - 1
		}
		c.Entries = append(c.Entries, Entry{Band: keyspace.Band{First: first, Last: last}, Place: place(i)})
		first = last + 1
	}
	return c
}

// halves are the bounds of n equal bands; n is a power of two.
func halves(n int) []ident.Position {
	var bounds []ident.Position
	for i := 1; i < n; i++ {
		bounds = append(bounds, ident.Position(i)*(^ident.Position(0)/ident.Position(n)+1))
	}
	return bounds
}

func golden() Cursor {
	return tile([]ident.Position{1 << 62, 1 << 63, 1<<63 + 12345}, func(i int) Place {
		return []Place{
			{Range: 7, Epoch: 1, Offset: 1_000_000, Hidden: 12},
			{Range: 8, Epoch: 2, Offset: 999_000, Hidden: 11},
			{Range: 5, Epoch: 2, Offset: 0},
			{Range: 1 << 40, Epoch: ^ident.Epoch(0), Offset: ^ident.Offset(0), Hidden: 1 << 40},
		}[i]
	})
}

// goldenBefore is golden as version 1 could say it.
func goldenBefore() Cursor {
	c := golden()
	for i := range c.Entries {
		c.Entries[i].Place.Hidden = 0
	}
	return c
}

func drawCursor(t *rapid.T) Cursor {
	bound := rapid.OneOf(
		rapid.Uint64Min(1),
		rapid.Custom(func(t *rapid.T) uint64 { return rapid.Uint64Range(1, 255).Draw(t, "eighth") << 56 }),
	)
	bounds := rapid.SliceOfNDistinct(bound, 0, 20, rapid.ID[uint64]).Draw(t, "bounds")
	slices.Sort(bounds)
	positions := make([]ident.Position, len(bounds))
	for i, b := range bounds {
		positions[i] = ident.Position(b)
	}
	c := tile(positions, func(int) Place {
		p := Place{
			Range:  ident.RangeID(rapid.Uint64Min(1).Draw(t, "range")),
			Epoch:  ident.Epoch(rapid.Uint64().Draw(t, "epoch")),
			Offset: ident.Offset(rapid.Uint64().Draw(t, "offset")),
		}
		p.Hidden = rapid.Uint64Max(uint64(p.Offset)).Draw(t, "hidden")
		return p
	})
	copy(c.Topic[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "topic"))
	return c
}

func TestCheckRefusesBandsThatDoNotTile(t *testing.T) {
	quarter := ident.Position(1) << 62
	for name, change := range map[string]func(*Cursor){
		"none":            func(c *Cursor) { c.Entries = nil },
		"a hole":          func(c *Cursor) { c.Entries[1].Band.First++ },
		"an overlap":      func(c *Cursor) { c.Entries[1].Band.First-- },
		"a missing first": func(c *Cursor) { c.Entries = c.Entries[1:] },
		"a missing last":  func(c *Cursor) { c.Entries = c.Entries[:3] },
		"another order":   func(c *Cursor) { c.Entries[0], c.Entries[1] = c.Entries[1], c.Entries[0] },
		"an empty band":   func(c *Cursor) { c.Entries[1].Band.Last = quarter - 1 },
		"one too many": func(c *Cursor) {
			c.Entries = append(c.Entries, Entry{Band: keyspace.Full(), Place: Place{Range: 1}})
		},
		"no range": func(c *Cursor) { c.Entries[2].Place.Range = 0 },
	} {
		c := tile(halves(4), func(int) Place { return Place{Range: 1} })
		change(&c)
		if err := c.Check(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

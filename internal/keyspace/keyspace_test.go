package keyspace

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/ident"
)

func drawBand(t *rapid.T, name string) Band {
	a, b := rapid.Uint64().Draw(t, name), rapid.Uint64().Draw(t, name)
	return Band{ident.Position(min(a, b)), ident.Position(max(a, b))}
}

func TestBandsHaveThePositionsThatTheirOperationsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, c := drawBand(t, "b"), drawBand(t, "c")
		p := ident.Position(rapid.Uint64().Draw(t, "p"))
		both, ok := b.Intersect(c)
		if (ok && both.Contains(p)) != (b.Contains(p) && c.Contains(p)) {
			t.Fatalf("%v and %v have %v in common, %v", b, c, both, ok)
		}
		if !ok {
			return
		}
		in := both.Contains(p)
		for _, rest := range b.Without(both) {
			if in = in != rest.Contains(p); !rest.Valid() {
				t.Fatalf("%v without %v leaves %v", b, both, rest)
			}
		}
		if in != b.Contains(p) {
			t.Fatalf("%v without %v: %016x is lost or twice", b, both, uint64(p))
		}
		if with := b.With(p); !with.Contains(p) || !with.Contains(b.First) || !with.Contains(b.Last) {
			t.Fatalf("%v with %016x is %v", b, uint64(p), with)
		}
	})
}

func TestTheMiddleHalvesABand(t *testing.T) {
	for _, c := range []struct {
		band Band
		want ident.Position
		ok   bool
	}{
		{Full(), 1 << 63, true},
		{Band{4, 5}, 5, true},
		{Band{7, 7}, 0, false},
		{Band{^ident.Position(0) - 1, ^ident.Position(0)}, ^ident.Position(0), true},
	} {
		if p, ok := c.band.Middle(); ok != c.ok || ok && p != c.want {
			t.Errorf("%v: %016x, %v", c.band, uint64(p), ok)
		}
	}
	if b := (Band{First: 1}).With(9); b != (Band{9, 9}) {
		t.Errorf("nothing with 9 is %v", b)
	}
}

package lineage

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/ident"
)

func TestAdvanceMovesOneEntryAndKeepsTheRest(t *testing.T) {
	token, err := Advance(golden().Encode(), 1, Step{9, 12345, 345})
	if err != nil {
		t.Fatal(err)
	}
	want := golden()
	want.Entries[1].Place.Epoch, want.Entries[1].Place.Offset, want.Entries[1].Place.Hidden = 9, 12345, 345
	if token != want.Encode() {
		c, err := Decode(token)
		t.Fatalf("%+v, %v", c, err)
	}
}

func TestTrackerTokenIsThatOfTheLastStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCursor(t)
		tr, err := NewTracker(c.Encode())
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 10).Draw(t, "steps") {
			i := rapid.IntRange(0, len(c.Entries)-1).Draw(t, "entry")
			p := &c.Entries[i].Place
			p.Epoch = ident.Epoch(rapid.Uint64().Draw(t, "epoch"))
			p.Offset = ident.Offset(rapid.Uint64().Draw(t, "next"))
			p.Hidden = rapid.Uint64Max(uint64(p.Offset)).Draw(t, "hidden")
			if err := tr.Advance(i, Step{p.Epoch, p.Offset, p.Hidden}); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "look") && tr.Token() != c.Encode() {
				t.Fatal("not the token of the step")
			}
		}
		if tr.Token() != c.Encode() {
			t.Fatal("not the token of the last step")
		}
	})
}

func TestAdvanceRefusesAnEntryThatIsNotThere(t *testing.T) {
	for _, entry := range []int{-1, 4, 1 << 30} {
		if _, err := Advance(golden().Encode(), entry, Step{1, 1, 0}); !errors.Is(err, ErrMalformed) {
			t.Errorf("entry %d: %v", entry, err)
		}
	}
	if _, err := Advance("garbage", 0, Step{1, 1, 0}); !errors.Is(err, ErrMalformed) {
		t.Errorf("garbage: %v", err)
	}
}

func TestStepsOfATrackerDoNotAllocate(t *testing.T) {
	tr, err := NewTracker(golden().Encode())
	if err != nil {
		t.Fatal(err)
	}
	next := ident.Offset(0)
	if n := testing.AllocsPerRun(100, func() {
		next++
		if err := tr.Advance(2, Step{1, next, 0}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations a step", n)
	}
}

func BenchmarkTracker(b *testing.B) {
	for _, n := range []int{1, 512, 65536} {
		token := tile(halves(n), func(i int) Place {
			return Place{Range: ident.RangeID(1 + i), Epoch: 3, Offset: ident.Offset(i * 7919 % 1_000_000)}
		}).Encode()
		b.Run(fmt.Sprintf("step/%d", n), func(b *testing.B) {
			tr, err := NewTracker(token)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := tr.Advance(n/2, Step{1, 1, 0}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("advance/%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Advance(token, n/2, Step{1, 1, 0}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package varint

import (
	"testing"

	"pgregory.net/rapid"
)

func TestDifferencesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, base := rapid.Uint64().Draw(t, "x"), rapid.Uint64().Draw(t, "base")
		s := Scanner{Rest: AppendDifference(nil, x, base)}
		if got := s.Difference(base); got != x || s.Bad || len(s.Rest) > 0 {
			t.Fatalf("%d from %d came back as %d, bad %v", x, base, got, s.Bad)
		}
	})
}

func TestWhatIsNotThereOrLongerThanItNeedsIsBad(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing": {}, "a cut one": {0x80}, "a needless byte": {0x82, 0}, "over 64 bits": {255, 255, 255, 255, 255, 255, 255, 255, 255, 2},
	} {
		if s := (Scanner{Rest: b}); s.Uvarint() != 0 || !s.Bad {
			t.Errorf("%s is taken", name)
		}
	}
	s := Scanner{Rest: []byte{1, 2}}
	if s.Take(3) != nil || !s.Bad || s.Uvarint() != 0 {
		t.Error("three bytes of two are taken")
	}
}

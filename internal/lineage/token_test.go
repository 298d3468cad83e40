package lineage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/ident"
)

// The tokens of all versions are read for ever.
func TestTokensNeverChange(t *testing.T) {
	for version, c := range map[byte]Cursor{version1: goldenBefore(), version2: golden()} {
		want, err := os.ReadFile(fmt.Sprintf("testdata/v%d.token", version&3))
		if err != nil {
			t.Fatal(err)
		}
		token := strings.TrimSpace(string(want))
		if got := c.encode(version); got != token {
			t.Errorf("the cursor encodes as\n%s\nwant\n%s", got, token)
		}
		if back, err := Decode(token); err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("the token decodes as %+v, %v", back, err)
		}
	}
}

func TestDecodeGivesBackWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCursor(t)
		got, err := Decode(c.Encode())
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("%+v became %+v, %v", c, got, err)
		}
	})
}

func TestTokenIsSafeInURLsAndOnCommandLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := drawCursor(t).Encode()
		if token[0] != 'c' {
			t.Fatalf("%q begins with %q", token, token[0])
		}
		if rest := strings.Trim(token, urlAlphabet); rest != "" {
			t.Fatalf("%q has more than letters, digits, - and _ at %q", token, rest)
		}
	})
}

const urlAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func TestSizeOfTokens(t *testing.T) {
	// What FORMAT.md says of the size of a token, in characters.
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ entries, atStart, underWay, atMost int }{
		{1, 35, 42, MaxToken},
		{512, 3500, 5600, MaxToken},
		{65536, 440_000, 700_000, MaxToken},
	} {
		start := tile(halves(c.entries), func(i int) Place { return Place{Range: ident.RangeID(1 + i), Epoch: 1} })
		underWay := tile(halves(c.entries), func(i int) Place {
			return Place{
				Range:  ident.RangeID(1000 + i),
				Epoch:  ident.Epoch(rng.Uint64N(64)),
				Offset: ident.Offset(64 + rng.Uint64N(100_000_000)),
				Hidden: rng.Uint64N(64),
			}
		})
		for name, l := range map[string][2]int{
			"at the start": {len(start.Encode()), c.atStart},
			"under way":    {len(underWay.Encode()), c.underWay},
		} {
			if l[0] > l[1] {
				t.Errorf("%d entries %s: %d characters, want at most %d", c.entries, name, l[0], l[1])
			}
			t.Logf("%d entries %s: %d characters", c.entries, name, l[0])
		}
	}
}

func TestLargestCursorFitsItsLimitAndOneMoreEntryDoesNot(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	bounds := make([]ident.Position, MaxEntries-1)
	for i := range bounds {
		bounds[i] = ident.Position(i+1)<<48 | ident.Position(rng.Uint64N(1<<48)|1)
	}
	far := func(i int) Place { // every difference takes ten bytes
		if i%2 == 0 {
			return Place{Range: 1, Epoch: 1, Offset: 1}
		}
		return Place{Range: 1<<63 + 1, Epoch: 1<<63 + 1, Offset: 1<<63 + 1, Hidden: 1<<63 + 1}
	}
	c := tile(bounds, far)
	token := c.Encode()
	if got, err := Decode(token); err != nil || !reflect.DeepEqual(got, c) {
		t.Fatalf("%d characters of at most %d: %v", len(token), MaxToken, err)
	}
	if c.Entries = append(c.Entries, c.Entries[0]); !errors.Is(c.Check(), ErrMalformed) {
		t.Fatal("one entry more was taken")
	}
	long := token + strings.Repeat("A", MaxToken+1-len(token))
	if _, err := Decode(long); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "at most") {
		t.Fatalf("a token over the limit: %v", err)
	}
}

package lineage

import (
	"errors"
	"slices"
	"testing"

	"github.com/quirelog/quire/internal/ident"
)

func TestEveryChangedCharacterIsRefused(t *testing.T) {
	token := golden().Encode()
	for i := range token {
		for c := range 256 {
			if byte(c) == token[i] {
				continue
			}
			changed := token[:i] + string([]byte{byte(c)}) + token[i+1:]
			if _, err := Decode(changed); !errors.Is(err, ErrMalformed) {
				t.Fatalf("character %d changed from %q to %#02x: %v", i, token[i], c, err)
			}
		}
	}
}

func TestEveryCutOrLengthenedTokenIsRefused(t *testing.T) {
	token := golden().Encode()
	for i := range token {
		if _, err := Decode(token[:i]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d of %d characters: %v", i, len(token), err)
		}
	}
	for _, s := range []string{"\n", "\r", " ", "=", "A", "AA", "AAAA"} {
		for _, changed := range []string{token + s, s + token, token[:5] + s + token[5:]} {
			if _, err := Decode(changed); !errors.Is(err, ErrMalformed) {
				t.Errorf("%q: %v", changed, err)
			}
		}
	}
}

// reseal gives a token to bytes that Encode would not have written.
func reseal(version byte, body []byte) string { return seal(append([]byte{version}, body...)) }

func TestOtherFormsOfACursorAreRefused(t *testing.T) {
	one := tile(nil, func(int) Place { return Place{Range: 1} })
	_, body, err := open(one.Encode())
	if err != nil {
		t.Fatal(err)
	}
	head, entry := body[:16:16], body[17:] // between them the count, 1
	cat := slices.Concat[[]byte]
	ones := slices.Repeat([]byte{0xff}, 10)
	zeros := make([]byte, 5*(MaxEntries+1))
	for name, token := range map[string]string{
		"another version":          reseal(version2+1, body),
		"no entries":               reseal(version2, cat(head, []byte{0})),
		"more entries than bytes":  reseal(version2, cat(head, []byte{0xff, 0xff, 3}, entry)),
		"too many entries":         reseal(version2, cat(head, []byte{0x81, 0x80, 4}, zeros)),
		"bytes behind the entries": reseal(version2, cat(body, []byte{0})),
		"a varint with needless 0": reseal(version2, cat(head, []byte{1, 0x82, 0}, entry[1:])),
		"a varint over 64 bits":    reseal(version2, cat(head, []byte{1}, ones, []byte{1}, entry[1:])),
		"a cut varint":             reseal(version2, cat(head, []byte{1, 0x80, 0x80, 0x80})),
		"no range":                 reseal(version2, cat(head, []byte{1, 0, 0, 0, 0})),
		"more hidden than read":    reseal(version2, cat(head, []byte{1, 2, 0, 0, 2})),
		"a band without positions": reseal(version2, cat(head, []byte{2, 0, 2, 0, 0, 0}, entry)),
		"bands that end and go on": reseal(version2, cat(head, []byte{3, 1, 2, 0, 0, 0, 0, 2, 0, 0, 0}, entry)),
		"bands past the end":       reseal(version2, cat(head, []byte{3, 1, 2, 0, 0, 0, 2, 2, 0, 0, 0}, entry)),
	} {
		if _, err := Decode(token); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(golden().Encode())
	f.Add(tile(nil, func(int) Place { return Place{Range: 1} }).Encode())
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		c, err := Decode(token)
		if err == nil && c.Encode() != token && c.encode(version1) != token {
			t.Fatalf("%q is not the token of its cursor", token)
		}
	})
}

// FuzzEntries has the checksum put right, so that the fuzzer gets behind it.
func FuzzEntries(f *testing.F) {
	eight := tile(halves(8), func(i int) Place { return Place{Range: ident.RangeID(i + 1)} })
	for _, c := range []Cursor{golden(), eight} {
		_, body, err := open(c.Encode())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, version := range []byte{version1, version2} {
			token := reseal(version, body)
			c, err := Decode(token)
			if err == nil && c.encode(version) != token {
				t.Fatalf("%x is not the only form of %+v", body, c)
			}
		}
	})
}

package lineage

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"strings"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/varint"
)

const (
	// version1 and version2 are the first bytes of tokens. Their upper six bits
	// make every token begin with the letter c, so that none looks like an option
	// of a command; the lower two are the version. Tokens of version 1 are read:
	// they are from before a range had records that are hidden.
	version1 = 0x71
	version2 = 0x72

	sumSize   = 4
	fixedSize = 1 + len(ident.TopicID{}) + sumSize
	// minEntry and maxEntry are the sizes of an entry: five varints, of which the
	// first is missing in the last entry, and the last in version 1.
	minEntry = 3
	maxEntry = 5 * binary.MaxVarintLen64
	maxBytes = fixedSize + binary.MaxVarintLen32 + MaxEntries*maxEntry

	// MaxToken bounds a token, in characters.
	MaxToken = (maxBytes*8 + 5) / 6
)

var (
	alphabet   = base64.RawURLEncoding.Strict()
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Encode is the token of c. A cursor that Check refuses has none: Encode
// panics, since only a broken invariant can have made it.
func (c Cursor) Encode() string { return c.encode(version2) }

func (c Cursor) encode(version byte) string {
	if err := c.Check(); err != nil {
		panic("lineage: encode: " + err.Error())
	}
	b := make([]byte, 0, fixedSize+binary.MaxVarintLen32+len(c.Entries)*7)
	b = append(b, version)
	b = append(b, c.Topic[:]...)
	b = binary.AppendUvarint(b, uint64(len(c.Entries)))
	d := delta{version: version}
	for i, e := range c.Entries {
		b = d.append(b, e, i == len(c.Entries)-1)
	}
	return seal(b)
}

// seal puts the checksum behind b and writes both in characters. It is a CRC
// rather than a hash: one changed character is sure to be noticed.
func seal(b []byte) string {
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return alphabet.EncodeToString(b)
}

// Decode reads what Encode wrote, in this or an earlier version, and nothing else:
// a cursor has one token in each version.
func Decode(token string) (Cursor, error) {
	version, b, err := open(token)
	if err != nil {
		return Cursor{}, err
	}
	c := Cursor{Topic: ident.TopicID(b[:len(ident.TopicID{})])}
	s := varint.Scanner{Rest: b[len(c.Topic):]}
	n := s.Uvarint()
	if n == 0 || n > MaxEntries || n > uint64(len(s.Rest)/minEntry) {
		return Cursor{}, fmt.Errorf("%w: %d entries in %d bytes", ErrMalformed, n, len(s.Rest))
	}
	c.Entries = make([]Entry, n)
	d := delta{version: version}
	for i := range c.Entries {
		c.Entries[i] = d.next(&s, i == len(c.Entries)-1)
	}
	if s.Bad || len(s.Rest) > 0 {
		return Cursor{}, fmt.Errorf("%w: the entries are not what the length says", ErrMalformed)
	}
	if err := c.Check(); err != nil {
		return Cursor{}, err
	}
	return c, nil
}

// open takes the characters, the version and the checksum off a token.
func open(token string) (version byte, body []byte, err error) {
	if len(token) > MaxToken {
		return 0, nil, fmt.Errorf("%w: %d characters, at most %d", ErrMalformed, len(token), MaxToken)
	}
	// The decoder would pass over the ends of lines.
	if strings.ContainsAny(token, "\r\n") {
		return 0, nil, fmt.Errorf("%w: it has more than one line", ErrMalformed)
	}
	b, err := alphabet.DecodeString(token)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(b) < fixedSize {
		return 0, nil, fmt.Errorf("%w: %d characters are too few", ErrMalformed, len(token))
	}
	if b[0] != version1 && b[0] != version2 {
		return 0, nil, fmt.Errorf("%w: it begins with %#02x, this program knows %#02x and %#02x",
			ErrMalformed, b[0], version1, version2)
	}
	end := len(b) - sumSize
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return 0, nil, fmt.Errorf("%w: the checksum does not match", ErrMalformed)
	}
	return b[0], b[1:end], nil
}

// delta codes entries relative to the one before. All differences are taken
// modulo 2^64, so that each entry has exactly one code.
type delta struct {
	version byte
	place   Place
	start   uint64 // first position of the entry to come
	width   uint64 // positions of the entry before; 0 at first
}

// append writes e. The last entry ends with the keyspace and needs no width.
//
// Ranges are made by halving, so widths have their set bits at the top, and
// neighbours often have the same: reversed and as difference they are short.
func (d *delta) append(b []byte, e Entry, last bool) []byte {
	if !last {
		width := uint64(e.Band.Last-e.Band.First) + 1
		b = binary.AppendUvarint(b, bits.Reverse64(width^d.width))
		d.width = width
	}
	b = varint.AppendDifference(b, uint64(e.Place.Range), uint64(d.place.Range))
	b = varint.AppendDifference(b, uint64(e.Place.Epoch), uint64(d.place.Epoch))
	b = varint.AppendDifference(b, uint64(e.Place.Offset), uint64(d.place.Offset))
	if d.version != version1 {
		b = varint.AppendDifference(b, e.Place.Hidden, d.place.Hidden)
	}
	d.place = e.Place
	return b
}

// next reads what append wrote. Check finds bands that do not tile.
func (d *delta) next(s *varint.Scanner, last bool) Entry {
	e := Entry{Band: keyspace.Band{First: ident.Position(d.start), Last: ^ident.Position(0)}}
	if !last {
		d.width ^= bits.Reverse64(s.Uvarint())
		d.start += d.width
		e.Band.Last = ident.Position(d.start - 1)
	}
	e.Place = Place{
		Range:  ident.RangeID(s.Difference(uint64(d.place.Range))),
		Epoch:  ident.Epoch(s.Difference(uint64(d.place.Epoch))),
		Offset: ident.Offset(s.Difference(uint64(d.place.Offset))),
	}
	if d.version != version1 {
		e.Place.Hidden = s.Difference(d.place.Hidden)
	}
	d.place = e.Place
	return e
}

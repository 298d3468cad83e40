package batch

import (
	"encoding/binary"
	"math/bits"
)

// uvarintLen is the number of bytes of x as a varint.
func uvarintLen(x uint64) int { return (9*bits.Len64(x) + 64) / 64 }

// zigzag folds the sign of x into its lowest bit, so that small numbers of
// either sign are short.
func zigzag(x int64) uint64 { return uint64(x)<<1 ^ uint64(x>>63) }

// unzigzag undoes zigzag.
func unzigzag(x uint64) int64 { return int64(x>>1) ^ -int64(x&1) }

// scanner takes values off the front of a byte slice. After the first that is
// not there it gives zeros and stays bad, so that a caller checks once.
type scanner struct {
	b   []byte
	bad bool
}

// uvarint takes a varint. Each number has one encoding: one with needless
// bytes or over 64 bits is bad.
func (s *scanner) uvarint() uint64 {
	if len(s.b) > 0 && s.b[0] < 0x80 {
		v := s.b[0]
		s.b = s.b[1:]
		return uint64(v)
	}
	return s.longUvarint()
}

func (s *scanner) longUvarint() uint64 {
	x, n := binary.Uvarint(s.b)
	if n <= 0 || s.b[n-1] == 0 {
		s.fail()
		return 0
	}
	s.b = s.b[n:]
	return x
}

// take takes n bytes, as a slice that is not nil.
func (s *scanner) take(n uint64) []byte {
	if n > uint64(len(s.b)) {
		s.fail()
		return nil
	}
	v := s.b[:n:n]
	s.b = s.b[n:]
	return v
}

// field takes bytes with their length before them.
func (s *scanner) field() []byte { return s.take(s.uvarint()) }

func (s *scanner) fail() { s.b, s.bad = nil, true }

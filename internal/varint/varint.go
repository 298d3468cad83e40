// Package varint has the integers of the compact formats: varints in their
// shortest form, and differences with their sign in the lowest bit, so that a
// value has one code. It is pure.
package varint

import "encoding/binary"

// AppendDifference writes x relative to base, modulo 2^64.
func AppendDifference(b []byte, x, base uint64) []byte {
	d := int64(x - base)
	return binary.AppendUvarint(b, uint64(d)<<1^uint64(d>>63))
}

// Scanner takes values off the front of Rest. After the first that is not there,
// or not in its shortest form, it gives zeros, nothing is left, and it stays Bad.
type Scanner struct {
	Rest []byte
	Bad  bool
}

// Uvarint takes what binary.AppendUvarint wrote.
func (s *Scanner) Uvarint() uint64 {
	x, n := binary.Uvarint(s.Rest)
	if n <= 0 || n > 1 && s.Rest[n-1] == 0 {
		s.fail()
		return 0
	}
	s.Rest = s.Rest[n:]
	return x
}

// Difference takes what AppendDifference wrote.
func (s *Scanner) Difference(base uint64) uint64 {
	z := s.Uvarint()
	return base + (z>>1 ^ -(z & 1))
}

// Take takes n bytes; nil if there are fewer. The bytes are those of Rest.
func (s *Scanner) Take(n uint64) []byte {
	if n > uint64(len(s.Rest)) {
		s.fail()
		return nil
	}
	v := s.Rest[:n:n]
	s.Rest = s.Rest[n:]
	return v
}

func (s *Scanner) fail() { s.Rest, s.Bad = nil, true }

package producers

import "encoding/binary"

// appendDifference writes x relative to base, with the sign in the lowest bit.
func appendDifference(b []byte, x, base uint64) []byte {
	d := int64(x - base)
	return binary.AppendUvarint(b, uint64(d)<<1^uint64(d>>63))
}

// scanner takes values off the front of a byte slice. After the first that is
// not there, or a varint that is not in its shortest form, it gives zeros and
// stays bad.
type scanner struct {
	b   []byte
	bad bool
}

func (s *scanner) uvarint() uint64 {
	x, n := binary.Uvarint(s.b)
	if n <= 0 || n > 1 && s.b[n-1] == 0 {
		s.b, s.bad = nil, true
		return 0
	}
	s.b = s.b[n:]
	return x
}

func (s *scanner) difference(base uint64) uint64 {
	z := s.uvarint()
	return base + (z>>1 ^ -(z & 1))
}

// take takes n bytes.
func (s *scanner) take(n uint64) []byte {
	if n > uint64(len(s.b)) {
		s.b, s.bad = nil, true
		return nil
	}
	v := s.b[:n:n]
	s.b = s.b[n:]
	return v
}

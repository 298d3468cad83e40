package batch

import (
	"encoding/binary"
	"slices"
)

// Select encodes those of b's records [skip, skip+take) that match as a Sparse,
// uncompressed batch, and says how many they are; without any it gives nil.
// They keep their offsets, times and originals and lose their sequences; the
// batch keeps kind, epoch and append time, and has no place in a chain. It is
// made for one reader and never stored.
func Select(b []byte, skip, take int, match func(key []byte, hasKey bool) bool) ([]byte, int, error) {
	r := readers.Get().(*Reader)
	defer func() {
		r.clear()
		readers.Put(r)
	}()
	if err := r.Reset(b); err != nil {
		return nil, 0, err
	}
	var out []byte
	h := r.header
	h.Count = 0
	expected := h.Base // the offset that a record without a gap before it has
	r.Skip(skip)
	for ; take > 0 && r.Next(); take-- {
		if !match(r.view.Key, r.view.Key != nil) {
			continue
		}
		if h.Count == 0 {
			out = make([]byte, HeaderSize, HeaderSize+1024)
			expected = r.view.Offset
		}
		out = appendSparse(out, r, uint64(r.view.Offset-expected))
		expected = r.view.Offset + 1
		h.Count++
		if h.Count == 1 {
			if h.Kind == Data {
				h.UserBefore += uint64(r.view.Offset - h.Base)
			}
			h.Base = r.view.Offset
		}
	}
	if r.err != nil || h.Count == 0 {
		return nil, 0, r.err
	}
	h.Sparse, h.HasProducer, h.Compression, h.Chain = true, false, None, 0
	h.RawSize = uint32(len(out) - HeaderSize)
	h.encode(out)
	return out, int(h.Count), nil
}

// appendSparse writes the record that r read last behind out, with the gap
// between its offset and the one after the record before it.
func appendSparse(out []byte, r *Reader, gap uint64) []byte {
	size := 1 + uvarintLen(gap) + len(r.rest)
	out = slices.Grow(out, binary.MaxVarintLen32+size)
	out = binary.AppendUvarint(out, uint64(size))
	out = append(out, r.flags)
	out = binary.AppendUvarint(out, gap)
	return append(out, r.rest...)
}

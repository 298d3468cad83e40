package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/quirelog/quire/internal/ident"
)

// The layout of version 1 is drawn in FORMAT.md. Numbers are little-endian.
const (
	// Version is the batch version that this code writes.
	Version = 1
	// HeaderSize is the size of the fixed header.
	HeaderSize = 80
)

const magic = 0x54414251 // "QBAT" in little-endian order

// Positions of the header's fields.
const (
	atMagic      = 0
	atVersion    = 4
	atSize       = 8
	atHeaderCRC  = 12
	atEpoch      = 16
	atBase       = 24
	atUserBefore = 32
	atChain      = 40
	atAppendTime = 48
	atPayloadCRC = 56
	atAttributes = 60
	atCount      = 64
	atRawSize    = 68
	atBaseTime   = 72
)

// The bits of the attributes. Bits that are not named must be zero.
const (
	attrCompression = 0x0003
	attrKind        = 0x000c
	attrKindShift   = 2
	attrProducer    = 0x0010
	attrSparse      = 0x0020
	attrKnown       = attrCompression | attrKind | attrProducer | attrSparse
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the decoded header of a batch.
type Header struct {
	// The broker's part, written by Stamp.

	Epoch ident.Epoch
	// Base is the offset of the first record, of a Sparse batch too.
	Base ident.Offset
	// UserBefore counts the user records of the range before this batch.
	UserBefore uint64
	// Chain is the digest of the chain of batches before this one.
	Chain uint64
	// AppendTime is the broker's time; within a range it never runs backwards.
	AppendTime ident.Timestamp

	// The producer's part, covered by PayloadCRC together with the payload.

	PayloadCRC  uint32
	Compression Compression
	Kind        Kind
	// Sparse batches name each record's offset; they are made for readers by
	// a filter and never stored.
	Sparse bool
	// Count is the number of records, at least 1.
	Count uint32
	// RawSize is the size of the payload uncompressed.
	RawSize uint32
	// BaseTime is what the records' times are relative to.
	BaseTime ident.Timestamp
	// HasProducer says that producer fields follow the fixed header.
	HasProducer bool

	// Size is the size of the whole batch in bytes.
	Size uint32
}

// End is the offset after the last record. It means nothing of a Sparse batch.
func (h *Header) End() ident.Offset { return h.Base + ident.Offset(h.Count) }

// UserRecords is the number of records that readers count.
func (h *Header) UserRecords() uint64 {
	if h.Kind != Data {
		return 0
	}
	return uint64(h.Count)
}

// maxSize bounds the batch as stored and uncompressed.
func (h *Header) maxSize() uint32 {
	if h.Sparse {
		return MaxSize + sparseSlack
	}
	return MaxSize
}

// PayloadAt is where the payload begins.
func (h *Header) PayloadAt() int {
	if h.HasProducer {
		return HeaderSize + ProducerSize
	}
	return HeaderSize
}

// ParseHeader decodes and checks the header at the start of b, of which only
// HeaderSize bytes need to be there. It checks magic, version, checksum and
// bounds; the payload is Check's.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%w: %d bytes are no header", ErrCorrupt, len(b))
	}
	le := binary.LittleEndian
	if m := le.Uint32(b[atMagic:]); m != magic {
		return Header{}, fmt.Errorf("%w: magic %08x is not a batch's", ErrCorrupt, m)
	}
	if v := b[atVersion]; v != Version {
		return Header{}, fmt.Errorf("%w: batch version %d, this program knows %d", ErrVersion, v, Version)
	}
	if got, want := headerCRC(b), le.Uint32(b[atHeaderCRC:]); got != want {
		return Header{}, fmt.Errorf("%w: header checksum %08x, computed %08x", ErrCorrupt, want, got)
	}
	attr := le.Uint16(b[atAttributes:])
	h := Header{
		Epoch:       ident.Epoch(le.Uint64(b[atEpoch:])),
		Base:        ident.Offset(le.Uint64(b[atBase:])),
		UserBefore:  le.Uint64(b[atUserBefore:]),
		Chain:       le.Uint64(b[atChain:]),
		AppendTime:  ident.Timestamp(le.Uint64(b[atAppendTime:])),
		PayloadCRC:  le.Uint32(b[atPayloadCRC:]),
		Compression: Compression(attr & attrCompression),
		Kind:        Kind(attr & attrKind >> attrKindShift),
		Sparse:      attr&attrSparse != 0,
		HasProducer: attr&attrProducer != 0,
		Count:       le.Uint32(b[atCount:]),
		RawSize:     le.Uint32(b[atRawSize:]),
		BaseTime:    ident.Timestamp(le.Uint64(b[atBaseTime:])),
		Size:        le.Uint32(b[atSize:]),
	}
	return h, h.check(attr, b)
}

// encode writes h over the first HeaderSize bytes of b, which must be the whole
// batch with its producer fields and its payload in place, and computes its
// size and both checksums.
func (h *Header) encode(b []byte) {
	h.Size = uint32(len(b))
	attr := uint16(h.Compression) | uint16(h.Kind)<<attrKindShift
	if h.HasProducer {
		attr |= attrProducer
	}
	if h.Sparse {
		attr |= attrSparse
	}
	le := binary.LittleEndian
	le.PutUint32(b[atMagic:], magic)
	le.PutUint32(b[atVersion:], Version)
	le.PutUint32(b[atSize:], h.Size)
	le.PutUint32(b[atAttributes:], uint32(attr))
	le.PutUint32(b[atCount:], h.Count)
	le.PutUint32(b[atRawSize:], h.RawSize)
	le.PutUint64(b[atBaseTime:], uint64(h.BaseTime))
	h.PayloadCRC = payloadCRC(b)
	le.PutUint32(b[atPayloadCRC:], h.PayloadCRC)
	Stamp{h.Epoch, h.Base, h.UserBefore, h.Chain, h.AppendTime}.Apply(b)
}

func (h *Header) check(attr uint16, b []byte) error {
	switch {
	case attr&^attrKnown != 0 || b[atVersion+1] != 0 || b[atVersion+2] != 0 || b[atVersion+3] != 0 ||
		b[atAttributes+2] != 0 || b[atAttributes+3] != 0:
		return fmt.Errorf("%w: unknown attribute bits", ErrCorrupt)
	case h.Compression > Zstd:
		return fmt.Errorf("%w: unknown compression %d", ErrCorrupt, h.Compression)
	case h.Kind > Restated:
		return fmt.Errorf("%w: unknown kind %d", ErrCorrupt, h.Kind)
	case h.Count == 0:
		return fmt.Errorf("%w: no records", ErrCorrupt)
	case h.Count > MaxRecords:
		return fmt.Errorf("%w: %d records, at most %d", ErrTooLarge, h.Count, MaxRecords)
	case h.Size > h.maxSize() || h.RawSize > h.maxSize()-uint32(h.PayloadAt()):
		return fmt.Errorf("%w: %d bytes (payload of %d uncompressed), at most %d",
			ErrTooLarge, h.Size, h.RawSize, h.maxSize())
	case h.RawSize < h.Count*minRecord:
		return fmt.Errorf("%w: %d records in %d bytes", ErrCorrupt, h.Count, h.RawSize)
	case int(h.Size) < h.PayloadAt():
		return fmt.Errorf("%w: size %d is below the header's", ErrCorrupt, h.Size)
	case h.Compression == None && int(h.RawSize) != int(h.Size)-h.PayloadAt():
		return fmt.Errorf("%w: uncompressed size %d in a batch of %d", ErrCorrupt, h.RawSize, h.Size)
	case h.Base+ident.Offset(h.Count) < h.Base:
		return fmt.Errorf("%w: offsets overflow", ErrCorrupt)
	}
	return nil
}

// Check parses the header of b, which must be one whole batch, and verifies
// both checksums. It does not decode the payload: Validate does.
func Check(b []byte) (Header, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return Header{}, err
	}
	if int(h.Size) != len(b) {
		return Header{}, fmt.Errorf("%w: size %d in %d bytes", ErrCorrupt, h.Size, len(b))
	}
	if got := payloadCRC(b); got != h.PayloadCRC {
		return Header{}, fmt.Errorf("%w: payload checksum %08x, computed %08x", ErrCorrupt, h.PayloadCRC, got)
	}
	return h, nil
}

func headerCRC(b []byte) uint32 {
	crc := crc32.Update(0, castagnoli, b[:atHeaderCRC])
	return crc32.Update(crc, castagnoli, b[atHeaderCRC+4:HeaderSize])
}

// payloadCRC covers all from the attributes on: the producer's part of the
// header, its fields and the payload.
func payloadCRC(b []byte) uint32 { return crc32.Checksum(b[atAttributes:], castagnoli) }

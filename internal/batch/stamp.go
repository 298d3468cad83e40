package batch

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/quirelog/quire/internal/ident"
)

// Stamp is the broker's part of a header.
type Stamp struct {
	Epoch      ident.Epoch
	Base       ident.Offset
	UserBefore uint64
	Chain      uint64
	AppendTime ident.Timestamp
}

// Apply writes s into the header of the batch b and renews the header's
// checksum. The payload and its checksum stay as the producer made them.
func (s Stamp) Apply(b []byte) {
	le := binary.LittleEndian
	le.PutUint64(b[atEpoch:], uint64(s.Epoch))
	le.PutUint64(b[atBase:], uint64(s.Base))
	le.PutUint64(b[atUserBefore:], s.UserBefore)
	le.PutUint64(b[atChain:], s.Chain)
	le.PutUint64(b[atAppendTime:], uint64(s.AppendTime))
	le.PutUint32(b[atHeaderCRC:], headerCRC(b))
}

// NextChain is the digest of the chain through the batch b: the chain before
// it, its place, and by the payload's checksum its content. The first batch
// of a segment has the digest that its segment was opened with.
func NextChain(b []byte) uint64 { return xxh3.Hash(b[:HeaderSize]) }

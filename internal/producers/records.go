package producers

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// keylessRun is how many neighbouring sequences without a key share a position.
const keylessRun = 1024

// KeylessPosition is the position of a record without a key, the same on each
// retry: the xxh3_64 of the producer's id, its session and the sequence divided
// by 1024, both as eight bytes, little-endian. It is part of the storage format
// and never changes.
func KeylessPosition(id batch.ProducerID, session, sequence uint64) ident.Position {
	var b [32]byte
	copy(b[:], id[:])
	binary.LittleEndian.PutUint64(b[16:], session)
	binary.LittleEndian.PutUint64(b[24:], sequence/keylessRun)
	return ident.Position(xxh3.Hash(b[:]))
}

// Record is what a range must know of a record to recognize it.
type Record struct {
	Sequence uint64
	Position ident.Position
}

// AppendRecords appends the records of the batch with producer fields that r
// was Reset to, and reads it to its end. Its error is the reader's.
func AppendRecords(records []Record, r *batch.Reader) ([]Record, error) {
	h, _ := r.Producer()
	for r.Next() {
		records = append(records, RecordOf(&h, r.Record()))
	}
	return records, r.Err()
}

// RecordOf gives what there is to know of a record of a batch with the producer
// fields h.
func RecordOf(h *batch.Producer, v *batch.View) Record {
	if v.Key != nil {
		return Record{v.Sequence, keyspace.PositionOf(v.Key)}
	}
	return Record{v.Sequence, KeylessPosition(h.ID, h.Session, v.Sequence)}
}

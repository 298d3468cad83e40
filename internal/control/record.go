package control

import (
	"encoding/binary"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/varint"
	"github.com/quirelog/quire/status"
)

// The records of the log. FORMAT.md draws them.
const (
	// entryRaft is the first byte of each record; 's' and 'c' are those of the
	// log before Raft.
	entryRaft = 'r'
	// RecordVersion is the version of the records that this code writes.
	RecordVersion = 1

	flagContinues = 1 // the record goes on with the step of the one before
	flagMore      = 2 // the step goes on in the next record

	recordHead = 3
	// recordBytes is about how large a record becomes before the next one is
	// begun.
	recordBytes = 1 << 20
	// pieceBytes is about how much of a snapshot one part holds.
	pieceBytes = 256 << 10
)

// tag says what a part of a record is.
type tag byte

const (
	tagSelf     tag = iota + 1 // the peer that this store is in the group
	tagPiece                   // bytes of a snapshot
	tagSnapshot                // the pieces before it are a snapshot
	tagEntries
	tagHard
	tagForget // the group is removed
	tagBegun  // the log has all that the one before it had
)

// part is one part of a record, of what its tag says.
type part struct {
	tag     tag
	group   consensus.GroupID
	self    consensus.PeerID
	piece   []byte
	meta    consensus.Meta
	total   uint64
	sum     uint64
	entries []raftpb.Entry
	hard    raftpb.HardState
}

// recordWriter makes the records of one step: what becomes valid at once.
type recordWriter struct {
	emit func(value []byte) error
	b    []byte
	err  error
	step bool // a record of the step is emitted
}

// room begins a record, or the next one if this one is full.
func (w *recordWriter) room() {
	if len(w.b) >= recordBytes {
		w.flush(flagMore)
	}
	if len(w.b) == 0 {
		w.b = append(w.b, entryRaft, RecordVersion, 0)
	}
}

func (w *recordWriter) flush(flags byte) {
	if w.step {
		flags |= flagContinues
	}
	w.b[2] = flags
	w.step = flags&flagMore != 0
	if w.err == nil {
		w.err = w.emit(w.b)
	}
	w.b = w.b[:0]
}

// finish ends the step and says whether all its records were taken.
func (w *recordWriter) finish() error {
	if len(w.b) > 0 || w.step {
		w.room()
		w.flush(0)
	}
	return w.err
}

func (w *recordWriter) begin(t tag, g consensus.GroupID) {
	w.room()
	w.b = append(w.b, byte(t))
	w.b = binary.AppendUvarint(w.b, uint64(g))
}

func (w *recordWriter) self(g consensus.GroupID, self consensus.PeerID) {
	w.begin(tagSelf, g)
	w.b = binary.AppendUvarint(w.b, uint64(self))
}

func (w *recordWriter) piece(g consensus.GroupID, b []byte) {
	w.begin(tagPiece, g)
	w.b = binary.AppendUvarint(w.b, uint64(len(b)))
	w.b = append(w.b, b...)
}

func (w *recordWriter) snapshot(g consensus.GroupID, m consensus.Meta, total, sum uint64) {
	w.begin(tagSnapshot, g)
	w.b = consensus.AppendMeta(w.b, m)
	w.b = binary.AppendUvarint(w.b, total)
	w.b = binary.LittleEndian.AppendUint64(w.b, sum)
}

func (w *recordWriter) entries(g consensus.GroupID, es []raftpb.Entry) {
	for len(es) > 0 {
		n, bytes := 0, 0
		for n < len(es) && (n == 0 || bytes+len(es[n].Data) < recordBytes) {
			bytes += len(es[n].Data)
			n++
		}
		w.begin(tagEntries, g)
		w.b = consensus.AppendEntries(w.b, es[:n])
		es = es[n:]
	}
}

func (w *recordWriter) hard(g consensus.GroupID, h raftpb.HardState) {
	if raftIsEmpty(h) {
		return
	}
	w.begin(tagHard, g)
	w.b = consensus.AppendHardState(w.b, h)
}

func (w *recordWriter) forget(g consensus.GroupID) { w.begin(tagForget, g) }

func (w *recordWriter) begun() { w.begin(tagBegun, 0) }

func raftIsEmpty(h raftpb.HardState) bool { return h == raftpb.HardState{} }

// scanRecord calls f for each part of a record. What a part points to is of v.
// The errors are *status.Error of code data_corrupt or data_newer.
func scanRecord(v []byte, f func(part) error) (flags byte, err error) {
	switch {
	case len(v) < recordHead || v[0] != entryRaft:
		return 0, status.New(status.DataCorrupt, "%d bytes are no record of a raft log", len(v))
	case v[1] > RecordVersion:
		return 0, status.New(status.DataNewer, "a record of version %d, this program knows version %d", v[1], RecordVersion)
	case v[1] == 0 || v[2]&^(flagContinues|flagMore) != 0:
		return 0, status.New(status.DataCorrupt, "a record of version %d with the flags %#x", v[1], v[2])
	}
	s := varint.Scanner{Rest: v[recordHead:]}
	for len(s.Rest) > 0 {
		p, err := scanPart(&s)
		if err == nil && s.Bad {
			err = errPart
		}
		if err == nil {
			err = f(p)
		}
		if err != nil {
			return 0, err
		}
	}
	return v[2], nil
}

var errPart = status.New(status.DataCorrupt, "a part of a record is empty, or ends before its bytes")

func scanPart(s *varint.Scanner) (p part, err error) {
	p.tag = tag(s.Take(1)[0])
	p.group = consensus.GroupID(s.Uvarint())
	if (p.group == 0) != (p.tag == tagBegun) {
		return p, status.New(status.DataCorrupt, "part %d of a record names group %d", p.tag, p.group)
	}
	switch p.tag {
	case tagSelf:
		p.self = consensus.PeerID(s.Uvarint())
	case tagPiece:
		p.piece = s.Take(s.Uvarint())
	case tagSnapshot:
		p.meta, err = consensus.ScanMeta(s)
		p.total = s.Uvarint()
		if sum := s.Take(8); sum != nil {
			p.sum = binary.LittleEndian.Uint64(sum)
		}
	case tagEntries:
		if p.entries, err = consensus.ScanEntries(s, recordBytes); err == nil && len(p.entries) == 0 {
			err = errPart
		}
	case tagHard:
		if p.hard = consensus.ScanHardState(s); raftIsEmpty(p.hard) {
			err = errPart
		}
	case tagForget, tagBegun:
	default:
		err = status.New(status.DataCorrupt, "a record has a part %d, which there is not", p.tag)
	}
	if err != nil && status.CodeOf(err) != status.DataCorrupt {
		err = status.New(status.DataCorrupt, "part %d of a record: %w", p.tag, err)
	}
	return p, err
}

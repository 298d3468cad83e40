package control

import (
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

var (
	// errUnfinished: a log does not begin with all that the one before it had.
	errUnfinished = errors.New("the log has no whole beginning")
	// errBeforeRaft: a log is of the catalog alone, of before it was on Raft.
	errBeforeRaft = errors.New("the log is of before Raft")
)

// history is what a log says.
type history struct {
	groups map[consensus.GroupID]*groupHistory
	begun  bool
	staged []part // of a step that is not whole yet
	bytes  int64  // of the records so far
	head   int64  // of those up to where the log has begun
}

// groupHistory is what it says of one group.
type groupHistory struct {
	consensus.State
	payload []byte // the snapshot at State.Meta; none for a member that has nothing yet
	pieces  []byte // of a snapshot that is to come
}

// replay reads a log.
func replay(store *segment.Store, info segment.Info) (*history, error) {
	h := &history{groups: map[consensus.GroupID]*groupHistory{}}
	err := eachRecord(store, info, func(v []byte) error {
		if len(v) > 0 && (v[0] == entrySnapshot || v[0] == entryCommand) && h.bytes == 0 {
			return errBeforeRaft
		}
		return h.record(v)
	})
	if err == nil && !h.begun {
		err = errUnfinished
	}
	return h, err
}

// eachRecord calls f for the value of each record of a log. The value is only
// valid until f returns.
func eachRecord(store *segment.Store, info segment.Info, f func(v []byte) error) error {
	log, ok := store.Segment(info.ID)
	if !ok {
		return fmt.Errorf("segment %v is gone", info.ID)
	}
	var r batch.Reader
	for b, err := range log.Scan(info.Base, info.Tail.Base) {
		if err != nil {
			return err
		}
		if err := r.Reset(b); err != nil {
			return err
		}
		for r.Next() {
			if err := f(r.Record().Value); err != nil {
				return fmt.Errorf("record %d of segment %v: %w", r.Record().Offset, info.ID, err)
			}
		}
		if err := r.Err(); err != nil {
			return err
		}
	}
	return nil
}

// record takes the next record. A step is valid when its last record is there:
// one that a full disk or a crash cut short is passed over.
func (h *history) record(v []byte) error {
	h.bytes += int64(len(v))
	staged := h.staged
	flags, err := scanRecord(v, func(p part) error {
		p.piece = append([]byte(nil), p.piece...)
		h.staged = append(h.staged, p)
		return nil
	})
	switch {
	case err != nil:
		return err
	case flags&flagContinues == 0:
		h.staged = h.staged[len(staged):]
	case len(staged) == 0:
		h.staged = nil // of a step whose first record was refused
	}
	if flags&flagMore != 0 {
		return nil
	}
	for i := range h.staged {
		if err := h.apply(&h.staged[i]); err != nil {
			return err
		}
	}
	h.staged = nil
	return nil
}

func (h *history) apply(p *part) error {
	g := h.groups[p.group]
	if g == nil && p.tag != tagBegun && p.tag != tagForget {
		if p.tag != tagSelf {
			return status.New(status.DataCorrupt, "%s begins with part %d", p.group, p.tag)
		}
		g = &groupHistory{}
		h.groups[p.group] = g
	}
	switch p.tag {
	case tagSelf:
		g.Self = p.self
	case tagPiece:
		g.pieces = append(g.pieces, p.piece...)
	case tagSnapshot:
		if uint64(len(g.pieces)) != p.total || xxh3.Hash(g.pieces) != p.sum {
			return status.New(status.DataCorrupt, "%s: a snapshot of %d bytes has another checksum, or is not of %d", p.group, len(g.pieces), p.total)
		}
		g.Meta, g.payload, g.pieces, g.Entries = p.meta, g.pieces, nil, nil
	case tagEntries:
		return g.append(p)
	case tagHard:
		g.Hard = p.hard
	case tagForget:
		delete(h.groups, p.group)
	case tagBegun:
		h.begun, h.head = true, h.bytes
	}
	return nil
}

// append takes entries, which replace those of the same index and all behind.
func (g *groupHistory) append(p *part) error {
	es := p.entries
	for len(es) > 0 && es[0].Index <= g.Meta.Index {
		es = es[1:]
	}
	if len(es) == 0 {
		return nil
	}
	keep := es[0].Index - g.Meta.Index - 1
	if keep > uint64(len(g.Entries)) {
		return status.New(status.DataCorrupt, "%s: entry %d follows %d", p.group, es[0].Index, g.Meta.Index+uint64(len(g.Entries)))
	}
	g.Entries = append(g.Entries[:keep], es...)
	return nil
}

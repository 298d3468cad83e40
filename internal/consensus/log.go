package consensus

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// entryLog is raft's view of what the driver has made durable: the entries
// after base, the hard state, and a snapshot while somebody needs one. It has
// the semantics of raft.MemoryStorage, without its lock, and hands out a
// snapshot only when it helps the one who asks.
type entryLog struct {
	hard     raftpb.HardState
	state    raftpb.ConfState
	base     raftpb.Entry // index and term before the first entry
	entries  []raftpb.Entry
	bytes    int
	snapshot *Snapshot // what the driver offered last
	wanted   bool      // raft asked for one that is not there
	minimum  uint64    // the index of the last change of members that is applied
}

var _ raft.Storage = (*entryLog)(nil)

func (l *entryLog) InitialState() (raftpb.HardState, raftpb.ConfState, error) {
	return l.hard, l.state, nil
}

func (l *entryLog) FirstIndex() (uint64, error) { return l.base.Index + 1, nil }

func (l *entryLog) LastIndex() (uint64, error) { return l.last(), nil }

func (l *entryLog) last() uint64 { return l.base.Index + uint64(len(l.entries)) }

func (l *entryLog) Term(i uint64) (uint64, error) {
	switch {
	case i < l.base.Index:
		return 0, raft.ErrCompacted
	case i == l.base.Index:
		return l.base.Term, nil
	case i > l.last():
		return 0, raft.ErrUnavailable
	}
	return l.entries[i-l.base.Index-1].Term, nil
}

func (l *entryLog) Entries(lo, hi, maxSize uint64) ([]raftpb.Entry, error) {
	if lo <= l.base.Index {
		return nil, raft.ErrCompacted
	}
	if hi > l.last()+1 {
		return nil, raft.ErrUnavailable
	}
	from := l.entries[lo-l.base.Index-1 : hi-l.base.Index-1]
	size := uint64(0)
	for i := range from {
		size += uint64(from[i].Size())
		if i > 0 && size > maxSize {
			from = from[:i]
			break
		}
	}
	return slices.Clip(from), nil // an append of the caller must copy
}

// Snapshot gives the offered snapshot, unless it would leave its receiver with
// a hole before the first entry or without knowing that it is a member.
func (l *entryLog) Snapshot() (raftpb.Snapshot, error) {
	if s := l.snapshot; s != nil && s.Meta.Index >= max(l.base.Index, l.minimum) {
		return raftSnapshot(s.Meta), nil
	}
	l.wanted = true
	return raftpb.Snapshot{}, raft.ErrSnapshotTemporarilyUnavailable
}

func raftSnapshot(m Meta) raftpb.Snapshot {
	return raftpb.Snapshot{Metadata: raftpb.SnapshotMetadata{Index: m.Index, Term: m.Term, ConfState: m.Membership.State}}
}

// append adds durable entries, which replace those of the same index and all
// after them.
func (l *entryLog) append(es []raftpb.Entry) {
	for len(es) > 0 && es[0].Index <= l.base.Index {
		es = es[1:]
	}
	if len(es) == 0 {
		return
	}
	keep := es[0].Index - l.base.Index - 1
	for i := int(keep); i < len(l.entries); i++ {
		l.bytes -= l.entries[i].Size()
	}
	for i := range es {
		l.bytes += es[i].Size()
	}
	if int(keep) < len(l.entries) {
		// In memory of their own, because slices that Entries gave away may still be
		// read. What is behind the last entry nobody has.
		l.entries = slices.Clip(l.entries[:keep])
	}
	l.entries = append(l.entries, es...)
}

// restore begins the log anew behind a snapshot.
func (l *entryLog) restore(m Meta) {
	l.base = raftpb.Entry{Index: m.Index, Term: m.Term}
	l.entries, l.bytes = nil, 0
	l.minimum = max(l.minimum, m.Index)
}

// compact forgets the entries up to an index that is in the log.
func (l *entryLog) compact(index uint64) {
	term, err := l.Term(index)
	if err != nil || index == l.base.Index {
		return
	}
	n := index - l.base.Index
	for i := range l.entries[:n] {
		l.bytes -= l.entries[i].Size()
	}
	l.entries = slices.Clone(l.entries[n:])
	l.base = raftpb.Entry{Index: index, Term: term}
}

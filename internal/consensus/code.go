package consensus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/varint"
)

// The parts that the frames between stores and the logs of their drivers have in
// common. FORMAT.md draws them. What does not scan leaves the Scanner bad.

// Bounds of what is scanned, so that few bytes do not become much memory.
const (
	// maxScannedMembers bounds the members of a Meta.
	maxScannedMembers = 256
	// maxScannedEntries bounds the entries of one list, and of one frame.
	maxScannedEntries = 1 << 18
)

var (
	errMeta    = errors.New("the members of a group are not in order")
	errEntries = errors.New("entries are not in order")
)

// AppendMeta writes a Meta behind b.
func AppendMeta(b []byte, m Meta) []byte {
	b = binary.AppendUvarint(b, m.Index)
	b = binary.AppendUvarint(b, m.Term)
	state, err := m.Membership.State.Marshal()
	if err != nil {
		panic("consensus: a configuration does not encode: " + err.Error())
	}
	b = binary.AppendUvarint(b, uint64(len(state)))
	b = append(b, state...)
	b = binary.AppendUvarint(b, uint64(m.Membership.Next))
	b = binary.AppendUvarint(b, uint64(len(m.Membership.Members)))
	for _, r := range m.Membership.Members {
		b = binary.AppendUvarint(b, uint64(r.ID))
		b = append(b, r.Store[:]...)
	}
	return b
}

// ScanMeta takes what AppendMeta wrote.
func ScanMeta(s *varint.Scanner) (m Meta, err error) {
	m.Index, m.Term = s.Uvarint(), s.Uvarint()
	state := s.Take(s.Uvarint())
	if err := m.Membership.State.Unmarshal(state); err != nil {
		return Meta{}, err
	}
	if again, err := m.Membership.State.Marshal(); err != nil || !bytes.Equal(again, state) {
		return Meta{}, errMeta
	}
	m.Membership.Next = PeerID(s.Uvarint())
	n := s.Uvarint()
	if n > maxScannedMembers {
		return Meta{}, errMeta
	}
	for range n {
		r := Member{ID: PeerID(s.Uvarint())}
		store := s.Take(uint64(len(r.Store)))
		if store == nil {
			return Meta{}, errMeta
		}
		copy(r.Store[:], store)
		m.Membership.Members = append(m.Membership.Members, r)
	}
	if s.Bad || !m.Membership.valid() {
		return Meta{}, errMeta
	}
	return m, nil
}

// valid says whether a membership is one that a group can have: raft relies on
// it, and one that comes from elsewhere is looked at first.
func (m Membership) valid() bool {
	c := &m.State
	known := func(id uint64) bool { _, ok := m.StoreOf(PeerID(id)); return ok }
	last := PeerID(0)
	stores := map[ident.StoreID]bool{}
	for _, r := range m.Members {
		id := uint64(r.ID)
		if r.ID <= last || r.Store.IsZero() || stores[r.Store] || r.ID >= m.Next ||
			!slices.Contains(slices.Concat(c.Voters, c.Learners, c.VotersOutgoing, c.LearnersNext), id) {
			return false
		}
		last, stores[r.Store] = r.ID, true
	}
	for _, list := range [][]uint64{c.Voters, c.Learners, c.VotersOutgoing, c.LearnersNext} {
		for i, id := range list {
			if !known(id) || i > 0 && id <= list[i-1] {
				return false
			}
		}
	}
	voting := func(id uint64) bool { return slices.Contains(c.Voters, id) || slices.Contains(c.VotersOutgoing, id) }
	outgoing := func(id uint64) bool { return slices.Contains(c.VotersOutgoing, id) }
	staying := func(id uint64) bool { return slices.Contains(c.Voters, id) || !outgoing(id) }
	return (len(c.Voters) > 0 || len(m.Members) == 0) && !slices.ContainsFunc(c.Learners, voting) &&
		!slices.ContainsFunc(c.LearnersNext, staying) && (len(c.VotersOutgoing) > 0 || !c.AutoLeave)
}

// AppendEntries writes entries whose indexes follow each other behind b.
func AppendEntries(b []byte, es []raftpb.Entry) []byte {
	b = binary.AppendUvarint(b, uint64(len(es)))
	if len(es) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, es[0].Index)
	term := uint64(0)
	for i := range es {
		e := &es[i]
		b = append(b, byte(e.Type))
		b = varint.AppendDifference(b, e.Term, term)
		b = binary.AppendUvarint(b, uint64(len(e.Data)))
		b = append(b, e.Data...)
		term = e.Term
	}
	return b
}

// ScanEntries takes what AppendEntries wrote, at most limit of them. The entries
// have memory of their own.
func ScanEntries(s *varint.Scanner, limit int) ([]raftpb.Entry, error) {
	n := s.Uvarint()
	if n == 0 {
		return nil, nil
	}
	const least = 3 // type, term, length
	if n > uint64(min(limit, maxScannedEntries)) || n > uint64(len(s.Rest))/least {
		return nil, errEntries
	}
	es := make([]raftpb.Entry, n)
	index, term := s.Uvarint(), uint64(0)
	if index+n < index {
		return nil, errEntries
	}
	bytes := 0
	for i := range es {
		e := &es[i]
		if t := s.Take(1); t != nil {
			e.Type = raftpb.EntryType(t[0])
		}
		term = s.Difference(term)
		e.Term, e.Index = term, index+uint64(i)
		e.Data = s.Take(s.Uvarint())
		bytes += len(e.Data)
		if s.Bad || e.Type > raftpb.EntryConfChangeV2 {
			return nil, errEntries
		}
	}
	// One piece of memory for all, so that an entry keeps no more than its list.
	own := make([]byte, 0, bytes)
	for i := range es {
		e := &es[i]
		if len(e.Data) == 0 {
			e.Data = nil
			continue
		}
		from := len(own)
		own = append(own, e.Data...)
		e.Data = own[from:len(own):len(own)]
	}
	return es, nil
}

// AppendHardState writes a hard state behind b.
func AppendHardState(b []byte, h raftpb.HardState) []byte {
	b = binary.AppendUvarint(b, h.Term)
	b = binary.AppendUvarint(b, h.Vote)
	return binary.AppendUvarint(b, h.Commit)
}

// ScanHardState takes what AppendHardState wrote.
func ScanHardState(s *varint.Scanner) raftpb.HardState {
	return raftpb.HardState{Term: s.Uvarint(), Vote: s.Uvarint(), Commit: s.Uvarint()}
}

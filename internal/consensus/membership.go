package consensus

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/ident"
)

// Member is a row of the table that maps peers to stores.
type Member struct {
	ID    PeerID
	Store ident.StoreID
}

// Membership is the configuration of a group at one index of its log. It is a
// value that is never changed in place.
type Membership struct {
	// State is who votes, learns, and leaves, as raft keeps it.
	State raftpb.ConfState
	// Members is everyone in State, by rising ID.
	Members []Member
	// Next is the ID that the next member is given. It only rises, so that no ID
	// is used twice.
	Next PeerID
}

// Meta is the point of a group's log at which a state machine or a snapshot of
// it stands. The zero Meta is a member that has nothing yet.
type Meta struct {
	Index, Term uint64
	Membership  Membership
}

// founding is the membership of a group that these stores found. All of them
// compute the same, since it is ordered by the stores' identities.
func founding(voters []ident.StoreID) (m Membership) {
	sorted := slices.SortedFunc(slices.Values(voters), func(a, b ident.StoreID) int { return slices.Compare(a[:], b[:]) })
	for i, s := range sorted {
		m.Members = append(m.Members, Member{ID: PeerID(i + 1), Store: s})
		m.State.Voters = append(m.State.Voters, uint64(i+1))
	}
	m.Next = PeerID(len(sorted) + 1)
	return m
}

// Find gives the peer of a store.
func (m Membership) Find(s ident.StoreID) (PeerID, bool) {
	i := slices.IndexFunc(m.Members, func(r Member) bool { return r.Store == s })
	if i < 0 {
		return 0, false
	}
	return m.Members[i].ID, true
}

// StoreOf gives the store of a peer.
func (m Membership) StoreOf(id PeerID) (ident.StoreID, bool) {
	i := slices.IndexFunc(m.Members, func(r Member) bool { return r.ID == id })
	if i < 0 {
		return ident.StoreID{}, false
	}
	return m.Members[i].Store, true
}

// Voter says whether a peer's vote counts in the configuration to come.
func (m Membership) Voter(id PeerID) bool { return slices.Contains(m.State.Voters, uint64(id)) }

// Learner says whether a peer follows without a vote.
func (m Membership) Learner(id PeerID) bool {
	return slices.Contains(m.State.Learners, uint64(id)) || slices.Contains(m.State.LearnersNext, uint64(id))
}

// Joint says whether a change is half done: two majorities are needed.
func (m Membership) Joint() bool { return len(m.State.VotersOutgoing) > 0 }

// after is m with a committed change: raft says what the new state is, added
// are the rows that the change brought.
func (m Membership) after(state raftpb.ConfState, added []Member) Membership {
	next := Membership{State: state, Next: m.Next}
	for _, r := range slices.Concat(m.Members, added) {
		id := uint64(r.ID)
		if slices.Contains(state.Voters, id) || slices.Contains(state.Learners, id) ||
			slices.Contains(state.VotersOutgoing, id) || slices.Contains(state.LearnersNext, id) {
			next.Members = append(next.Members, r)
		}
		next.Next = max(next.Next, r.ID+1)
	}
	slices.SortFunc(next.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	next.Members = slices.CompactFunc(next.Members, func(a, b Member) bool { return a.ID == b.ID })
	return next
}

const (
	// entryVersion is the first byte of all data that this package puts in a
	// log entry.
	entryVersion = 1
	memberBytes  = 8 + 16
)

var errEntry = errors.New("consensus: an entry that no version up to 1 wrote")

// encodeEntry is version(1) token(16) data.
func encodeEntry(t Token, data []byte) []byte {
	b := make([]byte, 0, 17+len(data))
	b = append(b, entryVersion)
	b = append(b, t[:]...)
	return append(b, data...)
}

func decodeEntry(b []byte) (t Token, data []byte, err error) {
	if len(b) < 17 || b[0] != entryVersion {
		return t, nil, errEntry
	}
	copy(t[:], b[1:])
	return t, b[17:], nil
}

// encodeRows is the context of a change of members: version(1) token(16), and
// peer(8, big endian) store(16) for each member that it adds.
func encodeRows(t Token, rows []Member) []byte {
	b := encodeEntry(t, nil)
	for _, r := range rows {
		b = binary.BigEndian.AppendUint64(b, uint64(r.ID))
		b = append(b, r.Store[:]...)
	}
	return b
}

func decodeRows(b []byte) (t Token, rows []Member, err error) {
	if len(b) == 0 { // raft's own entry that leaves the joint configuration
		return t, nil, nil
	}
	t, b, err = decodeEntry(b)
	if err != nil || len(b)%memberBytes != 0 {
		return t, nil, errEntry
	}
	for ; len(b) > 0; b = b[memberBytes:] {
		rows = append(rows, Member{ID: PeerID(binary.BigEndian.Uint64(b)), Store: ident.StoreID(b[8:memberBytes])})
	}
	return t, rows, nil
}

package consensus

import (
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// Change is what is to become of a group's members. A store is named once.
type Change struct {
	// Voters become voters, whether they are learners or not in the group.
	Voters []ident.StoreID
	// Learners are added without a vote.
	Learners []ident.StoreID
	// Remove leave the group.
	Remove []ident.StoreID
}

// ChangeMembers proposes a change as one step: with more than one member in it
// the group goes through a joint configuration, and leaves it by itself. It is
// refused and answered as Propose; Decided means that the change is committed,
// and Members shows it once it is applied here. status.ConditionFailed says that
// another change is not finished, or that there is nothing to change.
func (h *Host) ChangeMembers(id GroupID, token Token, c Change) error {
	g, err := h.leadingGroup(id)
	if err != nil {
		return err
	}
	if g.tokens[token] {
		return nil
	}
	cc, rows, err := g.plan(c)
	if err != nil {
		return err
	}
	cc.Context = encodeRows(token, rows)
	data, err := cc.Marshal()
	if err != nil {
		return status.New(status.Internal, "group %s: a change of members: %w", id, err)
	}
	return g.propose(token, raftpb.Entry{Type: raftpb.EntryConfChangeV2, Data: data})
}

// plan turns a change into raft's, and gives new members their peers. Raft takes
// it only if the membership that it was planned on is the last in the log.
func (g *group) plan(c Change) (cc raftpb.ConfChangeV2, added []Member, err error) {
	m := g.membership()
	next := m.Next
	voters := slices.Clone(m.State.Voters)
	members := len(m.Members)
	named := map[ident.StoreID]bool{}
	peer := func(s ident.StoreID) (PeerID, bool) {
		if id, ok := m.Find(s); ok {
			return id, true
		}
		id := next
		next++
		members++
		added = append(added, Member{ID: id, Store: s})
		return id, false
	}
	for _, s := range slices.Concat(c.Voters, c.Learners, c.Remove) {
		if s.IsZero() || named[s] {
			return cc, nil, invalid(g.id, "store %s is named twice in a change of members, or is none", s)
		}
		named[s] = true
	}
	add := func(t raftpb.ConfChangeType, id PeerID) {
		cc.Changes = append(cc.Changes, raftpb.ConfChangeSingle{Type: t, NodeID: uint64(id)})
	}
	for _, s := range c.Voters {
		if id, _ := peer(s); !m.Voter(id) {
			add(raftpb.ConfChangeAddNode, id)
			voters = append(voters, uint64(id))
		}
	}
	for _, s := range c.Learners {
		id, known := peer(s)
		if known && m.Voter(id) {
			return cc, nil, invalid(g.id, "store %s votes; it leaves before it can learn", s)
		}
		if !known {
			add(raftpb.ConfChangeAddLearnerNode, id)
		}
	}
	for _, s := range c.Remove {
		if id, ok := m.Find(s); ok {
			add(raftpb.ConfChangeRemoveNode, id)
			voters = slices.DeleteFunc(voters, func(v uint64) bool { return v == uint64(id) })
			members--
		}
	}
	switch {
	case len(cc.Changes) == 0:
		return cc, nil, status.New(status.ConditionFailed, "group %s: its members are as they should be", g.id)
	case len(voters) == 0:
		return cc, nil, invalid(g.id, "the change leaves nobody to vote")
	case members > g.h.cfg.MaxMembers:
		return cc, nil, status.New(status.LimitReached, "group %s: %d members, at most %d", g.id, members, g.h.cfg.MaxMembers)
	}
	return cc, added, nil
}

// change makes a committed change of members.
func (g *group) change(e raftpb.Entry) {
	var cc raftpb.ConfChangeV2
	if err := cc.Unmarshal(e.Data); err != nil {
		panic("a committed change of members cannot be read: " + err.Error())
	}
	_, rows, err := decodeRows(cc.Context)
	if err != nil {
		panic("a committed change of members cannot be read: " + err.Error())
	}
	before := g.membership()
	state := g.rn.ApplyConfChange(cc)
	g.history = append(g.history, configAt{e.Index, before.after(*state, rows)})
	g.log.minimum = e.Index
	g.dropTransfers()
	g.observe()
}

// Members gives the membership that is applied on this host.
func (h *Host) Members(id GroupID) (Membership, error) {
	g, err := h.find(id)
	if err != nil {
		return Membership{}, err
	}
	return g.membership(), nil
}

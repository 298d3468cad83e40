package consensus

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// tick moves the time of the group on. Only a leader uses raft's own tick; see
// the comment of the package for why.
func (g *group) tick() {
	g.ageReads()
	g.ageTransfers()
	if g.leading() {
		g.rn.Tick()
		g.observe()
		g.leaveJoint()
		g.handOver()
		return
	}
	// This moves the clock by which a follower tells whether its leader's lease
	// still holds, and does nothing else. It is deprecated, and the only door to
	// that clock which does not campaign by an unseeded source.
	g.rn.TickQuiesced()
	if g.elapsed++; g.elapsed >= g.timeout {
		g.rest()
		g.campaign()
	}
}

// rest begins to wait for a leader anew, for a time that others will not draw.
func (g *group) rest() {
	g.elapsed = 0
	g.timeout = g.h.cfg.ElectionTicks + int(g.h.cfg.Random.Uint64()%uint64(g.h.cfg.ElectionTicks))
}

func (g *group) campaign() {
	// Raft asks for pre-votes first, and refuses if this member may not lead.
	_ = g.rn.Campaign()
	g.observe()
}

// leaveJoint proposes to leave a joint configuration that raft has forgotten to
// leave: it tries when an entry is applied, and is refused while a leadership is
// handed over. If that fails and nobody proposes anything, it never tries again.
func (g *group) leaveJoint() {
	if !g.membership().Joint() || g.applied < g.seen.Commit || !g.leading() {
		g.jointTicks = 0
		return
	}
	if g.jointTicks++; g.jointTicks > g.h.cfg.ElectionTicks {
		g.jointTicks = 0
		g.input(raftpb.Message{
			Type: raftpb.MsgProp, From: uint64(g.self),
			Entries: []raftpb.Entry{{Type: raftpb.EntryConfChangeV2}},
		})
	}
}

// handOver makes a leader that has removed itself transfer its leadership to the
// member with the longest log. It goes on leading until then. If it stepped down,
// it alone might know that the change is committed, and the others might be too
// few by the membership before it, with nobody who may lead and has the longest
// log.
func (g *group) handOver() {
	if !g.leading() || g.membership().Voter(g.self) || g.membership().Joint() || g.seen.LeadTransferee != 0 {
		return
	}
	best, match := uint64(0), uint64(0)
	g.rn.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if p.RecentActive && p.Match > match && g.membership().Voter(PeerID(id)) {
			best, match = id, p.Match
		}
	})
	if best != 0 {
		g.rn.TransferLeader(best)
		g.observe()
	}
}

// Campaign makes this host try to lead a group now, if it may vote. It is what
// a driver does with a group that it has just founded alone.
func (h *Host) Campaign(id GroupID) error {
	g, err := h.find(id)
	if err != nil {
		return err
	}
	g.campaign()
	return nil
}

// TransferLeader hands the leadership to another voter. Until that one leads, or
// ElectionTicks have passed, proposals are refused.
func (h *Host) TransferLeader(id GroupID, to PeerID) error {
	g, err := h.leadingGroup(id)
	if err != nil {
		return err
	}
	if !g.membership().Voter(to) {
		return invalid(id, "peer %d does not vote", to)
	}
	g.rn.TransferLeader(uint64(to))
	g.observe()
	return nil
}

package consensus

// tick moves the time of the group on. Only a leader uses raft's own tick; see
// the comment of the package for why.
func (g *group) tick() {
	g.ageReads()
	g.ageTransfers()
	if g.leading() {
		g.rn.Tick()
		g.observe()
		return
	}
	// This moves the clock by which a follower tells whether its leader's lease
	// still holds, and does nothing else.
	//lint:ignore SA1019 the only door to that clock that does not draw from an unseeded source
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

package consensus

import (
	"cmp"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/ident"
)

// group is one group on one host.
type group struct {
	h    *Host
	id   GroupID
	self PeerID
	rn   *raft.RawNode
	log  *entryLog

	dirty, gone bool
	seen        raft.BasicStatus // after the last input
	roleChanged bool
	elapsed     int // ticks without a leader
	timeout     int // at which a campaign begins
	jointTicks  int // as a leader with nothing to do but to leave a joint configuration

	handed  uint64 // last index in Ready.Committed, or of a snapshot
	applied uint64
	snapped Meta // where the group began here, or its last received snapshot
	// promised is the hard state that was handed out last.
	promised raftpb.HardState
	// applying is what was handed out and is not applied.
	applying []applying
	// history is the membership from an index on, for each that a Meta may still
	// be asked for; the last is the present one.
	history []configAt
	// guests are members that have written and are not, or not yet, in the
	// membership: who joins does not know its leader otherwise.
	guests []Member

	inflight      []proposal // by rising index
	inflightBytes int
	tokens        map[Token]bool
	reads         []read // by rising number
	transfers     []*transfer
	assembly      *assembly
	received      *Snapshot // what raft is just taking
	wantedAge     int       // ticks since a snapshot was asked for
	offerAge      int       // ticks for which nobody has needed the one that is there
}

type applying struct {
	last      uint64
	changes   []raftpb.Entry
	responses []raftpb.Message
}

type configAt struct {
	index      uint64
	membership Membership
}

// maxGuests bounds group.guests; the oldest goes.
const maxGuests = 16

func compareGroups(a, b GroupID) int { return cmp.Compare(a, b) }

func (g *group) membership() Membership { return g.history[len(g.history)-1].membership }

func (g *group) leading() bool { return g.seen.RaftState == raft.StateLeader }

// leader is the store that leads, or none.
func (g *group) leader() ident.StoreID {
	s, _ := g.storeOf(PeerID(g.seen.Lead))
	return s
}

func (g *group) storeOf(id PeerID) (ident.StoreID, bool) {
	if s, ok := g.membership().StoreOf(id); ok {
		return s, true
	}
	for _, m := range g.guests {
		if m.ID == id {
			return m.Store, true
		}
	}
	return ident.StoreID{}, false
}

// correspond says whether a peer may be this store, and remembers it.
func (g *group) correspond(id PeerID, store ident.StoreID) bool {
	if s, ok := g.storeOf(id); ok {
		return s == store
	}
	if len(g.guests) == maxGuests {
		g.guests = g.guests[1:]
	}
	g.guests = append(slices.Clip(g.guests), Member{ID: id, Store: store})
	return true
}

// step gives raft a message of another member. Only what members say to each
// other passes: proposals are not forwarded, and snapshots come in chunks.
func (g *group) step(m raftpb.Message) {
	switch m.Type {
	case raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgTimeoutNow, raftpb.MsgReadIndexResp:
	case raftpb.MsgReadIndex:
		if len(m.Entries) != 1 || g.leading() && !g.settled() {
			return
		}
	default:
		return
	}
	g.input(m)
}

// input gives raft any message and looks at what came of it.
func (g *group) input(m raftpb.Message) {
	// The errors say that raft dropped the message, which the sender finds out
	// as if the network had.
	_ = g.rn.Step(m)
	g.observe()
	switch m.Type {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		if m.From == g.seen.Lead && m.Term == g.seen.Term {
			g.elapsed = 0
		}
	}
}

// observe compares raft's state with that after the last input.
func (g *group) observe() {
	g.h.touch(g)
	was, is := g.seen, g.rn.BasicStatus()
	g.seen = is
	if was.Term != is.Term || was.RaftState != is.RaftState {
		g.rest()
	}
	if was.Vote != is.Vote {
		g.elapsed = 0
	}
	if was.Term != is.Term || was.Lead != is.Lead {
		g.roleChanged = true
	}
	if was.RaftState == raft.StateLeader && (is.RaftState != raft.StateLeader || was.Term != is.Term) {
		g.lost()
	}
}

// lost ends what only a leader does.
func (g *group) lost() {
	for _, p := range g.inflight {
		g.outcome(p, Unknown, 0)
	}
	g.inflight, g.inflightBytes = nil, 0
	clear(g.tokens)
	g.h.transfers -= len(g.transfers)
	g.transfers = nil
	g.log.snapshot, g.log.wanted, g.wantedAge = nil, false, 0
}

// pump moves what raft has for the outside into the next Ready.
func (g *group) pump() {
	next := &g.h.next
	for g.rn.HasReady() {
		rd := g.rn.Ready()
		for _, m := range rd.Messages {
			switch {
			case m.To == raft.LocalAppendThread:
				g.append(m)
			case m.To == raft.LocalApplyThread:
				g.apply(m)
			case m.Type == raftpb.MsgSnap:
				g.beginTransfer(m)
			default:
				g.send(m)
			}
		}
		for _, s := range rd.ReadStates {
			g.readAt(s)
		}
	}
	g.answerReads()
	if g.asks() {
		g.wantedAge = 1
		next.SnapshotsWanted = append(next.SnapshotsWanted, g.id)
	}
	if g.roleChanged {
		g.roleChanged = false
		next.Roles = append(next.Roles, Role{
			Group: g.id, Term: g.seen.Term, Leader: PeerID(g.seen.Lead),
			Store: g.leader(), Leading: g.leading(),
		})
	}
}

// asks says whether the driver is yet to be told that a snapshot is wanted.
func (g *group) asks() bool { return g.log.wanted && g.wantedAge == 0 }

func (g *group) send(m raftpb.Message) {
	if s, ok := g.storeOf(PeerID(m.To)); ok && s != g.h.cfg.Store {
		g.h.out.raft(s, g.id, m)
	}
}

// append queues what raft wants to be durable.
func (g *group) append(m raftpb.Message) {
	p := Persist{Group: g.id, Self: g.self, Entries: m.Entries}
	p.Hard = raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
	if m.Snapshot != nil && g.received != nil && g.received.Meta.Index == m.Snapshot.Metadata.Index {
		p.Snapshot = g.received
		g.installed(p.Snapshot.Meta)
	}
	if len(p.Entries) == 0 && raft.IsEmptyHardState(p.Hard) && p.Snapshot == nil && len(g.h.queue) == 0 && len(g.h.writes) == 0 {
		// Nothing is on its way to the disk that the responses could wait for.
		g.respond(m.Responses)
		return
	}
	// A term is a promise even if nothing waits for it now: what is said later in
	// its name, without a write of its own, relies on it.
	w := write{g: g, persist: p, responses: m.Responses}
	w.sync = len(m.Responses) > 0 || len(p.Entries) > 0 || p.Snapshot != nil
	if !raft.IsEmptyHardState(p.Hard) {
		w.sync = w.sync || p.Hard.Term != g.promised.Term || p.Hard.Vote != g.promised.Vote
		g.promised = p.Hard
	}
	g.h.write(w)
}

// installed moves the group to a snapshot that raft has taken.
func (g *group) installed(m Meta) {
	g.handed = max(g.handed, m.Index)
	g.snapped = m
	g.history = []configAt{{m.Index, m.Membership}}
	// What was being applied is part of the snapshot. Its changes of members are
	// not made: raft's configuration is that of the snapshot already.
	for _, a := range g.applying {
		g.respond(a.responses)
	}
	g.applying = nil
	g.applied = max(g.applied, m.Index)
}

// stored makes a durable write part of raft's log and lets out what waited.
func (g *group) stored(w write) {
	if s := w.persist.Snapshot; s != nil && s.Meta.Index > g.log.base.Index { // not that of Found, which is there
		g.log.restore(s.Meta)
	}
	g.log.append(w.persist.Entries)
	if !raft.IsEmptyHardState(w.persist.Hard) {
		g.log.hard = w.persist.Hard
	}
	g.respond(w.responses)
}

func (g *group) respond(ms []raftpb.Message) {
	for _, m := range ms {
		if m.To == uint64(g.self) {
			g.input(m)
		} else {
			g.send(m)
		}
	}
}

// apply hands out committed entries.
func (g *group) apply(m raftpb.Message) {
	c := Committed{Group: g.id, Entries: make([]Entry, 0, len(m.Entries))}
	a := applying{responses: m.Responses}
	for _, e := range m.Entries {
		out := Entry{Index: e.Index, Term: e.Term, Kind: Nothing}
		switch {
		case e.Type != raftpb.EntryNormal:
			out.Kind = MembersChange
			a.changes = append(a.changes, e)
		case len(e.Data) > 0:
			token, data, err := decodeEntry(e.Data)
			if err != nil {
				panic("a committed entry cannot be read: " + err.Error())
			}
			out.Kind, out.Token, out.Data = Command, token, data
		}
		c.Entries = append(c.Entries, out)
		a.last = e.Index
		g.decided(e)
	}
	g.handed = a.last
	g.applying = append(g.applying, a)
	g.h.next.Committed = append(g.h.next.Committed, c)
}

// appliedTo makes the changes of members up to index, and tells raft.
func (g *group) appliedTo(index uint64) {
	g.applied = max(g.applied, index)
	for len(g.applying) > 0 {
		a := &g.applying[0]
		for len(a.changes) > 0 && a.changes[0].Index <= index {
			e := a.changes[0]
			a.changes = a.changes[1:]
			g.change(e)
		}
		if a.last > index {
			return
		}
		responses := a.responses
		g.applying = g.applying[1:]
		g.respond(responses)
	}
}

package consensus

import (
	"slices"

	"github.com/zeebo/xxh3"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/status"
)

// transfer is a snapshot on its way to one member. One chunk is on its way at a
// time; the answer to it, or silence, sends the next.
type transfer struct {
	to   PeerID
	snap *Snapshot
	sum  uint64 // of the snapshot's data
	next int    // the receiver has the bytes before it
	idle int    // ticks since the last chunk was sent
	age  int    // ticks since the receiver moved on
}

// assembly is a snapshot that is arriving.
type assembly struct {
	from PeerID
	term uint64
	meta Meta
	data []byte
}

// Meta gives the point of a group's log at an index that is applied and not
// compacted: what a driver stores with the state machine at that index.
func (h *Host) Meta(id GroupID, index uint64) (Meta, error) {
	g, err := h.find(id)
	if err != nil {
		return Meta{}, err
	}
	return g.meta(index)
}

func (g *group) meta(index uint64) (Meta, error) {
	term, err := g.log.Term(index)
	if index == g.snapped.Index { // it may not be in the log yet
		term, err = g.snapped.Term, nil
	}
	if err != nil || index > g.applied || index < g.history[0].index {
		return Meta{}, invalid(g.id, "index %d, from %d to %d", index, g.history[0].index, g.applied)
	}
	m := Meta{Index: index, Term: term}
	for _, c := range g.history {
		if c.index <= index {
			m.Membership = c.membership
		}
	}
	return m, nil
}

// Compact forgets a group's log up to an index that is applied. The driver has
// stored the state machine at that index, or later, with its Meta before; its
// own copy of the log goes after that as well. Members that need what is
// forgotten are sent a snapshot, so a driver leaves some entries for the slow.
func (h *Host) Compact(id GroupID, index uint64) error {
	g, err := h.find(id)
	if err != nil {
		return err
	}
	if _, err := g.meta(index); err != nil {
		return err
	}
	if index > g.snapped.Index || g.log.base.Index >= g.snapped.Index {
		g.log.compact(index) // else a snapshot that replaces the log is on its way to the disk
	}
	for len(g.history) > 1 && g.history[1].index <= index {
		g.history = g.history[1:]
	}
	g.history[0].index = max(g.history[0].index, index)
	return nil
}

// LogSize says what a group's log takes in memory, for a driver to decide when
// to compact: entries, and bytes.
func (h *Host) LogSize(id GroupID) (entries, bytes int, err error) {
	g, err := h.find(id)
	if err != nil {
		return 0, 0, err
	}
	return len(g.log.entries), g.log.bytes, nil
}

// Durable gives what Stored has made durable of a group: its hard state and the
// entries after an index that is not compacted. The Membership at the index is
// left out: the driver has it. The entries are not to be changed.
func (h *Host) Durable(id GroupID, index uint64) (State, error) {
	g, err := h.find(id)
	if err != nil {
		return State{}, err
	}
	term, err := g.log.Term(index)
	if err != nil {
		return State{}, invalid(id, "index %d, and the log has those from %d to %d", index, g.log.base.Index, g.log.last())
	}
	return State{
		Self: g.self, Meta: Meta{Index: index, Term: term}, Hard: g.log.hard,
		Entries: slices.Clip(g.log.entries[index-g.log.base.Index:]),
	}, nil
}

// OfferSnapshot answers Ready.SnapshotsWanted: the state machine of a group at
// an applied index. The host keeps data until all who need it have it.
func (h *Host) OfferSnapshot(id GroupID, index uint64, data []byte) error {
	g, err := h.find(id)
	if err != nil {
		return err
	}
	if len(data) > h.cfg.MaxSnapshotBytes {
		return status.New(status.LimitReached, "group %s: a snapshot of %d bytes, at most %d", id, len(data), h.cfg.MaxSnapshotBytes)
	}
	m, err := g.meta(index)
	if err != nil {
		return err
	}
	if !g.log.wanted {
		return nil
	}
	g.log.snapshot, g.log.wanted, g.wantedAge = &Snapshot{Meta: m, Data: data}, false, 0
	return nil
}

// beginTransfer sends in chunks what raft says in one message.
func (g *group) beginTransfer(m raftpb.Message) {
	s := g.log.snapshot
	if s == nil || s.Meta.Index != m.Snapshot.Metadata.Index || g.h.transfers >= g.h.cfg.MaxTransfers {
		g.rn.ReportSnapshot(m.To, raft.SnapshotFailure)
		return
	}
	g.endTransfer(PeerID(m.To))
	t := &transfer{to: PeerID(m.To), snap: s, sum: xxh3.Hash(s.Data)}
	g.transfers = append(g.transfers, t)
	g.h.transfers++
	g.sendChunk(t)
}

func (g *group) endTransfer(to PeerID) {
	n := len(g.transfers)
	g.transfers = slices.DeleteFunc(g.transfers, func(t *transfer) bool { return t.to == to })
	g.h.transfers -= n - len(g.transfers)
	if n > 0 && len(g.transfers) == 0 {
		g.log.snapshot = nil
	}
}

// dropTransfers ends those to peers that are no members any more.
func (g *group) dropTransfers() {
	for _, t := range slices.Clone(g.transfers) {
		if _, ok := g.membership().StoreOf(t.to); !ok {
			g.endTransfer(t.to)
		}
	}
}

func (g *group) sendChunk(t *transfer) {
	t.idle = 0
	store, ok := g.storeOf(t.to)
	if !ok {
		return
	}
	data := t.snap.Data[t.next:min(t.next+g.h.cfg.MaxChunkBytes, len(t.snap.Data))]
	e := g.h.out.to(store, chunkHeadBytes+len(data))
	e.Chunks = append(e.Chunks, Chunk{
		Group: g.id, From: g.self, To: t.to, Term: g.seen.Term, Meta: t.snap.Meta,
		Total: len(t.snap.Data), Sum: t.sum, Offset: t.next, Data: data,
	})
}

// ageTransfers sends again what was not answered, and gives up in the end.
func (g *group) ageTransfers() {
	if g.wantedAge > 0 {
		if g.wantedAge++; g.wantedAge > 10*g.h.cfg.ElectionTicks {
			g.wantedAge = 0 // ask again
			g.h.touch(g)
		}
	}
	if g.log.snapshot == nil || len(g.transfers) > 0 {
		g.offerAge = 0
	} else if g.offerAge++; g.offerAge > 10*g.h.cfg.ElectionTicks {
		g.log.snapshot = nil // who needed it has gone
	}
	for _, t := range slices.Clone(g.transfers) {
		t.idle++
		t.age++
		switch {
		case t.age > 10*g.h.cfg.ElectionTicks:
			g.endTransfer(t.to)
			g.rn.ReportSnapshot(uint64(t.to), raft.SnapshotFailure)
			g.observe()
		case t.idle > 4*g.h.cfg.HeartbeatTicks:
			g.sendChunk(t)
		}
	}
}

// chunkAck moves a transfer on.
func (g *group) chunkAck(a ChunkAck) {
	i := slices.IndexFunc(g.transfers, func(t *transfer) bool { return t.to == a.From })
	if i < 0 || a.Term != g.seen.Term || a.Index != g.transfers[i].snap.Meta.Index {
		return
	}
	t := g.transfers[i]
	switch {
	case a.Done:
		g.endTransfer(t.to)
		g.rn.ReportSnapshot(uint64(t.to), raft.SnapshotFinish)
		g.observe()
	case a.Next < 0 || a.Next > len(t.snap.Data):
	case a.Next > t.next:
		t.next, t.age = a.Next, 0
		g.sendChunk(t)
	case a.Next < t.next:
		// The receiver has begun anew, or this came late. The next repetition finds
		// out; an answer to each would multiply with the network's repetitions.
		t.next = a.Next
	}
}

// chunk takes a part of a snapshot.
func (g *group) chunk(c Chunk) {
	end := c.Offset + len(c.Data)
	if c.Term < g.seen.Term || c.Total < 0 || c.Total > g.h.cfg.MaxSnapshotBytes || c.Offset < 0 || end > c.Total {
		return
	}
	if c.Meta.Index <= g.seen.Commit {
		g.ackChunk(c, c.Total, true)
		return
	}
	a := g.assembly
	if a == nil || a.from != c.From || a.term != c.Term || a.meta.Index != c.Meta.Index || a.meta.Term != c.Meta.Term {
		a = &assembly{from: c.From, term: c.Term, meta: c.Meta}
		g.assembly = a
	}
	if c.Offset == len(a.data) {
		a.data = append(a.data, c.Data...)
	}
	if len(a.data) < c.Total {
		g.ackChunk(c, len(a.data), false)
		return
	}
	g.assembly = nil
	if xxh3.Hash(a.data) != c.Sum {
		g.ackChunk(c, 0, false) // from the start again
		return
	}
	g.receive(c, a)
	g.ackChunk(c, c.Total, true)
}

// receive gives raft a whole snapshot. Raft's Ready is taken at once: it has
// changed its configuration already, and ours has to follow before anything is
// applied on top of the old one.
func (g *group) receive(c Chunk, a *assembly) {
	s := raftSnapshot(a.meta)
	g.received = &Snapshot{Meta: a.meta, Data: a.data}
	g.input(raftpb.Message{
		Type: raftpb.MsgSnap, From: uint64(c.From), To: uint64(c.To), Term: c.Term, Snapshot: &s,
	})
	g.pump()
	g.received = nil
}

func (g *group) ackChunk(c Chunk, next int, done bool) {
	store, ok := g.storeOf(c.From)
	if !ok {
		return
	}
	e := g.h.out.to(store, heartbeatBytes)
	e.Acks = append(e.Acks, ChunkAck{
		Group: c.Group, From: g.self, To: c.From, Term: c.Term, Index: c.Meta.Index, Next: next, Done: done,
	})
}

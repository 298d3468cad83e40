package consensus

import (
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// Host is the member of many groups that one store is.
type Host struct {
	cfg    Config
	groups map[GroupID]*group
	order  []GroupID // of groups, rising
	dirty  []*group  // may have something for Ready
	out    outbox
	next   Ready // what the next Ready says beside what raft has
	writes []write
	batch  uint64  // of the last Ready
	stored uint64  // the last batch that is durable
	queue  []batch // handed out and not stored

	transfers int
	nonce     [16]byte // first part of the contexts of reads
	reads     uint64   // second part
}

// batch is what waits for one Stored.
type batch struct {
	number uint64
	writes []write
}

// write is a part of a batch: what becomes durable, and what raft does then.
type write struct {
	g         *group
	persist   Persist
	responses []raftpb.Message
	sync      bool
}

// New makes a host without groups.
func New(cfg Config) (*Host, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	h := &Host{
		cfg: cfg, groups: map[GroupID]*group{},
		out: outbox{self: cfg.Store, limit: cfg.MaxMessageBytes, open: map[ident.StoreID]*packing{}},
	}
	binary.BigEndian.PutUint64(h.nonce[:8], cfg.Random.Uint64())
	binary.BigEndian.PutUint64(h.nonce[8:], cfg.Random.Uint64())
	return h, nil
}

// Found begins a group in which these stores vote, this one among them. Every
// one of them is called with the same stores. A store that has been in the
// group must not found it again, but Restore it: it would forget its votes.
func (h *Host) Found(id GroupID, voters []ident.StoreID) error {
	if len(voters) > h.cfg.MaxMembers {
		return status.New(status.LimitReached, "group %s: %d voters, at most %d", id, len(voters), h.cfg.MaxMembers)
	}
	s, err := Founded(h.cfg.Store, voters)
	if err != nil {
		return err
	}
	g, err := h.add(id, s)
	if err != nil {
		return err
	}
	p := Persist{Group: id, Self: s.Self, Snapshot: &Snapshot{Meta: s.Meta}, Hard: s.Hard}
	h.write(write{g: g, persist: p, sync: true})
	return nil
}

// Founded is the State with which a store founds a group. A driver that makes it
// durable by itself, with the state machine that the group begins with, gives it
// to Restore and needs no Found.
func Founded(store ident.StoreID, voters []ident.StoreID) (State, error) {
	if len(voters) == 0 {
		return State{}, status.New(status.InvalidArgument, "a group is founded without voters")
	}
	m := founding(voters)
	for i := 1; i < len(m.Members); i++ {
		if m.Members[i].Store == m.Members[i-1].Store {
			return State{}, status.New(status.InvalidArgument, "a group is founded with store %s twice", m.Members[i].Store)
		}
	}
	self, ok := m.Find(store)
	if !ok {
		return State{}, status.New(status.InvalidArgument, "store %s founds a group and is not one of its voters", store)
	}
	// The log begins behind an entry that nobody has, so that a member that
	// joins later is brought up by a snapshot, which tells it the members.
	return State{
		Self: self, Meta: Meta{Index: 1, Term: 1, Membership: m}, Hard: raftpb.HardState{Term: 1, Commit: 1},
	}, nil
}

// Join begins a group as a member that its leader has added as the peer self;
// see Stranger. All that the group knows comes as a snapshot.
func (h *Host) Join(id GroupID, self PeerID) error {
	g, err := h.add(id, State{Self: self})
	if err != nil {
		return err
	}
	h.write(write{g: g, persist: Persist{Group: id, Self: self}, sync: true})
	return nil
}

// State is what a driver has on disk of a group.
type State struct {
	Self PeerID
	// Meta is where the state machine stands: that of the last snapshot that was
	// made here or came in Persist.
	Meta Meta
	Hard raftpb.HardState
	// Entries begin right behind Meta.Index. They are handed out again once they
	// are known to be committed.
	Entries []raftpb.Entry
}

// Restore begins a group with what is on disk of it.
func (h *Host) Restore(id GroupID, s State) error {
	last := s.Meta.Index
	for i := range s.Entries {
		if last++; s.Entries[i].Index != last {
			return status.New(status.DataCorrupt, "group %s: entry %d where %d should be", id, s.Entries[i].Index, last)
		}
	}
	if s.Hard.Commit > last {
		return status.New(status.DataCorrupt, "group %s: committed up to %d, but the log ends at %d", id, s.Hard.Commit, last)
	}
	// The commit index of a hard state need not have been synced.
	s.Hard.Commit = max(s.Hard.Commit, s.Meta.Index)
	s.Hard.Term = max(s.Hard.Term, s.Meta.Term)
	_, err := h.add(id, s)
	return err
}

func (h *Host) add(id GroupID, s State) (*group, error) {
	switch {
	case id == 0 || s.Self == 0:
		return nil, status.New(status.InvalidArgument, "group %s: peer %d, neither may be zero", id, s.Self)
	case h.groups[id] != nil:
		return nil, status.New(status.ConditionFailed, "group %s is here already", id)
	case len(h.groups) >= h.cfg.MaxGroups:
		return nil, status.New(status.LimitReached, "this store hosts %d groups, its limit", len(h.groups))
	}
	g := &group{h: h, id: id, self: s.Self, tokens: map[Token]bool{}}
	g.log = &entryLog{hard: s.Hard, state: s.Meta.Membership.State}
	g.log.restore(s.Meta)
	g.log.append(s.Entries)
	g.history = []configAt{{s.Meta.Index, s.Meta.Membership}}
	g.snapped = s.Meta
	g.promised = s.Hard
	g.handed, g.applied = s.Meta.Index, s.Meta.Index
	rn, err := raft.NewRawNode(&raft.Config{
		ID: uint64(s.Self), ElectionTick: h.cfg.ElectionTicks, HeartbeatTick: h.cfg.HeartbeatTicks,
		Storage: g.log, Applied: s.Meta.Index, AsyncStorageWrites: true,
		MaxSizePerMsg: uint64(h.cfg.MaxMessageBytes) / 4, MaxInflightMsgs: 64,
		MaxUncommittedEntriesSize: uint64(h.cfg.MaxInflightBytes) * 2, // ours comes first
		CheckQuorum:               true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe,
		Logger: quiet{}, DisableProposalForwarding: true,
		// A leader that is removed hands over instead; see handOver.
		StepDownOnRemoval: false,
	})
	if err != nil {
		return nil, fmt.Errorf("consensus: group %s: %w", id, err)
	}
	g.rn = rn
	g.seen = rn.BasicStatus()
	g.rest()
	h.groups[id] = g
	i, _ := slices.BinarySearch(h.order, id)
	h.order = slices.Insert(h.order, i, id)
	h.touch(g)
	return g, nil
}

// Remove forgets a group. Its proposals become Unknown and its reads fail. A
// driver calls it, and deletes what is on disk, when a member that leads says that
// this store is no member any more. Before that, removing it is losing a disk: the
// others may still count its vote, and the store may only come back as a new peer.
func (h *Host) Remove(id GroupID) error {
	g, err := h.find(id)
	if err != nil {
		return err
	}
	g.lost()
	g.failReads()
	g.gone = true
	delete(h.groups, id)
	h.order = slices.DeleteFunc(h.order, func(o GroupID) bool { return o == id })
	return nil
}

// Groups lists the groups by rising ID.
func (h *Host) Groups() []GroupID { return slices.Clone(h.order) }

func (h *Host) find(id GroupID) (*group, error) {
	if g := h.groups[id]; g != nil {
		return g, nil
	}
	return nil, status.New(status.Unavailable, "group %s is not on this store", id)
}

// Tick moves the time of all groups on by one.
func (h *Host) Tick() {
	for _, id := range h.order {
		h.groups[id].tick()
	}
}

// Step takes a message of another store. Parts of it that fit nothing here are
// dropped, as the network might have done. The error says that the message as
// a whole is not for this store.
func (h *Host) Step(m Message) error {
	if m.To != h.cfg.Store || m.From == m.To || m.From.IsZero() {
		return status.New(status.ProtocolViolation, "a message from store %s to %s came to %s", m.From, m.To, h.cfg.Store)
	}
	for _, b := range m.Heartbeats {
		h.deliver(m.From, b.Group, b.message())
	}
	for _, r := range m.Raft {
		h.deliver(m.From, r.Group, r.Message)
	}
	for _, c := range m.Chunks {
		if g := h.receiver(m.From, c.Group, c.From, c.To); g != nil {
			g.chunk(c)
		}
	}
	for _, a := range m.Acks {
		if g := h.receiver(m.From, a.Group, a.From, a.To); g != nil {
			g.chunkAck(a)
		}
	}
	return nil
}

func (h *Host) deliver(from ident.StoreID, id GroupID, m raftpb.Message) {
	if g := h.receiver(from, id, PeerID(m.From), PeerID(m.To)); g != nil {
		g.step(m)
	}
}

// receiver finds the group of a message. It drops what one store says in the
// name of another's peer.
func (h *Host) receiver(store ident.StoreID, id GroupID, from, to PeerID) *group {
	g := h.groups[id]
	if g == nil || g.self < to {
		s := Stranger{Group: id, From: store, Self: to}
		if len(h.next.Strangers) < maxStrangers && !slices.Contains(h.next.Strangers, s) {
			h.next.Strangers = append(h.next.Strangers, s)
		}
		return nil
	}
	if g.self != to || from == 0 || from == to || !g.correspond(from, store) {
		return nil
	}
	return g
}

// Stored says that the batches up to this one, in the order in which Ready gave
// them, are written, and on stable storage if any of them said Sync.
func (h *Host) Stored(batch uint64) error {
	if batch > h.batch {
		return fmt.Errorf("consensus: batch %d is stored, but the last was %d", batch, h.batch)
	}
	h.stored = max(h.stored, batch)
	for len(h.queue) > 0 && h.queue[0].number <= batch {
		for _, w := range h.queue[0].writes {
			if !w.g.gone {
				w.g.stored(w)
			}
		}
		h.queue = h.queue[1:]
	}
	return nil
}

// Applied says that a group's state machine has applied the entries up to index.
func (h *Host) Applied(id GroupID, index uint64) error {
	g, err := h.find(id)
	if err != nil {
		return err
	}
	if index > g.handed {
		return fmt.Errorf("consensus: group %s: applied %d, but only %d was handed out", id, index, g.handed)
	}
	g.appliedTo(index)
	return nil
}

// HasReady says whether Ready would say anything.
func (h *Host) HasReady() bool {
	n := &h.next
	if len(h.writes)+len(h.out.open)+len(n.Committed)+len(n.Reads)+len(n.Outcomes)+len(n.Roles)+
		len(n.SnapshotsWanted)+len(n.Strangers) > 0 {
		return true
	}
	return slices.ContainsFunc(h.dirty, func(g *group) bool { return !g.gone && (g.rn.HasReady() || g.roleChanged || g.asks()) })
}

// Ready hands out what has become due. It may be called again before Stored and
// Applied; a driver bounds its pipeline by not calling it.
func (h *Host) Ready() Ready {
	slices.SortFunc(h.dirty, func(a, b *group) int { return compareGroups(a.id, b.id) })
	for _, g := range h.dirty {
		g.dirty = false
	}
	groups := h.dirty
	h.dirty = nil
	for _, g := range groups {
		if !g.gone {
			g.pump()
		}
	}
	r := h.next
	h.next = Ready{}
	r.Messages = h.out.take()
	slices.SortStableFunc(h.writes, func(a, b write) int { return compareGroups(a.g.id, b.g.id) })
	for _, w := range h.writes {
		r.Persist = append(r.Persist, w.persist)
		r.Sync = r.Sync || w.sync
	}
	if len(h.writes) > 0 {
		h.batch++
		r.Batch = h.batch
		h.queue = append(h.queue, batch{h.batch, h.writes})
		h.writes = nil
	}
	return r
}

func (h *Host) write(w write) { h.writes = append(h.writes, w) }

// touch makes the next Ready look at a group.
func (h *Host) touch(g *group) {
	if !g.dirty {
		g.dirty = true
		h.dirty = append(h.dirty, g)
	}
}

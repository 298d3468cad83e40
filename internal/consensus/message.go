package consensus

import (
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/ident"
)

// Message is all that one store has to say to another at a time, over all
// groups. It may be lost, repeated, delayed and overtaken. The one who carries
// it vouches for From.
type Message struct {
	From, To   ident.StoreID
	Heartbeats []Heartbeat
	Raft       []GroupMessage
	Chunks     []Chunk
	Acks       []ChunkAck
}

// Heartbeat is a heartbeat of a group's leader or the answer to one, in few
// bytes, since a host sends one a group, peer and HeartbeatTicks.
type Heartbeat struct {
	Group        GroupID
	From, To     PeerID
	Term, Commit uint64
	Answer       bool
	Context      []byte
}

// GroupMessage is any other message of raft.
type GroupMessage struct {
	Group   GroupID
	Message raftpb.Message
}

// Chunk is a part of a snapshot on its way to a member that cannot be brought
// up to date from the log.
type Chunk struct {
	Group    GroupID
	From, To PeerID
	// Term is that of the leader that sends.
	Term uint64
	Meta Meta
	// Total is the bytes of the whole snapshot, Sum their xxh3, and Offset where
	// Data begins in it.
	Total, Offset int
	Sum           uint64
	Data          []byte
}

// ChunkAck says that the bytes before Next of a snapshot have arrived; at the
// snapshot's total it is complete.
type ChunkAck struct {
	Group       GroupID
	From, To    PeerID
	Term, Index uint64
	Next        int
	Done        bool
}

// outbox gathers what leaves, by store in the order of identities.
type outbox struct {
	self  ident.StoreID
	limit int
	open  map[ident.StoreID]*packing
}

type packing struct {
	done  []Message
	last  Message
	bytes int
}

// Sizes of what is not raft's, about: the limit is no promise to the byte.
const (
	heartbeatBytes = 64
	chunkHeadBytes = 256
)

func (o *outbox) to(s ident.StoreID, bytes int) *Message {
	p := o.open[s]
	if p == nil {
		p = &packing{last: Message{From: o.self, To: s}}
		o.open[s] = p
	}
	if p.bytes > 0 && p.bytes+bytes > o.limit {
		p.done = append(p.done, p.last)
		p.last, p.bytes = Message{From: o.self, To: s}, 0
	}
	p.bytes += bytes
	return &p.last
}

func (o *outbox) raft(s ident.StoreID, g GroupID, m raftpb.Message) {
	if m.Type == raftpb.MsgHeartbeat || m.Type == raftpb.MsgHeartbeatResp {
		e := o.to(s, heartbeatBytes+len(m.Context))
		e.Heartbeats = append(e.Heartbeats, Heartbeat{
			Group: g, From: PeerID(m.From), To: PeerID(m.To), Term: m.Term, Commit: m.Commit,
			Answer: m.Type == raftpb.MsgHeartbeatResp, Context: m.Context,
		})
		return
	}
	e := o.to(s, 8+m.Size())
	e.Raft = append(e.Raft, GroupMessage{Group: g, Message: m})
}

func (h Heartbeat) message() raftpb.Message {
	m := raftpb.Message{
		Type: raftpb.MsgHeartbeat, From: uint64(h.From), To: uint64(h.To),
		Term: h.Term, Commit: h.Commit, Context: h.Context,
	}
	if h.Answer {
		m.Type = raftpb.MsgHeartbeatResp
	}
	return m
}

// take empties the box.
func (o *outbox) take() (all []Message) {
	stores := make([]ident.StoreID, 0, len(o.open))
	for s := range o.open {
		stores = append(stores, s)
	}
	slices.SortFunc(stores, func(a, b ident.StoreID) int { return slices.Compare(a[:], b[:]) })
	for _, s := range stores {
		all = append(append(all, o.open[s].done...), o.open[s].last)
	}
	clear(o.open)
	return all
}

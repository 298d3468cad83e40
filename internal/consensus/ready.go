package consensus

import (
	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/ident"
)

// Ready is what has become due since the last Ready, over all groups. Slices
// are ordered by group, and Messages by store. The driver reads them and does
// not change them.
type Ready struct {
	// Batch numbers what is to be persisted; the driver gives it to Stored. Zero
	// says that Persist is empty.
	Batch uint64
	// Sync says that something waits for this batch: Stored must mean that it is
	// on stable storage. Without it (commit indexes only) it need only be
	// written in order.
	Sync    bool
	Persist []Persist
	// Messages may be sent at once.
	Messages []Message
	// Committed entries are to be applied, after the snapshots of Persist.
	Committed []Committed
	Reads     []Read
	Outcomes  []Outcome
	// Roles tells of each group whose leader or term has changed.
	Roles []Role
	// SnapshotsWanted asks for Snapshot calls, each at the group's applied index.
	SnapshotsWanted []GroupID
	// Strangers are messages for members that this host is not.
	Strangers []Stranger
}

// Persist is what one group must have on disk before Stored. The parts are
// written in the order of the fields.
type Persist struct {
	Group GroupID
	// Self is the peer that this store is in the group.
	Self PeerID
	// Snapshot, unless nil, replaces the state machine and the whole log.
	Snapshot *Snapshot
	// Entries replace those of the same index and all after them.
	Entries []raftpb.Entry
	// Hard replaces the last one, unless it is empty.
	Hard raftpb.HardState
}

// Snapshot is a state machine at a point of the log. Data is the driver's own
// bytes; the driver checks them as it does all that it stores.
type Snapshot struct {
	Meta Meta
	Data []byte
}

// Committed are entries of one group, without a hole after the last ones.
type Committed struct {
	Group   GroupID
	Entries []Entry
}

// Kind is what an Entry is to the state machine.
type Kind uint8

// The kinds.
const (
	// Command is a proposal: Data is to be applied.
	Command Kind = iota
	// Nothing only moves the index: an entry of raft's own.
	Nothing
	// MembersChange was applied by the host; the index moves.
	MembersChange
)

// Entry is a committed entry.
type Entry struct {
	Index, Term uint64
	Kind        Kind
	Token       Token
	Data        []byte
}

// Read is the answer to ReadIndex. Without Err, a state machine that has
// applied all that this Ready and those before it committed has seen all that
// was acknowledged when the read was asked for.
type Read struct {
	Group GroupID
	ID    uint64
	Index uint64
	// Err is of status.Unavailable: ask again, here or at the leader.
	Err error
}

// Result is what became of a proposal.
type Result uint8

// The results.
const (
	// Decided: the proposal is committed at Outcome.Index.
	Decided Result = iota
	// Refused: it had no effect and will have none.
	Refused
	// Unknown: this host lost the leadership, or the group, before it knew. The
	// proposal may be committed, now or later.
	Unknown
)

// Outcome ends a proposal that was accepted.
type Outcome struct {
	Group  GroupID
	Token  Token
	Result Result
	Index  uint64
	// Leader is who may know more, if anyone is known.
	Leader ident.StoreID
}

// Role is how a group is led, as this host sees it.
type Role struct {
	Group   GroupID
	Term    uint64
	Leader  PeerID
	Store   ident.StoreID
	Leading bool
}

// Stranger is a message from a member of a group, for a peer that this host is
// not. If the control plane says that the store belongs to the group, the driver
// calls Join with Self; if an older peer of the group is still here, it was
// removed from the group, and goes by Remove first.
type Stranger struct {
	Group GroupID
	From  ident.StoreID
	Self  PeerID
}

// maxStrangers bounds Ready.Strangers; the rest is dropped, as messages may be.
const maxStrangers = 1024

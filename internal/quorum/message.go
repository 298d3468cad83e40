package quorum

import (
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// Kind says what a message is.
type Kind uint8

// The kinds of messages. Those that ask are answered by the kind behind them.
const (
	_ Kind = iota
	// Append carries batches of Segment from From on, or none: then it asks for
	// the tail and tells the commit offset.
	Append
	// Appended tells the durable tail of a segment.
	Appended
	// Fence asks for a promise and for the tail of Segment (R6).
	Fence
	// Fenced is the promise.
	Fenced
	// Fetch asks for batches of Segment from From on.
	Fetch
	// Fetched has them.
	Fetched
	// Seal tells that Segment was sealed in the catalog.
	Seal
	// Sealed says that it is sealed in the store as well.
	Sealed
)

func (k Kind) String() string {
	return [...]string{"?", "append", "appended", "fence", "fenced", "fetch", "fetched", "seal", "sealed"}[k]
}

// Refusal says why a message is not answered with yes.
type Refusal uint8

// The refusals.
const (
	// OK is none.
	OK Refusal = iota
	// Below: the store promised a higher epoch.
	Below
	// Gap: the batches do not begin at the tail; Next says where it is.
	Gap
	// Diverged: they do not continue the chain, or another process writes the
	// segment. It never happens while the rules are kept.
	Diverged
	// Full: the disk has no room, or the store no memory.
	Full
	// CannotVouch: what the store has of the segment is damaged (I14).
	CannotVouch
	// Closed: the segment is sealed here.
	Closed
)

func (r Refusal) String() string {
	return [...]string{"ok", "below", "gap", "diverged", "full", "cannot-vouch", "closed"}[r]
}

// Message is what one store's part in the range tells another's. The byte slices
// in it are never changed, by nobody, and are kept as long as it takes.
type Message struct {
	Kind     Kind
	From, To ident.StoreID
	Range    ident.RangeID
	// Epoch and Owner say in whose name a message asks; an answer has those of
	// what it answers.
	Epoch ident.Epoch
	Owner catalog.Owner
	// Segment is complete in Append, Fence and Seal; elsewhere it is its ID.
	Segment Segment
	// Seq numbers what a primary sends; an answer has the one that it answers.
	Seq uint64

	// Append, Fetch, Fetched: where the batches begin, and the chain there.
	At      ident.Offset
	Chain   uint64
	Batches [][]byte
	// Append: the commit offset of this segment and of no other (R8). Appended:
	// the one that the follower knows.
	Commit ident.Offset
	// Confirm numbers the reads that wait for a quorum; Appended echoes it.
	Confirm uint64

	// Fence: who may hold leases of the epoch before.
	Holder catalog.Owner
	// Seal: how the segment ended.
	Seal catalog.Seal

	// The answers.
	Refusal Refusal
	Promise ident.Epoch
	// By is the process that answers.
	By ident.Incarnation
	// Tail is durable; Next is where the store would take the next batch.
	Tail Tail
	Next ident.Offset
}

// answer is a message back to whoever sent m.
func (m *Message) answer(k Kind) Message {
	return Message{
		Kind: k, From: m.To, To: m.From, Range: m.Range, Epoch: m.Epoch, Owner: m.Owner, Seq: m.Seq,
		Segment: Segment{OpenSegment: catalog.OpenSegment{ID: m.Segment.ID}},
	}
}

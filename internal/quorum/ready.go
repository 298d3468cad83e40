package quorum

import (
	"errors"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// The refusals of Append and the other calls of a driver.
var (
	// ErrNotPrimary: this process has no grant that it may use.
	ErrNotPrimary = errors.New("not the primary of the range")
	// ErrFrozen: the open segment is being sealed. The driver keeps the batch, and
	// appends it after what is Returned.
	ErrFrozen = errors.New("the range is frozen")
	// ErrOverloaded: too much is appended and not committed.
	ErrOverloaded = errors.New("too many bytes are not committed yet")
	// ErrFailed: the store has failed, for ever.
	ErrFailed = errors.New("the store has failed")
)

// Ready is what a driver has to do. It and its slices are good until the call
// after the next of Ready; the batches in it for ever.
type Ready struct {
	Writes   []Write
	Messages []Message
	Loads    []Load
	Results  []Result
	Reads    []Read
	// Proposal, if its Serial is not zero, is for the catalog.
	Proposal Proposal
	// Look asks for a linearizable read of the range in the catalog.
	Look bool
	// Changed: State says something else than before, and Why.
	Changed bool
	State   State
	Why     Why
	// Challenged: a store has promised a higher epoch. Nobody may have been
	// granted it; Regrant then makes this store's followers whole again.
	Challenged bool
	// CutOff: this primary has not heard of a quorum for five seconds. If the
	// control plane sees one, the driver resigns (R1).
	CutOff bool
	// Incomplete are segments that were sealed and are not on all of their
	// stores, and that nobody brings there any more. They are healing's.
	Incomplete []ident.SegmentID
	// Faults are segments of this store that it cannot vouch for.
	Faults []ident.SegmentID
}

// Empty says that there is nothing to do.
func (r *Ready) Empty() bool {
	return len(r.Writes)+len(r.Messages)+len(r.Loads)+len(r.Results)+len(r.Reads)+len(r.Incomplete)+len(r.Faults) == 0 &&
		r.Proposal.Serial == 0 && !r.Look && !r.Changed && !r.Challenged && !r.CutOff
}

// WriteKind says what a Write is.
type WriteKind uint8

// The kinds of writes.
const (
	// WriteCreate makes a segment.
	WriteCreate WriteKind = iota
	// WriteAppend appends a batch.
	WriteAppend
	// WriteCut discards what lies at or past Tail.End.
	WriteCut
	// WriteSeal ends a segment for ever.
	WriteSeal
	// WritePromise remembers the range's promise.
	WritePromise
)

func (k WriteKind) String() string {
	return [...]string{"create", "append", "cut", "seal", "promise"}[k]
}

// Write is what the disk is to make durable.
type Write struct {
	Kind    WriteKind
	Serial  uint64
	Segment Segment
	Batch   []byte
	// Tail is that behind the batch or the cut.
	Tail    Tail
	Promise ident.Epoch
}

// Done says what became of a Write. Writes are answered in their order.
type Done uint8

// The outcomes of a write.
const (
	// Durable: it is on stable storage.
	Durable Done = iota
	// NoRoom: nothing was written, and nothing will be of the appends to that
	// segment that were handed out behind it and before this answer.
	NoRoom
	// Failed: the outcome is unknown, and the store has stopped (D5).
	Failed
	// Damaged: a cut found another chain than the seal has.
	Damaged
)

// Load asks for batches of a segment of this store, from one on that begins at
// From, of about MaxBytes and at least one.
type Load struct {
	ID       uint64
	Segment  ident.SegmentID
	From     ident.Offset
	MaxBytes int
}

// Fate is what became of an append.
type Fate uint8

// The fates.
const (
	// Committed: it is in the log at Base.
	Committed Fate = iota
	// Returned: it is not in the log and never will be: its segment was sealed
	// before it. The driver judges it again and appends a copy of its bytes.
	Returned
	// Dropped: it is not in the log and never will be, and others may have been
	// appended since, so that it has no place any more. Its client is told.
	Dropped
	// Lost: this process does not know.
	Lost
)

// Result is the fate of one Append. Results come in the order of the appends.
type Result struct {
	Token uint64
	Fate  Fate
	Base  ident.Offset
}

// Read is the answer of a read that waited for a quorum.
type Read struct {
	ID uint64
	OK bool
	// Commit is the offset up to which the reader has to see the log.
	Commit ident.Offset
}

// ProposalKind says which command is to be proposed.
type ProposalKind uint8

// The kinds of proposals.
const (
	// ProposeTake is a catalog.Grant to this process.
	ProposeTake ProposalKind = iota
	// ProposeRoll is a catalog.Roll.
	ProposeRoll
	// ProposeEnd is a catalog.Ending for the driver's split or merge.
	ProposeEnd
)

func (k ProposalKind) String() string { return [...]string{"take", "roll", "end"}[k] }

// Proposal is a command that seals the open segment. It compares Epoch, Version
// and Open, so that one that is proposed twice is applied once.
type Proposal struct {
	Serial  uint64
	Kind    ProposalKind
	Epoch   ident.Epoch
	Version uint64
	Open    ident.SegmentID
	Seal    catalog.Seal
}

// Verdict is what is known of a proposal.
type Verdict uint8

// The verdicts.
const (
	// Unknown: a time-out, a broken connection.
	Unknown Verdict = iota
	// Yes: it was applied.
	Yes
	// No: the catalog has refused it.
	No
)

// Outcome answers a Proposal. View is read after the verdict; of an unknown one
// it is nothing.
type Outcome struct {
	Serial  uint64
	Verdict Verdict
	View    View
}

package node

import (
	"time"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// ProduceRequest appends one batch to a topic.
type ProduceRequest struct {
	Topic string
	// Batch is one encoded batch. It belongs to the broker from the call on,
	// also when the call fails.
	Batch []byte
	// Bands is into how many bands the client cuts its batches; 0 wants no hints.
	Bands int
}

// ProduceResult is the answer to an append that was made.
type ProduceResult struct {
	AppendTime ident.Timestamp
	// Repeated: the records had been appended before, by an earlier try of their
	// producer. AppendTime is that of then, and zero if it is forgotten.
	Repeated bool
	// Cuts are hints: where to cut later batches, if Bands was another number or
	// the batch went over a cut. Each is the first position after a cut; a lone 0
	// says that there are none.
	Cuts []ident.Position
}

// Start says where a reading begins. The zero value is the start of the topic.
type Start struct {
	Kind StartKind
	// Time is for StartTime: the first record appended at or after it.
	Time ident.Timestamp
	// Cursor is for StartCursor.
	Cursor string
}

// StartKind is one of the ways to begin.
type StartKind uint8

// The ways to begin.
const (
	StartBeginning StartKind = iota
	StartEnd
	StartTime
	StartCursor
)

// Filter picks records by key. The zero value picks all.
type Filter struct {
	// Key, if not nil, picks the records that have exactly this key.
	Key []byte
	// Prefix, if not nil, picks the records whose key begins with it. At most
	// one of Key and Prefix is set.
	Prefix []byte
}

// FetchRequest reads a stretch of a topic.
type FetchRequest struct {
	Topic  string
	Start  Start
	Filter Filter
	// MaxRecords and MaxBytes bound the answer; 0 is the default (10,000 and
	// 8 MiB), which is also the most. The first record is delivered whatever
	// its size.
	MaxRecords int
	MaxBytes   int
	// Wait is how long to wait for a first record when there is none; at most
	// MaxWait.
	Wait time.Duration
}

// MaxWait bounds a long poll.
const MaxWait = 5 * time.Minute

// Delivery is a stretch of records on their way to a reader.
type Delivery struct {
	// Slices are the batches, in reading order. Their bytes are shared and
	// must not be changed.
	Slices []Slice
	// Start is the cursor before the first record and after Gap; Cursor is
	// the one after the last. Start is set when there are slices or a gap.
	Start  string
	Cursor string
	// Gap, if not nil, lies before the first record.
	Gap *Gap
	// AtEnd says that Cursor was at the committed end when the delivery was
	// made.
	AtEnd bool

	memory []segment.Batches
}

// Release gives back the memory of the slices, which must not be touched any
// more. It may be called more than once, also of copies, and need not be
// called at all.
func (d *Delivery) Release() {
	for i := range d.memory {
		d.memory[i].Release()
	}
}

// Records counts the records of the delivery.
func (d *Delivery) Records() int {
	n := 0
	for _, s := range d.Slices {
		n += s.Take
	}
	return n
}

// Slice is a batch of which a reader gets the records [Skip, Skip+Take).
type Slice struct {
	Batch []byte
	Skip  int
	Take  int
	// Entry is the entry of the Start cursor that these records advance.
	Entry int
}

// GapReason says why records are missing from a reading.
type GapReason uint8

// The reasons for a gap.
const (
	// GapRetention: retention removed the records.
	GapRetention GapReason = iota + 1
	// GapOverflow: the subscriber was too slow and its policy dropped them.
	GapOverflow
	// GapLost: a weak topic lost its unsynced tail in a crash.
	GapLost
)

// Gap is a stretch of records that a reader does not get.
type Gap struct {
	Reason GapReason
	// Records is how many, or if that is not Known the most that it can be, and 0
	// without even that.
	Records uint64
	Known   bool
}

// Overflow says what becomes of a subscriber whose window stays shut while
// more records than its queue holds are waiting.
type Overflow uint8

// The overflow policies.
const (
	// OverflowBlock leaves the records where they are: the reader falls behind.
	OverflowBlock Overflow = iota
	// OverflowDropOldest skips to the newest records that the queue holds.
	OverflowDropOldest
	// OverflowDropNewest keeps the queue and skips what came while it was full.
	OverflowDropNewest
	// OverflowDisconnect ends the subscription with slow_consumer.
	OverflowDisconnect
)

// SubscribeRequest pushes a topic to a reader.
type SubscribeRequest struct {
	Topic    string
	Start    Start
	Filter   Filter
	Overflow Overflow
	// QueueRecords bounds how many records may wait before Overflow acts;
	// 0 is 10,000, which is also the most.
	QueueRecords int
}

// TopicInfo is what anyone may know of a topic.
type TopicInfo struct {
	Name     string
	ID       ident.TopicID
	Type     catalog.TopicType
	Settings catalog.Settings
	Created  ident.Timestamp
}

// TopicDescription is a topic as an operator sees it.
type TopicDescription struct {
	TopicInfo
	Ranges []RangeDescription
}

// Records and Bytes sum over the ranges what is readable now.
func (d *TopicDescription) Records() (n uint64) {
	for _, r := range d.Ranges {
		n += r.Records
	}
	return n
}

// Bytes is the sum of the ranges' bytes on disk.
func (d *TopicDescription) Bytes() (n uint64) {
	for _, r := range d.Ranges {
		n += r.Bytes
	}
	return n
}

// RangeDescription is a range as an operator sees it.
type RangeDescription struct {
	ID          ident.RangeID
	First, Last ident.Position
	Epoch       ident.Epoch
	// Start and End are the readable offsets [Start, End).
	Start, End ident.Offset
	Records    uint64
	Bytes      uint64
	Segments   []SegmentDescription
	// Parents are the ranges that this one continues, Children those that
	// continue it: a range that has any takes no more appends.
	Parents, Children []ident.RangeID
}

// SegmentDescription is a segment as an operator sees it.
type SegmentDescription struct {
	ID         ident.SegmentID
	Epoch      ident.Epoch
	Start, End ident.Offset
	Sealed     bool
	Bytes      uint64
}

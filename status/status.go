// Package status is the one table of outcomes: every refusal that a client,
// a log line or a command prints has a code from here, a sentence that says
// what happened, and what to do about it. All doors (native, HTTP, RESP,
// command line) speak it.
package status

import (
	"errors"
	"fmt"
)

// Code names an outcome. Codes are stable: scripts and clients rely on them.
type Code string

// The codes. Each has its row in Table.
const (
	Internal          Code = "internal"
	Unavailable       Code = "unavailable"
	Overloaded        Code = "overloaded"
	Timeout           Code = "timeout"
	Canceled          Code = "canceled"
	Unknown           Code = "unknown_outcome"
	InvalidArgument   Code = "invalid_argument"
	InvalidName       Code = "invalid_name"
	TopicNotFound     Code = "topic_not_found"
	TopicExists       Code = "topic_exists"
	WrongTopicType    Code = "wrong_topic_type"
	CursorInvalid     Code = "cursor_invalid"
	CursorTopicGone   Code = "cursor_topic_gone"
	RecordTooLarge    Code = "record_too_large"
	BatchTooLarge     Code = "batch_too_large"
	BatchCorrupt      Code = "batch_corrupt"
	NotAtomic         Code = "not_atomic"
	RangeMoved        Code = "range_moved"
	DiskFull          Code = "disk_full"
	StoreFailed       Code = "store_failed"
	DataCorrupt       Code = "data_corrupt"
	DataLocked        Code = "data_locked"
	DataNewer         Code = "data_newer"
	DataReadOnly      Code = "data_read_only"
	SlowConsumer      Code = "slow_consumer"
	LimitReached      Code = "limit_reached"
	ConditionFailed   Code = "condition_failed"
	ProducerFenced    Code = "producer_fenced"
	PartialDuplicate  Code = "partial_duplicate"
	OutOfOrder        Code = "out_of_order"
	WindowFull        Code = "window_full"
	ProtocolViolation Code = "protocol_violation"
	FrameTooLarge     Code = "frame_too_large"
	VersionMismatch   Code = "version_unsupported"
	NotSupported      Code = "not_supported"
	InsecureListen    Code = "insecure_listen"
	UsageError        Code = "usage"
)

// Outcome says what became of a request that ended with an error.
type Outcome uint8

// The outcomes.
const (
	// No: the request had no effect.
	No Outcome = iota
	// Maybe: the outcome is unknown; the request may have had its effect.
	Maybe
)

// Row is what the table says of a code.
type Row struct {
	Code Code
	// Retryable: the same request may succeed later.
	Retryable bool
	// Outcome of a request that ends with this code.
	Outcome Outcome
	// Exit is the exit status of the command line: 1 failed, 2 wrong usage,
	// 3 not found, 4 refused by a condition, 5 unavailable.
	Exit int
	// What happened, as a sentence without its full stop.
	What string
	// Do is what to do about it, as a sentence without its full stop.
	Do string
}

// Table has one row a code, in the order in which documents list them.
func Table() []Row { return table }

var table = []Row{
	{Internal, false, Maybe, 1, "the broker met an error of its own", "report it with the broker's log; a write may or may not have been applied"},
	{Unavailable, true, No, 5, "no broker answered", "check the address and that the broker runs, then try again"},
	{Overloaded, true, No, 5, "the broker has as much work waiting as it may hold", "slow down and try again"},
	{Timeout, true, Maybe, 1, "no answer came in time", "try again; a write may have been applied"},
	{Canceled, false, Maybe, 1, "the caller gave up", "nothing, if that was meant; a write may have been applied"},
	{Unknown, true, Maybe, 1, "the connection broke before the answer", "read back, or retry and accept that the write may be there twice"},
	{InvalidArgument, false, No, 2, "the request is not well formed", "correct what the message names"},
	{InvalidName, false, No, 2, "the name is not allowed", "use 1 to 249 of a-z A-Z 0-9 . _ - that are not . or .. and do not begin with _quire"},
	{TopicNotFound, false, No, 3, "there is no such topic", "create it, or look for the right name with `quire topic list`"},
	{TopicExists, false, No, 4, "a topic of this name exists", "choose another name, or use the one that is there"},
	{WrongTopicType, false, No, 1, "the topic is of another type", "use a topic of the type that the operation needs"},
	{CursorInvalid, false, No, 1, "the cursor is not one that this topic issued", "use the cursor exactly as it was printed, on the topic that issued it, or begin at start, end or a time"},
	{CursorTopicGone, false, No, 1, "the topic that issued the cursor was deleted", "begin the topic that has the name now at start"},
	{RecordTooLarge, false, No, 1, "a record is over its limit", "make the record smaller, or raise the topic's max-value-bytes"},
	{BatchTooLarge, false, No, 1, "the batch is over its limit", "send fewer records at once"},
	{BatchCorrupt, false, No, 1, "the batch is damaged or malformed", "encode it again; if it repeats, look for a fault on the way"},
	{NotAtomic, false, No, 1, "these records cannot be written all or none", "write records of one key per request"},
	{RangeMoved, true, No, 1, "the keys have moved", "look the topic up again and retry"},
	{DiskFull, true, No, 5, "the disk has no space left for appends; reads go on", "free space, or lower retention; writes resume by themselves"},
	{StoreFailed, false, Maybe, 5, "the disk failed a write or a sync, and the store stopped for ever", "check the disk, then restart the broker: it recovers what was acknowledged"},
	{DataCorrupt, false, No, 1, "stored bytes are damaged", "stop the broker and run `quire doctor` on its data directory"},
	{DataLocked, false, No, 5, "the data directory is in use by another process", "stop that process, or use another directory"},
	{DataNewer, false, No, 1, "the data directory was written by a newer version", "use that version or a later one; nothing was changed"},
	{DataReadOnly, false, No, 1, "the data directory cannot be written", "give the broker write access, or use another directory"},
	{SlowConsumer, true, No, 1, "the subscriber was too slow and asked to be disconnected then", "subscribe again from the last cursor"},
	{LimitReached, true, No, 5, "a limit is reached", "wait, close what is not needed, or raise the limit that the message names"},
	{ConditionFailed, false, No, 4, "the condition does not hold", "read the present state and decide again"},
	{ProducerFenced, false, No, 4, "a newer session of this producer has taken over", "stop this one; if it is the one that is meant, begin a new session"},
	{PartialDuplicate, false, No, 1, "some of the records were appended before", "send again only those that were not"},
	{OutOfOrder, true, No, 1, "an earlier record of this producer has not arrived", "send that one first, or say that it is settled, and retry"},
	{WindowFull, true, No, 1, "the producer has too many records beyond those that it has settled", "wait for answers before sending more, or send fewer records at once"},
	{ProtocolViolation, false, No, 1, "the peer does not speak this protocol", "check that the address is Quire's native port"},
	{FrameTooLarge, false, No, 1, "a frame is over its limit", "send less at once"},
	{VersionMismatch, false, No, 1, "the versions of client and broker do not fit", "bring both to versions that overlap"},
	{NotSupported, false, No, 1, "this version cannot do that", "see docs/roadmap.md for when it will"},
	{InsecureListen, false, No, 2, "a listener that is not on loopback needs TLS and authentication", "listen on 127.0.0.1, or say --insecure if the network is trusted"},
	{UsageError, false, No, 2, "the command is not well formed", "see --help"},
}

// Lookup finds the row of a code. An unknown code has the row of Internal
// under its own name.
func Lookup(c Code) Row {
	for _, r := range table {
		if r.Code == c {
			return r
		}
	}
	r := table[0]
	r.Code = c
	return r
}

// Error is the typed error that every door returns.
type Error struct {
	Code Code
	// Message says what happened in this case, with the names and numbers.
	Message string
	// Err is the cause, if one is known on this side of the wire.
	Err error
}

// New makes an error of a code with a formatted message. A %w verb keeps its
// cause.
func New(c Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: c, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Error gives the message and the code.
func (e *Error) Error() string { return e.Message + " (" + string(e.Code) + ")" }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches errors of the same code, so that errors.Is(err,
// &status.Error{Code: status.TopicNotFound}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Retryable says whether the same request may succeed later.
func (e *Error) Retryable() bool { return Lookup(e.Code).Retryable }

// Hint says what to do, as a sentence without its full stop.
func (e *Error) Hint() string { return Lookup(e.Code).Do }

// CodeOf is the code of the first Error in err's chain, Internal for another
// error, and empty for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

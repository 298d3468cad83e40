package catalog

import (
	"errors"

	"github.com/quirelog/quire/internal/ident"
)

// ErrConflict: the state is not what the command's proposer read, so that the
// command is refused and has changed nothing. It is wrapped with what differs.
// The proposer reads the state and decides again.
var ErrConflict = errors.New("the catalog has changed")

// ErrMalformed: the command contradicts itself or the rules, whatever the
// state. It is a fault of its proposer.
var ErrMalformed = errors.New("malformed catalog command")

// Command is one change of a State: one of the types of this file, by value.
// They are plain data, and each compares what its proposer read. A command that
// has been applied and comes again is recognized, each by its own token: it
// changes nothing, and its Result says Repeated, or it is a conflict when the
// state has moved on since.
type Command interface {
	// apply checks everything before it changes anything.
	apply(s *State) (Result, error)
}

// Result is what a command did.
type Result struct {
	// Repeated: the command had been applied before and changed nothing now.
	Repeated bool
	// Topic is the topic after the command, nil when that deleted it.
	Topic *Topic
	// Opened is the segment that a CreateTopic, Grant or Roll opened; of a
	// repeated CreateTopic or Grant, the one that is open now in its first
	// range or its range.
	Opened OpenSegment
	// Retired are the segments that the command retired.
	Retired []Retired
}

// CreateTopic creates a topic with one range over the whole keyspace, granted
// to Owner in epoch 1, and its first segment. Its token is ID: one incarnation
// is created once.
type CreateTopic struct {
	ID       ident.TopicID
	Name     Name
	Type     TopicType
	Settings Settings
	Created  ident.Timestamp
	Owner    Owner
	// Deletions is State.Deletions when the proposer saw that the name was
	// free. A command from before the memory of deleted topics begins is a
	// conflict: its topic may have been created and deleted since.
	Deletions uint64
}

// AlterTopic gives a topic other settings, all of them. It compares Version.
// Its token is Token, drawn at random by the proposer.
type AlterTopic struct {
	Topic    ident.TopicID
	Version  uint64
	Token    ident.Incarnation
	Settings Settings
}

// DeleteTopic deletes one incarnation of a topic, which is its token, and
// retires its segments.
type DeleteTopic struct {
	Topic   ident.TopicID
	Deleted ident.Timestamp
}

// Grant gives a range to a new owner under the next epoch. It compares Epoch,
// Version and Open, which the proposer read, seals the open segment and opens
// the next one. An open segment without records (its EmptySeal) is replaced
// under a new id instead, and retired. Its token is (Epoch, Owner): of the
// grants that follow an epoch one is applied.
type Grant struct {
	Topic   ident.TopicID
	Range   ident.RangeID
	Epoch   ident.Epoch
	Version uint64
	Open    ident.SegmentID
	Seal    Seal
	Owner   Owner
}

// Roll seals the open segment and opens the next one under the same grant. It
// compares Epoch, Version and Open, which is its token: a segment is sealed
// once. A segment without records is not rolled (R5).
type Roll struct {
	Topic   ident.TopicID
	Range   ident.RangeID
	Epoch   ident.Epoch
	Version uint64
	Open    ident.SegmentID
	Seal    Seal
}

// Ending seals a range for ever. It compares Epoch, Version and Open, and seals
// the open segment; one without records (its EmptySeal) is retired instead.
type Ending struct {
	Range   ident.RangeID
	Epoch   ident.Epoch
	Version uint64
	Open    ident.SegmentID
	Seal    Seal
}

// Split ends a range and has two others, under the same owner and the next
// epoch, continue it: one below the position At and one from At on. Its token
// is the Ending: a range ends once.
type Split struct {
	Topic  ident.TopicID
	Ending Ending
	At     ident.Position
}

// Merge ends two neighbours under one owner and has one range, under the epoch
// after the higher of theirs, continue both. Its token is the two Endings.
type Merge struct {
	Topic       ident.TopicID
	Left, Right Ending
}

// OpenSession gives out the next session of a topic's producers: the Sessions of
// the topic after it. It compares Sessions, which is its token: a session is
// given out once.
type OpenSession struct {
	Topic    ident.TopicID
	Sessions uint64
}

// Trim retires the sealed segments of a range up to Through, and Through. It
// compares TopicVersion, since the settings decide what may go: a trim that
// was decided under shorter retention is refused. It is its own token.
type Trim struct {
	Topic        ident.TopicID
	TopicVersion uint64
	Range        ident.RangeID
	Through      ident.SegmentID
}

// ConfirmRetired says that stores have deleted retired segments, so that they
// can be forgotten. It is its own token: those that have been forgotten are
// passed over. A segment that a topic still has cannot have been deleted, and
// a command that says so is a conflict.
type ConfirmRetired struct {
	// Retired are at most MaxConfirm, as RetiredOn gave them.
	Retired []Retired
}

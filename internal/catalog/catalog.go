// Package catalog is what the cluster knows about its topics: names, settings,
// ranges, segments and who may write them. It is a pure, deterministic state
// machine: the same commands in the same order give the same State, byte for
// byte, on every node. It has no clock, no randomness, no goroutine and no
// file; times and random identities come inside the commands.
//
// A State is changed only by Apply. Every Command is a compare-and-set on what
// its proposer read, so that one which comes late or twice does no harm (C2,
// I18), and a command that is refused changes nothing. Nothing is ever deleted
// by absence (I17): a segment that goes leaves a Retired entry until the store
// that holds it confirms that the file is gone (D7).
//
// A State belongs to one goroutine, or to a lock of its caller. The values that
// it hands out (Topic, Range and what they hold) are immutable: a change makes
// a new Topic and leaves the old one as it was, so readers keep pointers for as
// long as they like without a lock.
//
// FORMAT.md has the bytes of commands and snapshots.
package catalog

// Limits of one State.
const (
	// MaxTopics bounds the topics.
	MaxTopics = 100_000
	// MaxTombstones bounds the deleted topics that are remembered, the oldest
	// are forgotten first.
	MaxTombstones = 10_000
	// MaxRetired bounds the segments that wait for their store to confirm the
	// deletion. At the limit, commands that would retire more are refused.
	MaxRetired = 1 << 20
	// MaxSegments bounds the sealed segments of a range. At the limit a range
	// is not rolled any more and its open segment grows.
	MaxSegments = 65_536
	// grantReserve is how many more segments grants may seal, so that a range
	// at its limit still survives restarts.
	grantReserve = 8_192
	// MaxRanges bounds the ranges of a topic that take appends, whatever its
	// setting.
	MaxRanges = 65_536
	// MaxStubs is how many sealed ranges of a topic are remembered when their
	// records are gone.
	MaxStubs = 4_096
	// MaxConfirm bounds the segments that one ConfirmRetired names.
	MaxConfirm = 1_000
)

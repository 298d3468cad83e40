// Package quorum replicates one range: a Range is the part that one store has in
// it. It is pure. Inputs are method calls that carry now, the output is Ready; it
// has no goroutine, clock, file or socket, and the same inputs in the same order
// give the same output.
//
// Every Range is a follower of whoever is the primary: it keeps the copies of the
// segments that this store holds, promises and answers. One of them, with a grant
// of the catalog, is the primary as well, and its own store is a follower like
// the others, reached without the network. A driver owns the disk, the sockets
// and the catalog. It does what Ready says: it performs Ready.Writes in their
// order and answers each with Stored, sends Ready.Messages, reads Ready.Loads and
// answers with Loaded, carries Ready.Proposal to the catalog and answers with
// Outcome, and answers Ready.Look, by a linearizable read, with Looked.
//
// What always holds (the names are those of the design's rules and invariants):
// a result says Committed when a majority of all slots of the segment has the
// batch on stable storage and never before (I1, I13, R3); between the proposal of
// a seal and the knowledge of its outcome nothing is appended, committed or read
// under the lease (R4); a promise and all that was accepted before it are durable
// before a fence is answered (R6); a new primary appends nothing before the seal
// of what it recovered is known to be committed (R7).
//
// A Range and the Leases that it shares with the other ranges of its process
// belong to one goroutine, or to a lock of their caller.
package quorum

import (
	"fmt"
	"time"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// Instant is a reading of a process's own clock. It never runs back, goes on
// while the machine is suspended, and means nothing to another process.
type Instant int64

// Add is the instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Config is what a Range is made of. A zero number means its default.
type Config struct {
	Range ident.RangeID
	// Self is this store and this process.
	Self catalog.Owner
	// Leases are those of the process; nil is a range without any.
	Leases *Leases

	// Heartbeat is after how long without an append the followers are told the
	// commit offset. Default 50 ms.
	Heartbeat time.Duration
	// Retry is after how long without an answer something is asked again.
	// Default 200 ms.
	Retry time.Duration

	// MaxUncommittedBytes bounds the batches that are appended and not committed:
	// beyond them Append is refused. Default 32 MiB.
	MaxUncommittedBytes int
	// MaxInflightBytes bounds what is sent to one store and not answered. A
	// message that has been begun is sent whole. Default 8 MiB.
	MaxInflightBytes int
	// MaxRetainedBytes bounds the committed batches that are kept in memory for
	// slower stores; what is older is read from the disk. Default 8 MiB.
	MaxRetainedBytes int
	// MaxMessageBytes is about how large a message becomes; one batch may exceed
	// it by itself. Default 1 MiB.
	MaxMessageBytes int
	// MaxWriteBytes bounds what this store has accepted and not made durable:
	// beyond it appends of others are dropped, and sent again. Default 32 MiB.
	MaxWriteBytes int
	// MaxCopies bounds the segments that a store has and that are not sealed
	// here. Default 64.
	MaxCopies int
	// MaxFinishing bounds the sealed segments that are still brought to slower
	// stores. The oldest over it is left to healing. Default 4.
	MaxFinishing int
	// MaxLoads bounds the reads of the disk on their way for other stores.
	// Default 16.
	MaxLoads int
	// MaxReads bounds the reads that wait for a quorum. Default 1024.
	MaxReads int

	// broken is a rule that is not kept: only the tests of this package set it,
	// to see that the simulation notices.
	broken rule
}

func (c *Config) fill() error {
	for _, d := range []struct {
		name  string
		value *int
		std   int
	}{
		{"uncommitted bytes", &c.MaxUncommittedBytes, 32 << 20},
		{"bytes in flight", &c.MaxInflightBytes, 8 << 20},
		{"retained bytes", &c.MaxRetainedBytes, 8 << 20},
		{"message bytes", &c.MaxMessageBytes, 1 << 20},
		{"write bytes", &c.MaxWriteBytes, 32 << 20},
		{"copies", &c.MaxCopies, 64},
		{"finishing segments", &c.MaxFinishing, 4},
		{"loads", &c.MaxLoads, 16},
		{"reads", &c.MaxReads, 1024},
	} {
		if *d.value == 0 {
			*d.value = d.std
		}
		if *d.value < 0 {
			return fmt.Errorf("quorum: %s are %d, at least 1", d.name, *d.value)
		}
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 50 * time.Millisecond
	}
	if c.Retry == 0 {
		c.Retry = 200 * time.Millisecond
	}
	switch {
	case c.Heartbeat < 0 || c.Retry < c.Heartbeat:
		return fmt.Errorf("quorum: a retry after %v and a heartbeat after %v", c.Retry, c.Heartbeat)
	case c.Range == 0 || c.Self.Store.IsZero() || c.Self.Process.IsZero():
		return fmt.Errorf("quorum: a range needs its id, its store and its process")
	}
	return nil
}

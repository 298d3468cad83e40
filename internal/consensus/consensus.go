// Package consensus hosts many Raft groups of one store around the RawNode of
// go.etcd.io/raft. It is pure: inputs are method calls, the output is Ready. It
// has no goroutine, clock, file or socket. Time enters as Tick, randomness as
// Config.Random, and the same inputs in the same order give the same output,
// whatever the order of a map.
//
// A driver owns the disk, the sockets and the state machines. It feeds messages
// and ticks, calls Ready, and does what Ready says in this order: it persists
// Ready.Persist with one sync for all groups and then calls Stored; it sends
// Ready.Messages at once, because the messages that promise something are only
// handed out after Stored; it installs the snapshots of Ready.Persist and then
// applies Ready.Committed, and calls Applied.
//
// What always holds: a vote or an acknowledgement of entries leaves only after
// Stored has said that it is durable; committed entries are handed out once a
// life, in order and without holes, and only when they are durable here; each
// proposal that was accepted gets exactly one Outcome.
//
// The log of each group is kept in memory from its last Compact on, as far as
// it is durable. The copy on disk belongs to the driver, and the host never
// reads it but through Restore.
//
// Randomness is injected (C5). etcd's raft draws its election timeout from a
// source that nothing can seed, but reads it only in its own tick of a follower
// or candidate. The host never calls that tick: it counts the ticks of an
// election itself, draws the timeout from Config.Random and campaigns by
// message. A leader's tick has no randomness and is raft's own.
//
// A Host belongs to one goroutine, or to a lock of its caller.
package consensus

import (
	"fmt"

	"github.com/quirelog/quire/internal/ident"
)

// GroupID names a Raft group for ever. Zero is no group.
type GroupID uint64

func (g GroupID) String() string { return fmt.Sprintf("g%d", uint64(g)) }

// PeerID is the identity of a member within its group, the id that raft speaks
// of. One PeerID is one store, for ever (C1). A store that leaves a group and
// comes back is given another, since what it once acknowledged is forgotten.
// Zero is no peer.
type PeerID uint64

// Token makes a proposal idempotent (C2). The proposer draws it; the state
// machine sees it beside the data and refuses what it has applied before.
type Token [16]byte

// Random is the source of all randomness of a Host, such as a *rand.PCG of
// math/rand/v2 with a seed of the driver.
type Random interface{ Uint64() uint64 }

// Config is what a Host is made of. A zero number means its default.
type Config struct {
	// Store is the identity of this host. Required.
	Store ident.StoreID
	// Random is required. Its first draws make the contexts of this host's reads
	// unique, so two lives of a store must not have the same seed.
	Random Random

	// HeartbeatTicks are between two heartbeats of a leader. Default 1.
	HeartbeatTicks int
	// ElectionTicks without a leader are the least before a campaign; the most
	// are twice as many. A read that has no answer fails after twice as many as
	// well. Default 10, more than HeartbeatTicks.
	ElectionTicks int

	// MaxGroups bounds the groups. Default 16384.
	MaxGroups int
	// MaxMembers bounds the voters and learners of a group. Default 16.
	MaxMembers int
	// MaxProposalBytes bounds the data of one proposal. Default 1 MiB.
	MaxProposalBytes int
	// MaxInflight bounds the proposals of a group that have no outcome yet.
	// Default 1024.
	MaxInflight int
	// MaxInflightBytes bounds their data. Default 8 MiB.
	MaxInflightBytes int
	// MaxReads bounds the reads of a group that have no answer yet. Default 4096.
	MaxReads int
	// MaxLogBytes bounds the log of a group in memory: beyond it the group takes
	// no proposal until Compact. Default 64 MiB.
	MaxLogBytes int
	// MaxMessageBytes is about how large a Message becomes before another one is
	// begun. One entry or chunk may exceed it by itself. Default 4 MiB.
	MaxMessageBytes int
	// MaxChunkBytes bounds the data of a Chunk. Default 256 KiB.
	MaxChunkBytes int
	// MaxSnapshotBytes bounds a snapshot, which is held in memory while it is on
	// its way. Default 256 MiB.
	MaxSnapshotBytes int
	// MaxTransfers bounds the snapshots that are on their way from this host.
	// What is over it is tried again later. Default 8.
	MaxTransfers int
}

func (c *Config) fill() error {
	for _, d := range []struct {
		name  string
		value *int
		std   int
	}{
		{"heartbeat ticks", &c.HeartbeatTicks, 1},
		{"election ticks", &c.ElectionTicks, 10},
		{"groups", &c.MaxGroups, 16384},
		{"members", &c.MaxMembers, 16},
		{"proposal bytes", &c.MaxProposalBytes, 1 << 20},
		{"proposals in flight", &c.MaxInflight, 1024},
		{"proposal bytes in flight", &c.MaxInflightBytes, 8 << 20},
		{"reads", &c.MaxReads, 4096},
		{"log bytes", &c.MaxLogBytes, 64 << 20},
		{"message bytes", &c.MaxMessageBytes, 4 << 20},
		{"chunk bytes", &c.MaxChunkBytes, 256 << 10},
		{"snapshot bytes", &c.MaxSnapshotBytes, 256 << 20},
		{"transfers", &c.MaxTransfers, 8},
	} {
		if *d.value == 0 {
			*d.value = d.std
		}
		if *d.value < 0 {
			return fmt.Errorf("consensus: %s is %d, at least 1", d.name, *d.value)
		}
	}
	if c.Store.IsZero() || c.Random == nil {
		return fmt.Errorf("consensus: a host needs a store and a random source")
	}
	if c.ElectionTicks <= c.HeartbeatTicks {
		return fmt.Errorf("consensus: %d election ticks, more than the %d heartbeat ticks", c.ElectionTicks, c.HeartbeatTicks)
	}
	const slack = 1 << 20 // heads, members and contexts
	if n := c.MaxMessageBytes + max(c.MaxProposalBytes, c.MaxChunkBytes) + slack; n > MaxFrame {
		return fmt.Errorf("consensus: a message could have %d bytes, and a frame holds %d", n, MaxFrame)
	}
	return nil
}

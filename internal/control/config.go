package control

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// Config says what a Driver drives.
type Config struct {
	// Clock gives the append times of the log's records. Required.
	Clock func() time.Time
	// Machine makes the state machine of a group. Required.
	Machine func(consensus.GroupID) Machine
	// Groups are founded, with Voters as their members, when the store has no log
	// yet. Without Voters nothing is: the store waits to be added to groups.
	Groups []consensus.GroupID
	Voters []ident.StoreID
	// Admit says whether the store becomes the member of a group that another
	// store takes it for. Nil is never.
	Admit func(consensus.Stranger) bool
	// Transport carries frames to other stores. Nil drops them.
	Transport Transport
	// Tick is the time between two ticks of the groups. Default 100 ms.
	Tick time.Duration
	// RollBytes is how much is written to a log before the next one is begun; a
	// log grows at least to the size of the snapshots that it began with. Default
	// 16 MiB.
	RollBytes int64
	// KeepBytes is how much of a group's log stays in memory for members that are a
	// little behind; at twice as much it is cut, and who needs what is gone gets a
	// snapshot. Default 128 KiB.
	KeepBytes int
	// Host has the limits and the times of the groups. Its Store is filled in, and
	// its Random if there is none. A proposal has at most 4 MiB, so that the log
	// can hold it.
	Host consensus.Config
	// Log gets the story. Default: dropped.
	Log *slog.Logger

	// adopt reads a log of before Raft into the machines of the groups that are
	// founded.
	adopt func(*segment.Store, segment.Info) error
}

// maxProposalBytes is what the record of one entry has room for.
const maxProposalBytes = 4 << 20

func (c *Config) fill(store *segment.Store) error {
	if c.Host.MaxProposalBytes > maxProposalBytes {
		return fmt.Errorf("control: proposals of %d bytes, at most %d", c.Host.MaxProposalBytes, maxProposalBytes)
	}
	if c.Tick == 0 {
		c.Tick = 100 * time.Millisecond
	}
	if c.RollBytes == 0 {
		c.RollBytes = 16 << 20
	}
	if c.KeepBytes == 0 {
		c.KeepBytes = 128 << 10
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Host.Store = store.Identity()
	if c.Host.Random == nil {
		seed := ident.NewIncarnation()
		c.Host.Random = rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:]))
	}
	return nil
}

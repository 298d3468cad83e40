package control

import (
	"iter"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/ident"
)

// Machine is the state machine of a group. It is deterministic: the same
// commands in the same order give the same state on every member. The driver
// calls it from one goroutine.
type Machine interface {
	// Apply carries out a command and gives the answer for the one who proposed
	// it, a refusal included. It keeps nothing of command. An error means that this
	// program cannot apply what is committed, and stops the driver.
	Apply(command []byte) (answer any, err error)
	// Snapshot gives the state as it is at the call. It may be walked later, and
	// by another goroutine, while commands are applied. A chunk belongs to whoever
	// receives it.
	Snapshot() iter.Seq[[]byte]
	// Restore replaces the state by that of the chunks, which it keeps nothing of.
	// After an error the state is what it was.
	Restore(chunks iter.Seq[[]byte]) error
}

// Transport carries frames to other stores. A frame may be lost, repeated and
// overtaken, but not changed.
type Transport interface {
	// Send hands a frame over and does not wait. The frame is the transport's.
	Send(to ident.StoreID, frame []byte)
}

// Root is the group that is there first: it holds the catalog.
const Root consensus.GroupID = 1

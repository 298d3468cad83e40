// Package control drives the Raft groups of a store, and the catalog on them: a
// command is made durable on a majority of a group's members and applied on all of
// them. A store that is alone is a majority by itself.
//
// A Driver runs the host of internal/consensus with the disk, the state machines
// and the ticks. The logs of all groups are one segment of the store, written
// through its journal: what one Ready wants to be durable rides on the commit
// round of the users' records. FORMAT.md draws the log. A Control is the catalog
// on a Driver.
//
// What always holds: what a member promises to another leaves only after it is
// durable here; a command is answered only after it is committed and applied; a
// command whose token was applied before is refused (C2); a log is deleted only
// after the next one durably has all that it had.
//
// The package may be called from internal/node and internal/bench. A Control and a
// Driver are safe for concurrent use.
package control

import (
	"fmt"
	"iter"
	"sync"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// Control is the catalog of a store.
type Control struct {
	driver  *Driver
	machine *machine
}

// Open loads the catalog from its log in the store, or begins an empty one with the
// voters of the configuration. The groups and machines are those of the catalog.
func Open(store *segment.Store, cfg Config) (*Control, error) {
	m := &machine{state: catalog.New()}
	cfg.Groups, cfg.adopt = []consensus.GroupID{Root}, m.adopt
	cfg.Machine = func(consensus.GroupID) Machine { return m }
	d, err := OpenDriver(store, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the catalog: %w", err)
	}
	return &Control{driver: d, machine: m}, nil
}

// Driver is what the catalog stands on: it takes the frames of other stores and
// changes the members.
func (c *Control) Driver() *Driver { return c.driver }

// View calls f with the state as of the commands that are applied here. f must not
// keep the state; topics and ranges in it are immutable and may be kept.
func (c *Control) View(f func(*catalog.State)) {
	c.machine.mu.RLock()
	defer c.machine.mu.RUnlock()
	f(c.machine.state)
}

// Propose makes a command durable and applies it. After an error of the codes
// store_failed and unknown_outcome it is unknown whether it will be applied; after
// any other it changed nothing.
func (c *Control) Propose(cmd catalog.Command) (catalog.Result, error) {
	b, err := catalog.MarshalCommand(cmd)
	if err != nil {
		return catalog.Result{}, err
	}
	answer, err := c.driver.Propose(Root, consensus.Token(ident.NewIncarnation()), b)
	if err != nil {
		return catalog.Result{}, err
	}
	a := answer.(applied)
	return a.result, a.err
}

// Err is why the catalog takes no commands any more; nil while it does.
func (c *Control) Err() error { return c.driver.Err() }

// Close ends the log. It does not close the store.
func (c *Control) Close() { c.driver.Close() }

// machine is the catalog as the state machine of a group.
type machine struct {
	mu    sync.RWMutex
	state *catalog.State
}

// applied is what the catalog answered.
type applied struct {
	result catalog.Result
	err    error
}

// Apply is of Machine.
func (m *machine) Apply(command []byte) (any, error) {
	cmd, err := catalog.UnmarshalCommand(command)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	res, err := m.state.Apply(cmd)
	return applied{res, err}, nil
}

// Snapshot is of Machine.
func (m *machine) Snapshot() iter.Seq[[]byte] { return m.state.Snapshot() }

// Restore is of Machine.
func (m *machine) Restore(chunks iter.Seq[[]byte]) error {
	l := catalog.NewLoader()
	for c := range chunks {
		if err := l.Add(c); err != nil {
			return err
		}
	}
	state, err := l.State()
	if err != nil {
		return err
	}
	m.set(state)
	return nil
}

func (m *machine) set(s *catalog.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
}

// adopt takes the state of a log of before Raft.
func (m *machine) adopt(store *segment.Store, info segment.Info) error {
	s, err := loadBeforeRaft(store, info)
	if err == nil {
		m.set(s)
	}
	return err
}

var _ Machine = (*machine)(nil)

var errClosed = status.New(status.Unavailable, "the catalog is closed")

// Package control drives the catalog: it makes commands durable in a log, then
// applies them. In a broker of one node the log is a segment of the node's own
// store; each opening of a store begins a new one with a snapshot. A command
// is applied only once it is durable, so that no answer rests on one that a
// crash undoes.
//
// The package may be called from internal/node. A Control is safe for
// concurrent use.
package control

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// Control is the catalog of a store with its log.
type Control struct {
	store *segment.Store
	clock func() time.Time

	// logMu orders the commands: it is held while one is handed to the log.
	logMu sync.Mutex
	// log takes the commands; nil when the last one ended and the next could
	// not be begun yet.
	log *segment.Segment
	// commands counts the bytes of commands since the log's snapshot.
	commands int64
	closed   bool

	stateMu sync.RWMutex
	state   *catalog.State
}

// rollBytes is how many bytes of commands a log takes before the next one is
// begun with a snapshot.
const rollBytes = 16 << 20

// Open loads the catalog from its log in the store, or begins an empty one,
// and begins the next log. The clock gives the append times of commands.
func Open(store *segment.Store, clock func() time.Time) (*Control, error) {
	c := &Control{store: store, clock: clock}
	logs := logSegments(store)
	var last segment.Info
	for len(logs) > 0 && c.state == nil {
		last = logs[len(logs)-1]
		state, err := load(store, last)
		switch {
		case err == nil:
			c.state = state
		case errors.Is(err, errUnfinished) && len(logs) > 1:
			// The process ended while it began this log; the one before it
			// has all.
			logs = logs[:len(logs)-1]
		default:
			return nil, fmt.Errorf("load the catalog: %w", err)
		}
	}
	if c.state == nil {
		c.state = catalog.New()
	}
	c.logMu.Lock()
	defer c.logMu.Unlock()
	if err := c.begin(); err != nil {
		return nil, fmt.Errorf("begin the catalog's log: %w", err)
	}
	return c, nil
}

// View calls f with the state as of the commands that are durable. f must not
// keep the state; topics and ranges in it are immutable and may be kept.
func (c *Control) View(f func(*catalog.State)) {
	c.stateMu.RLock()
	defer c.stateMu.RUnlock()
	f(c.state)
}

// Propose makes a command durable and applies it. An error of the catalog
// means that the command changed nothing; an error of the log with the code
// disk_full means so too, and with store_failed that the outcome is unknown.
func (c *Control) Propose(cmd catalog.Command) (catalog.Result, error) {
	b, err := catalog.MarshalCommand(cmd)
	if err != nil {
		return catalog.Result{}, err
	}
	type outcome struct {
		res catalog.Result
		err error
	}
	ch := make(chan outcome, 1)
	err = c.append(entryCommand, b, func(err error) {
		var o outcome
		if o.err = err; err == nil {
			c.stateMu.Lock()
			o.res, o.err = c.state.Apply(cmd)
			c.stateMu.Unlock()
		}
		ch <- o
	})
	if err != nil {
		return catalog.Result{}, err
	}
	o := <-ch
	c.rollIfLarge()
	return o.res, o.err
}

// append hands one entry to the log. done is called in the order of the calls.
func (c *Control) append(kind byte, b []byte, done func(error)) error {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	if c.closed {
		return status.New(status.Unavailable, "the catalog is closed")
	}
	if c.log == nil {
		if err := c.begin(); err != nil {
			return err
		}
	}
	c.commands += int64(len(b))
	return appendTo(c.log, c.clock(), kind, b, done)
}

// appendTo stamps one entry as a control batch behind the log's tail.
func appendTo(log *segment.Segment, now time.Time, kind byte, b []byte, done func(error)) error {
	builder := batch.NewBuilder(batch.Options{Kind: batch.Control})
	at := ident.TimestampOf(now)
	if err := builder.Add(&batch.Record{Value: append([]byte{kind}, b...), Time: at}); err != nil {
		return fmt.Errorf("encode a catalog entry: %w", err)
	}
	encoded := builder.Finish()
	for {
		tail := log.Tail()
		batch.Stamp{
			Epoch: log.Info().Epoch, Base: tail.Base, UserBefore: tail.UserBefore, Chain: tail.Chain,
			AppendTime: max(at, tail.LastTime),
		}.Apply(encoded)
		err := log.Append(encoded, done)
		if errors.Is(err, segment.ErrNotAtTail) {
			continue // a full disk moved the tail back between the two calls
		}
		return err
	}
}

// rollIfLarge begins a new log when the present one has grown. A failure leaves
// that to the next command.
func (c *Control) rollIfLarge() {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	if c.commands >= rollBytes && !c.closed {
		_ = c.begin()
	}
}

// begin ends the log, writes a snapshot into a new one, and deletes those
// before it. The caller holds logMu: commands wait meanwhile.
func (c *Control) begin() error {
	if err := c.settle(); err != nil {
		return err
	}
	c.log = nil
	old := logSegments(c.store)
	n := uint64(1)
	if len(old) > 0 {
		n = uint64(old[len(old)-1].ID&^logBit) + 1
	}
	log, err := c.store.Create(segment.Meta{ID: logBit | ident.SegmentID(n), Epoch: ident.Epoch(n), Critical: true})
	if err != nil {
		return err
	}
	if err := c.writeSnapshot(log); err != nil {
		return errors.Join(err, c.store.Delete(log.Info().ID))
	}
	c.log, c.commands = log, 0
	ids := make([]ident.SegmentID, len(old))
	for i := range old {
		ids[i] = old[i].ID
	}
	return c.store.Delete(ids...)
}

// settle waits until what was handed to the log is applied.
func (c *Control) settle() error {
	if c.log == nil {
		return nil
	}
	_, err := c.log.Seal()
	return err
}

// writeSnapshot writes the state into an empty log and waits until it is
// durable.
func (c *Control) writeSnapshot(log *segment.Segment) error {
	c.stateMu.RLock()
	defer c.stateMu.RUnlock()
	var chunks [][]byte
	for chunk := range c.state.Snapshot() {
		chunks = append(chunks, slices.Clone(chunk))
	}
	results := make(chan error, len(chunks)+1)
	entries := 0
	for _, chunk := range chunks {
		if err := appendTo(log, c.clock(), entrySnapshot, chunk, func(err error) { results <- err }); err != nil {
			return err
		}
		entries++
	}
	var first error
	for range entries {
		if err := <-results; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Close ends the log. It does not close the store.
func (c *Control) Close() {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	c.closed = true
}

package control

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
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

// Driver runs the members of groups that one store has. Its goroutine owns all
// fields but the inbox.
type Driver struct {
	cfg   Config
	store *segment.Store
	inbox inbox

	host     *consensus.Host
	replicas map[consensus.GroupID]*replica
	order    []consensus.GroupID // of replicas, rising

	log *segmentLog
	// outstanding counts the records that are handed in and not answered.
	outstanding int
	// lazy are hard states that nothing waits for: they ride on the next record.
	lazy map[consensus.GroupID]lazyHard
	// waitingBatch is the last batch that has no record and waits for those before
	// it.
	waitingBatch uint64
	// forget are groups whose removal the next record is to say.
	forget []consensus.GroupID
	// refused is why the log did not take a record, from then until the groups
	// have begun anew.
	refused error
	// err is why the driver does nothing more; failed tells it to others.
	err    error
	failed atomic.Pointer[error]

	rolling *roll
	// rollAt is the size of the log at which the next one is begun.
	rollAt int64

	ticker  *time.Ticker
	ticking bool
	opening bool
	opened  chan error
	closing bool
	ended   chan struct{}
	tasks   sync.WaitGroup
}

// OpenDriver reads the log of the store, or founds the groups, and runs them. It
// waits until the groups whose only member this store is have applied all that
// was acknowledged.
func OpenDriver(store *segment.Store, cfg Config) (*Driver, error) {
	if err := cfg.fill(store); err != nil {
		return nil, err
	}
	d := &Driver{
		cfg: cfg, store: store, inbox: newInbox(), replicas: map[consensus.GroupID]*replica{},
		lazy: map[consensus.GroupID]lazyHard{}, opening: true,
		opened: make(chan error, 1), ended: make(chan struct{}),
	}
	var err error
	if d.host, err = consensus.New(cfg.Host); err != nil {
		return nil, err
	}
	if err := d.load(); err != nil {
		return nil, err
	}
	go d.run()
	if err := <-d.opened; err != nil {
		d.Close()
		return nil, fmt.Errorf("begin to lead: %w", err)
	}
	return d, nil
}

// Close ends the driver after what was handed to the disk. Proposals that have no
// outcome then are answered as unknown. It does not close the store. It is
// idempotent.
func (d *Driver) Close() {
	d.inbox.post(func() { d.closing = true })
	<-d.ended
	d.tasks.Wait()
}

// run is the driver's goroutine.
func (d *Driver) run() {
	defer close(d.ended)
	d.ticker = time.NewTicker(d.cfg.Tick)
	defer d.ticker.Stop()
	d.ticking = true
	var spare []func()
	for {
		work := d.inbox.take(spare)
		for _, f := range work {
			f()
		}
		clear(work)
		spare = work
		d.process()
		d.schedule()
		if d.quiet() && d.inbox.close() {
			d.answerAll(errClosed)
			return
		}
		select {
		case <-d.inbox.wake:
		case <-d.ticker.C:
			if d.err == nil {
				d.host.Tick()
			}
		}
	}
}

// quiet says that nothing is to be waited for any more.
func (d *Driver) quiet() bool { return d.closing && d.outstanding == 0 && d.rolling == nil }

// schedule lets time go on only if somebody waits for it: a store that is alone
// in all its groups, and leads them, has nothing to do.
func (d *Driver) schedule() {
	needed := false
	for _, p := range d.replicas {
		needed = needed || !p.alone() || !p.leading
	}
	if d.err != nil {
		needed = false
	}
	switch {
	case needed && !d.ticking:
		d.ticker.Reset(d.cfg.Tick)
	case !needed && d.ticking:
		d.ticker.Stop()
	}
	d.ticking = needed
}

// process does what the host says, until it says nothing more.
func (d *Driver) process() {
	for d.err == nil && d.refused == nil && !d.held() {
		for _, id := range d.order {
			d.pump(d.replicas[id])
		}
		if !d.host.HasReady() {
			break
		}
		r := d.host.Ready()
		d.persist(&r)
		d.send(r.Messages)
		d.deliver(&r)
	}
	d.trim()
	d.mayRoll()
	d.checkOpened()
}

// deliver gives the state machines and the callers what is theirs.
func (d *Driver) deliver(r *consensus.Ready) {
	for _, c := range r.Committed {
		d.apply(c)
	}
	for _, o := range r.Outcomes {
		if p := d.replicas[o.Group]; p != nil {
			p.end(o.Token, outcomeError(o))
		}
	}
	for _, o := range r.Roles {
		if p := d.replicas[o.Group]; p != nil {
			p.leading, p.leader, p.term = o.Leading, o.Store, o.Term
			p.campaigned = p.campaigned && !o.Leading
		}
	}
	for _, id := range r.SnapshotsWanted {
		d.offer(id)
	}
	for _, s := range r.Strangers {
		d.stranger(s)
	}
}

func outcomeError(o consensus.Outcome) error {
	switch o.Result {
	case consensus.Decided:
		return nil
	case consensus.Refused:
		return status.New(status.Unavailable, "%s: the command was not taken", o.Group)
	}
	return errUnknown(o.Group)
}

func errUnknown(id consensus.GroupID) error {
	return status.New(status.Unknown, "%s: the leadership was lost before it was known whether the command is committed", id)
}

// apply carries out committed entries.
func (d *Driver) apply(c consensus.Committed) {
	p := d.replicas[c.Group]
	if p == nil || d.err != nil {
		return
	}
	for _, e := range c.Entries {
		if e.Index <= p.meta.Index {
			continue // a snapshot has it
		}
		if err := p.apply(e); err != nil {
			d.fail(fmt.Errorf("apply entry %d of %s: %w", e.Index, c.Group, err))
			return
		}
		if e.Kind == consensus.MembersChange {
			// The host makes the change when it is told so.
			d.must(d.host.Applied(c.Group, e.Index))
			m, err := d.host.Members(c.Group)
			d.must(err)
			p.meta.Membership = m
		}
	}
	d.must(d.host.Applied(c.Group, p.meta.Index))
}

// must stops the driver on what the host never says of what it is told rightly.
func (d *Driver) must(err error) {
	if err != nil {
		d.fail(status.New(status.Internal, "%w", err))
	}
}

func (d *Driver) send(ms []consensus.Message) {
	if d.cfg.Transport == nil {
		return
	}
	for _, m := range ms {
		d.cfg.Transport.Send(m.To, consensus.EncodeMessage(m))
	}
}

// offer gives the host a snapshot for members that are behind.
func (d *Driver) offer(id consensus.GroupID) {
	p := d.replicas[id]
	if p == nil {
		return
	}
	var b []byte
	for piece := range p.payload() {
		b = append(b, piece...)
	}
	if err := d.host.OfferSnapshot(id, p.meta.Index, b); err != nil {
		d.cfg.Log.Warn("a member that is behind gets no snapshot", "group", id, "err", err)
	}
}

// stranger becomes the member that another store takes this one for.
func (d *Driver) stranger(s consensus.Stranger) {
	if d.cfg.Admit == nil || !d.cfg.Admit(s) {
		return
	}
	if d.replicas[s.Group] != nil {
		// A store is given another number only after it was removed.
		d.must(d.host.Remove(s.Group))
		d.drop(s.Group)
		d.forget = append(d.forget, s.Group)
	}
	if err := d.host.Join(s.Group, s.Self); err != nil {
		d.cfg.Log.Warn("cannot join a group", "group", s.Group, "err", err)
		return
	}
	d.add(newReplica(s.Group, s.Self, d.cfg.Machine(s.Group)))
}

func (d *Driver) add(p *replica) {
	d.replicas[p.id] = p
	i, _ := slices.BinarySearch(d.order, p.id)
	d.order = slices.Insert(d.order, i, p.id)
	d.voidRoll()
}

func (d *Driver) drop(id consensus.GroupID) {
	d.replicas[id].endAll(errUnknown(id), errClosed)
	delete(d.replicas, id)
	d.order = slices.DeleteFunc(d.order, func(o consensus.GroupID) bool { return o == id })
	delete(d.lazy, id)
	d.voidRoll()
}

// trim forgets the beginning of long logs in memory. The disk has it until the
// next roll, which needs what is behind its snapshots.
func (d *Driver) trim() {
	if d.rolling != nil || d.err != nil {
		return
	}
	for _, id := range d.order {
		entries, bytes, err := d.host.LogSize(id)
		if err != nil || bytes < 2*d.cfg.KeepBytes {
			continue
		}
		keep := uint64(entries) * uint64(d.cfg.KeepBytes) / uint64(bytes)
		if p := d.replicas[id]; p.meta.Index > keep {
			// What is gone already, or of before a snapshot, is refused.
			_ = d.host.Compact(id, p.meta.Index-keep)
		}
	}
}

// checkOpened tells OpenDriver that all that was acknowledged is applied.
func (d *Driver) checkOpened() {
	if !d.opening {
		return
	}
	for _, p := range d.replicas {
		if p.until > 0 && (!p.leading || p.meta.Index < p.until) && d.err == nil {
			return
		}
	}
	d.opening = false
	d.opened <- d.err
}

// fail stops the driver for ever.
func (d *Driver) fail(err error) {
	if d.err != nil {
		return
	}
	d.err = err
	d.failed.Store(&err)
	d.cfg.Log.Error("the control plane of this store has stopped", "err", err)
	d.answerAll(err)
	d.checkOpened()
}

// Err is why the driver has stopped; nil while it works.
func (d *Driver) Err() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// answerAll ends all proposals.
func (d *Driver) answerAll(err error) {
	for _, id := range d.order {
		taken := err
		if d.err == nil {
			taken = errUnknown(id)
		}
		d.replicas[id].endAll(taken, err)
	}
}

// Status is how a store sees one of its groups.
type Status struct {
	Leading bool
	// Leader is zero if none is known.
	Leader  ident.StoreID
	Term    uint64
	Applied uint64
	Members consensus.Membership
}

// Status tells of a group; ok is false if the store is no member of it.
func (d *Driver) Status(id consensus.GroupID) (s Status, ok bool) {
	done := make(chan struct{})
	if !d.inbox.post(func() {
		defer close(done)
		var p *replica
		if p, ok = d.replicas[id], d.replicas[id] != nil; ok {
			s = Status{p.leading, p.leader, p.term, p.meta.Index, p.meta.Membership}
		}
	}) {
		return s, false
	}
	<-done
	return s, ok
}

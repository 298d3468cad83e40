package control

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

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

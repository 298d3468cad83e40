package quorum

import (
	"slices"

	"github.com/quirelog/quire/internal/ident"
)

// Range is the part of one store in one range. See the package comment.
type Range struct {
	cfg Config
	now Instant

	// As a follower. copies are those that are not sealed here, order their ids,
	// rising; closed and closedThrough are those that are.
	promise, promising ident.Epoch
	copies             map[ident.SegmentID]*replica
	order              []ident.SegmentID
	closed             []ident.SegmentID
	closedThrough      ident.SegmentID
	fences             []waitingFence

	// The disk: the serials of the last write that was handed out and of the last
	// that was answered, what lies between, and its bytes.
	serial, stored uint64
	pending        fifo[pendingWrite]
	writing        int
	loads          []pendingLoad
	loadID         uint64

	// As a primary. epoch is in whose name it speaks; view is what that rests on;
	// taken is the last epoch in which it has served.
	state     State
	epoch     ident.Epoch
	taken     ident.Epoch
	view      View
	claim     claim
	out       *stream // the open segment, or the one that is repaired
	proposal  freeze
	proposals uint64
	// finishing are sealed segments that not all stores have.
	finishing []*stream
	orphans   orphans
	regrant   bool // the next roll takes a new epoch
	quorumAt  Instant
	cutOff    bool
	reads     []waitingRead
	confirm   uint64 // the last number of reads that wait

	local    fifo[Message] // to this store itself
	dirty    bool
	next     Ready
	previous Ready
}

// Disk is what a store knows of a range when it starts.
type Disk struct {
	Promise ident.Epoch
	Copies  []Copy
	// Closed are the segments that are sealed in the store.
	Closed []ident.SegmentID
}

// New is the part of a store in a range, as its disk has it.
func New(now Instant, cfg Config, d Disk) (*Range, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	r := &Range{
		cfg: cfg, now: now, promise: d.Promise, promising: d.Promise, copies: map[ident.SegmentID]*replica{},
	}
	for _, c := range d.Copies {
		k := &replica{seg: c.Segment, written: c.Tail, durable: c.Tail, created: true, damaged: c.Damaged, commit: c.Segment.Base}
		k.mark(c.Tail)
		r.addCopy(k)
		if c.Damaged {
			r.next.Faults = append(r.next.Faults, c.Segment.ID)
		}
	}
	for _, id := range slices.Sorted(slices.Values(d.Closed)) {
		r.forget(id)
	}
	return r, nil
}

// State says what the range is as a primary.
func (r *Range) State() State { return r.state }

// Epoch is the one in whose name a primary speaks.
func (r *Range) Epoch() ident.Epoch { return r.epoch }

func (r *Range) pass(now Instant) {
	r.now = max(r.now, now)
	r.dirty = true
}

// Tick tells the time. A driver calls it at least each heartbeat while Resting
// says no.
func (r *Range) Tick(now Instant) {
	r.pass(now)
	if r.state == Stopped {
		return
	}
	r.answerFences()
	r.again()
	r.checkCutOff()
	r.expireReads()
	r.expireOrphans()
}

// Resting says that nothing is due however much time passes: all stores have all
// that there is and know that it is committed. An idle range costs no timer.
func (r *Range) Resting() bool {
	if r.state != Idle && r.state != Serving && r.state != Ended && r.state != Stopped {
		return false
	}
	if len(r.fences)+len(r.finishing)+len(r.reads)+len(r.orphans.entries) > 0 {
		return false
	}
	if r.state != Serving {
		return true
	}
	return !slices.ContainsFunc(r.out.peers, func(p peer) bool {
		return !p.store.IsZero() && !p.out && (p.commit < r.out.tail.End || !p.known)
	})
}

// Connected says that a store can be reached again, perhaps by another process than
// before: one that has started knows no commit offset, and nothing would tell it
// one while nobody appends.
func (r *Range) Connected(now Instant, store ident.StoreID) {
	r.pass(now)
	if r.out != nil {
		r.out.reconnect(r.now, store)
	}
	for _, s := range r.finishing {
		s.reconnect(r.now, store)
	}
}

// Step takes a message. One that is not for this range and store is dropped, as
// the network might have done.
func (r *Range) Step(now Instant, m *Message) {
	r.pass(now)
	if r.state == Stopped || m.Range != r.cfg.Range || m.To != r.cfg.Self.Store {
		return
	}
	r.step(m)
}

func (r *Range) step(m *Message) {
	switch m.Kind {
	case Append:
		r.accept(m)
	case Appended:
		r.appended(m)
	case Fence:
		r.fence(m)
	case Fenced:
		r.fenced(m)
	case Fetch:
		r.fetch(m)
	case Fetched:
		r.fetched(m)
	case Seal:
		r.closing(m)
	case Sealed:
		r.sealedAt(m)
	}
}

func (r *Range) send(m Message) {
	m.By = r.cfg.Self.Process
	if m.To == r.cfg.Self.Store {
		r.local.push(m)
		return
	}
	r.next.Messages = append(r.next.Messages, m)
}

// Ready hands out what is to be done.
func (r *Range) Ready() Ready {
	for r.dirty && r.state != Stopped {
		r.dirty = false
		if r.out != nil && r.state != Fencing {
			r.pump(r.out)
		}
		for _, s := range r.finishing {
			r.pump(s)
		}
		r.answerDurable()
		for !r.local.empty() {
			m := r.local.pop()
			r.step(&m)
			r.dirty = true
		}
	}
	out := r.next
	p := &r.previous
	clear(p.Writes)
	clear(p.Messages)
	r.next = Ready{
		Writes: p.Writes[:0], Messages: p.Messages[:0], Loads: p.Loads[:0], Results: p.Results[:0],
		Reads: p.Reads[:0], Incomplete: p.Incomplete[:0], Faults: p.Faults[:0],
	}
	r.previous = out
	return out
}

package quorum

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
)

// client appends batches that are numbered in the order of its calls, and reads.
type client struct {
	sim     *sim
	id      uint64
	builder *batch.Builder
	// rival, until a time, is the only node that is appended to, and old, for a
	// while behind that.
	rival, old *node
	zombie     bool // old is appended to as soon as rival has a quorum
	until      Instant
}

// request is one batch on its way. It is sent once: what came of it may stay
// unknown, but it is in the log once at the most.
type request struct {
	id    uint64
	batch []byte
}

func (c *client) append() {
	s := c.sim
	n := s.primary()
	if n == nil || s.chance(5) {
		n = s.nodes[s.rng.IntN(len(s.nodes))] // it may believe that it is the primary
	}
	switch {
	case c.rival == nil:
	case s.now < c.until:
		if n = c.rival; n.up && (n.current() == nil || n.current().state < Frozen) {
			return
		}
		if c.zombie && s.chance(2) {
			n = c.old
		}
	case s.now < c.until.Add(100*time.Millisecond):
		n = c.old
	}
	if !n.up {
		return
	}
	// It is numbered when it arrives: a process that pauses lets it wait.
	n.input("append", func() {
		c.id++
		n.appendNow(&request{id: c.id, batch: c.build(c.id)}, true)
	})
}

func (c *client) build(id uint64) []byte {
	if c.builder == nil {
		c.builder = batch.NewBuilder(batch.Options{})
	}
	value := make([]byte, 8+c.sim.rng.IntN(120))
	binary.BigEndian.PutUint64(value, id)
	for range 1 + c.sim.rng.IntN(3) {
		c.sim.must(c.builder.Add(&batch.Record{Value: value, Time: 1}))
	}
	return c.builder.Finish()
}

// appendNow hands a request in. What came before it goes first.
func (n *node) appendNow(q *request, fresh bool) bool {
	s := n.sim
	r := n.current()
	if r == nil {
		s.oracle.refused(q)
		return true
	}
	if fresh && (len(n.redo)+len(n.held) > 0 || n.between(r)) {
		n.hold(q)
		return true
	}
	err := r.Append(n.clock(), n.wall+ident.Timestamp(s.now/1000)+1e12, q.id, q.batch)
	switch {
	case err == nil:
		n.pending[q.id] = q
		s.logf("n%d: appends request %d", n.number, q.id)
		s.oracle.accepted(n, q)
	case errors.Is(err, ErrFrozen) && fresh:
		n.hold(q)
	case !fresh && (errors.Is(err, ErrFrozen) || errors.Is(err, ErrOverloaded)):
		return false
	default:
		s.counts.Refused++
		s.oracle.refused(q)
	}
	return true
}

func (n *node) hold(q *request) {
	if len(n.held) > 40 {
		n.sim.oracle.refused(q)
		return
	}
	n.held = append(n.held, q)
}

// flush hands in what was returned and then what was held, if there is a range
// that takes it, or refuses it.
func (n *node) flush() (any bool) {
	r := n.current()
	if len(n.redo)+len(n.held) == 0 || r != nil && r.state == Frozen || n.between(r) {
		return false
	}
	if r == nil || r.state == Idle && n.sim.cat.leaf().Owner == n.owner() && r.taken < n.sim.cat.leaf().Epoch {
		n.claim() // what continues the range that has ended
		return false
	}
	for _, list := range []*[]*request{&n.redo, &n.held} {
		for len(*list) > 0 {
			q := (*list)[0]
			if !n.appendNow(q, false) {
				return any
			}
			*list = (*list)[1:]
			any = true
		}
	}
	return any
}

// between says that this process does not know yet that it has ended the range
// before: what that returns comes first.
func (n *node) between(r *Range) bool {
	for _, id := range n.sim.cat.lineage() {
		if before := n.ranges[id]; before != nil && before != r && before.state == Frozen && before.epoch == before.taken {
			return true
		}
	}
	return false
}

func (n *node) result(r *Range, res Result) {
	s := n.sim
	q := n.pending[res.Token]
	if q == nil {
		s.oracle.fail(n, "a result of no append: %+v", res)
	}
	delete(n.pending, res.Token)
	s.logf("n%d: request %d has fate %d at %d", n.number, q.id, res.Fate, res.Base)
	switch res.Fate {
	case Committed:
		s.counts.Committed++
		s.oracle.acknowledged(n, r, q, res)
	case Returned:
		s.counts.Returned++
		s.oracle.refused(q)
		n.redo = append(n.redo, &request{id: q.id, batch: append([]byte(nil), q.batch...)})
	case Dropped:
		s.counts.Dropped++
		s.oracle.refused(q)
	case Lost:
		s.counts.Lost++
	}
}

// read reads up to the commit offset, under the lease or by a quorum.
func (c *client) read() {
	s := c.sim
	n := s.primary()
	if n == nil || s.chance(2) {
		n = s.nodes[s.rng.IntN(len(s.nodes))]
		for range 3 {
			if r := n.current(); n.up && r != nil && r.state == Serving {
				break
			}
			n = s.nodes[s.rng.IntN(len(s.nodes))]
		}
	}
	r := n.current()
	if !n.up || r == nil {
		return
	}
	n.input("read", func() {
		floor := s.oracle.floor(r.cfg.Range)
		if s.chance(4) && s.now >= c.until {
			n.readID++
			if r.ReadQuorum(n.clock(), n.readID) == nil {
				n.readers[n.readID] = floor
			}
			return
		}
		at, ok := r.Commit()
		if !ok {
			return
		}
		if at < floor {
			s.counts.Stale++ // it believes to be the primary and is not
		}
		check := func() {
			if r.Leased(n.clock()) {
				s.counts.LeaseReads++
				s.oracle.current(n, r, at, floor)
			}
		}
		if s.chance(2) {
			check()
			return
		}
		n.later(s.between(0, 3*time.Millisecond), func() { n.input("check", check) })
	})
}

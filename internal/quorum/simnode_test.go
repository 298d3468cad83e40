package quorum

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// node is a store and the process that drives it.
type node struct {
	sim    *sim
	number int
	store  ident.StoreID
	disk   *disk
	lost   bool // the disk is gone for ever
	bad    bool // a copy of it is damaged

	// The process, while it is up.
	up      bool
	life    int
	paused  bool
	backlog []func()
	ranges  map[ident.RangeID]*Range
	leases  *Leases
	offset  Instant
	rate    float64
	wall    ident.Timestamp
	cutOff  bool
	// appends by token, until they have their result; what is to be appended again
	// before anything else; what came while the range was frozen.
	pending map[uint64]*request
	redo    []*request
	held    []*request
	readers map[uint64]ident.Offset
	readID  uint64
}

func (s *sim) newNode() *node {
	n := &node{sim: s, number: len(s.nodes), store: ident.StoreID{0: byte(len(s.nodes) + 1), 15: 9}}
	n.disk = newDisk(n)
	s.nodes = append(s.nodes, n)
	return n
}

func (n *node) owner() catalog.Owner {
	var p ident.Incarnation
	binary.BigEndian.PutUint64(p[:], uint64(n.life))
	p[15] = byte(n.number)
	return catalog.Owner{Store: n.store, Process: p}
}

// clock is what the process reads: it began anywhere and does not go quite right.
func (n *node) clock() Instant { return n.offset + Instant(float64(n.sim.now)*n.rate) }

func (n *node) start() {
	s := n.sim
	s.lives++
	n.up, n.life, n.paused, n.cutOff = true, s.lives, false, false
	n.rate = 1 + float64(s.rng.IntN(3)-1)*0.045
	if s.gentle {
		n.rate = 1 + float64(s.rng.IntN(2)*2-1)*0.045
	}
	n.offset = Instant(s.rng.Int64N(int64(time.Hour)))
	n.ranges, n.pending, n.readers = map[ident.RangeID]*Range{}, map[uint64]*request{}, map[uint64]ident.Offset{}
	n.redo, n.held, n.backlog = nil, nil, nil
	l, err := NewLeases(n.clock(), LeaseConfig{Self: n.owner(), broken: s.broken})
	s.must(err)
	n.leases = l
	if !s.calm && !n.bad && s.chance(4) && s.expendable(n) && n.disk.damage() {
		n.bad = true
		s.counts.Damaged++
		s.logf("n%d: a copy is damaged", n.number)
	}
	s.logf("n%d: starts, life %d", n.number, n.life)
	for _, r := range s.cat.topic().Ranges {
		n.rangeOf(r.ID)
	}
	n.again(25*time.Millisecond, n.tick)
	n.again(300*time.Millisecond, n.renew)
	n.again(300*time.Millisecond, n.watch)
	for _, o := range s.nodes {
		if o != n && o.up {
			s.send(n, o, "connected", func() {
				for _, id := range slices.Sorted(maps.Keys(o.ranges)) {
					o.ranges[id].Connected(o.clock(), n.store)
				}
			})
		}
	}
	n.process()
}

// again does something of this life regularly.
func (n *node) again(every time.Duration, do func()) {
	n.later(n.sim.between(every*9/10, every*11/10), func() {
		n.input("", do)
		n.again(every, do)
	})
}

// later has something happen if the process still lives then.
func (n *node) later(d time.Duration, do func()) {
	life := n.life
	n.sim.after(d, func() {
		if n.up && n.life == life {
			do()
		}
	})
}

// input gives the process something, when it runs.
func (n *node) input(what string, do func()) {
	switch {
	case !n.up:
	case n.paused:
		if len(n.backlog) < 3000 {
			n.backlog = append(n.backlog, do)
		}
	default:
		do()
		n.process()
	}
}

// act does something with the present range.
func (n *node) act(what string, do func(*Range)) {
	n.input(what, func() {
		if r := n.current(); r != nil {
			n.sim.logf("n%d: %s", n.number, what)
			do(r)
		}
	})
}

func (n *node) rangeOf(id ident.RangeID) *Range {
	if r := n.ranges[id]; r != nil {
		return r
	}
	r, err := New(n.clock(), Config{
		Range: id, Self: n.owner(), Leases: n.leases, Heartbeat: 20 * time.Millisecond, Retry: 80 * time.Millisecond,
		MaxUncommittedBytes: 8 << 10, MaxInflightBytes: 2 << 10, MaxRetainedBytes: 2 << 10, MaxMessageBytes: 600,
		MaxWriteBytes: 4 << 10, broken: n.sim.broken,
	}, n.disk.of(id))
	n.sim.must(err)
	n.ranges[id] = r
	return r
}

// current is this node's part in the range that takes appends now.
func (n *node) current() *Range { return n.ranges[n.sim.cat.leaf().ID] }

func (n *node) crash(why string) {
	if !n.up {
		return
	}
	n.sim.counts.Crashes++
	n.sim.logf("n%d: crashes %s", n.number, why)
	n.up = false
	n.disk.lose()
	n.sim.oracle.forgotten(n)
	if n.sim.chance(2) {
		n.sim.after(n.sim.between(time.Millisecond, n.sim.between(2*time.Millisecond, 150*time.Millisecond)), func() {
			if !n.up && !n.lost {
				n.start()
			}
		})
	}
}

func (n *node) pause(d time.Duration) {
	if !n.up || n.paused {
		return
	}
	n.sim.counts.Pauses++
	n.sim.logf("n%d: pauses for %v", n.number, d)
	n.paused = true
	n.later(d, n.resume)
}

func (n *node) resume() {
	if !n.up || !n.paused {
		return
	}
	n.sim.logf("n%d: resumes", n.number)
	n.paused = false
	backlog := n.backlog
	n.backlog = nil
	for _, do := range backlog {
		n.input("", do)
	}
}

// loseDisk takes a store away for ever, and another one comes in its place.
func (n *node) loseDisk() {
	s := n.sim
	if n.lost || len(s.nodes) > 11 || !s.expendable(n) {
		return
	}
	s.counts.LostDisks++
	n.crash("and loses its disk")
	n.lost = true
	s.newNode().start()
}

// expendable says whether every segment can do without a store: the promises
// hold as long as a majority of its slots keeps its disks.
func (s *sim) expendable(n *node) bool {
	for _, slots := range s.cat.replicas {
		gone := 0
		for _, id := range slots {
			if id.IsZero() || id == n.store || s.nodeOf(id).lost || s.nodeOf(id).bad {
				gone++
			}
		}
		if gone > len(slots)-(len(slots)/2+1) {
			return false
		}
	}
	return true
}

func (s *sim) nodeOf(id ident.StoreID) *node { return s.nodes[int(id[0])-1] }

func (s *sim) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (n *node) tick() {
	for _, id := range slices.Sorted(maps.Keys(n.ranges)) {
		n.ranges[id].Tick(n.clock())
	}
}

// renew asks all other processes for leases.
func (n *node) renew() {
	for _, to := range n.sim.nodes {
		if to == n || !to.up {
			continue
		}
		ask := n.leases.Renewal(n.clock(), to.store)
		n.sim.send(n, to, "renewal", func() {
			g, ok := to.leases.Grant(to.clock(), ask)
			if ok {
				to.later(to.sim.late(), func() {
					to.sim.send(to, n, "grant", func() { n.leases.Granted(n.clock(), g) })
				})
			}
		})
	}
}

// late is how much later than others some grants go out.
func (s *sim) late() time.Duration {
	if s.calm || !s.chance(4) {
		return 0
	}
	return s.between(0, 290*time.Millisecond)
}

// watch tells the store what the catalog has sealed and retired.
func (n *node) watch() {
	s := n.sim
	if s.block[[2]int{-1, n.number}] {
		return
	}
	for _, cr := range s.cat.topic().Ranges {
		r := n.rangeOf(cr.ID)
		for _, id := range slices.Clone(r.order) {
			if v := (View{Range: cr}); !s.cat.retired(id) {
				if seal, ok := v.sealed(id); ok {
					r.Observe(n.clock(), id, seal)
				}
				continue
			}
			r.Forget(id)
			delete(n.disk.segments, id)
		}
	}
}

// claim has the node want the range, by a view that is not quite new.
func (n *node) claim() {
	if !n.up {
		return
	}
	s := n.sim
	if s.block[[2]int{-1, n.number}] {
		return
	}
	v := s.cat.view(s.cat.leaf().ID)
	n.later(s.between(0, 20*time.Millisecond), func() {
		n.input("claim", func() {
			r := n.rangeOf(v.Range.ID)
			if r.state == Idle && v.Range.Open != nil {
				s.counts.Claims++
				s.logf("n%d: claims %v after epoch %d, %v", n.number, v.Range.ID, v.Range.Epoch, v.Range.Open.ID)
				s.must(r.Claim(n.clock(), v))
			}
		})
	})
}

// process does what the ranges say.
func (n *node) process() {
	for again := true; again && n.up; {
		again = false
		for _, id := range slices.Sorted(maps.Keys(n.ranges)) {
			r := n.ranges[id]
			ready := r.Ready()
			if !ready.Empty() {
				again = true
				n.do(r, id, &ready)
			}
			n.sim.oracle.look(n, r)
		}
		again = n.flush() || again
	}
}

func (n *node) do(r *Range, id ident.RangeID, ready *Ready) {
	s := n.sim
	if ready.Changed {
		s.logf("n%d: %v is %v, epoch %d, why %d", n.number, id, ready.State, r.epoch, ready.Why)
		n.cutOff = false
	}
	if ready.Changed && ready.State == Ended && ready.Why == Deposed {
		for _, q := range n.held { // others have appended since
			s.oracle.refused(q)
		}
		n.held = nil
	}
	for _, w := range ready.Writes {
		s.oracle.offered(n, &w)
		n.disk.submit(id, w)
	}
	for _, m := range ready.Messages {
		s.trouble(n, &m)
		s.send(n, s.nodeOf(m.To), "message", func() {
			to := s.nodeOf(m.To)
			s.logf("n%d: gets %s", to.number, describe(&m))
			copied := m
			to.rangeOf(m.Range).Step(to.clock(), &copied)
		})
	}
	for _, l := range ready.Loads {
		n.disk.load(id, l)
	}
	for _, res := range ready.Results {
		n.result(r, res)
	}
	for _, rd := range ready.Reads {
		floor, ok := n.readers[rd.ID]
		if delete(n.readers, rd.ID); ok && rd.OK {
			s.counts.QuorumReads++
			s.oracle.current(n, r, rd.Commit, floor)
		} else {
			s.counts.FailedReads++
		}
	}
	if p := ready.Proposal; p.Serial != 0 {
		n.propose(id, p)
	}
	if ready.Look {
		n.look(id)
	}
	if ready.Challenged && r.state == Serving {
		s.must(r.Regrant(n.clock()))
	}
	if ready.CutOff {
		if n.cutOff = true; s.chance(2) || s.calm {
			r.Resign(n.clock())
		}
	}
	s.counts.Incomplete += len(ready.Incomplete)
}

func describe(m *Message) string {
	d := fmt.Sprintf("%v epoch %d %v from n%d seq %d", m.Kind, m.Epoch, m.Segment.ID, m.From[0]-1, m.Seq)
	switch m.Kind {
	case Append:
		d += fmt.Sprintf(" at %d, %d batches, commit %d", m.At, len(m.Batches), m.Commit)
	case Appended, Fenced:
		d += fmt.Sprintf(" %v tail %d next %d promise %d", m.Refusal, m.Tail.End, m.Next, m.Promise)
	case Seal:
		d += fmt.Sprintf(" end %d", m.Seal.End)
	}
	return d
}

// trouble checks what is sent.
func (s *sim) trouble(n *node, m *Message) {
	for _, b := range m.Batches {
		s.oracle.offeredBatch(n, m.Segment.ID, b)
	}
	// What a store has promised is worth what it remembers of it.
	if m.Kind == Fenced && m.Refusal == OK && !s.calm && (s.chance(12) || s.now < s.client.until && s.chance(3)) {
		n.later(s.between(0, 3*time.Millisecond), func() { n.crash("after a promise") })
	}
}

// propose takes a command to the catalog and its outcome back, if they arrive.
func (n *node) propose(id ident.RangeID, p Proposal) {
	s := n.sim
	owner := n.owner()
	s.logf("n%d: proposes %v of %v: epoch %d version %d end %d", n.number, p.Kind, p.Open, p.Epoch, p.Version, p.Seal.End)
	outcome := func(o Outcome) {
		n.input("outcome", func() {
			if o.Verdict == Unknown {
				s.counts.UnknownOutcomes++
			}
			n.ranges[id].Outcome(n.clock(), o)
		})
	}
	answered := false
	arrive := func() {
		if s.block[[2]int{n.number, -1}] {
			return
		}
		ok := s.cat.apply(owner, id, p)
		v := s.cat.view(id)
		if s.block[[2]int{-1, n.number}] || !s.calm && s.chance(8) {
			return
		}
		n.later(s.between(time.Millisecond, 8*time.Millisecond), func() {
			if answered {
				return
			}
			answered = true
			verdict := No
			if ok {
				verdict = Yes
			}
			outcome(Outcome{p.Serial, verdict, v})
		})
	}
	if s.calm || !s.chance(8) {
		s.after(s.between(time.Millisecond, 10*time.Millisecond), arrive)
	}
	if !s.calm && s.chance(5) {
		s.after(s.between(0, 2*time.Second), arrive) // late, or once more
	}
	n.later(60*time.Millisecond, func() {
		if !answered {
			answered = true
			outcome(Outcome{Serial: p.Serial})
		}
	})
}

// look reads the catalog, if it can be reached.
func (n *node) look(id ident.RangeID) {
	s := n.sim
	n.later(s.between(time.Millisecond, 8*time.Millisecond), func() {
		if s.block[[2]int{n.number, -1}] || s.block[[2]int{-1, n.number}] {
			return
		}
		v := s.cat.view(id)
		n.later(s.between(time.Millisecond, 8*time.Millisecond), func() {
			n.input("looked", func() { n.ranges[id].Looked(n.clock(), v) })
		})
	})
}

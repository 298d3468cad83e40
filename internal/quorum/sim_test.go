package quorum

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/quirelog/quire/internal/ident"
)

// sim is one range on some stores, and what continues it after splits, in one
// goroutine. All that happens is drawn from one seed.
type sim struct {
	rng    *rand.Rand
	now    Instant // the true time, which nobody in here can read
	queue  events
	number uint64
	broken rule

	nodes   []*node
	block   map[[2]int]bool // from, to
	calm    bool
	gentle  bool // most of the time there are rivals and no other faults
	cat     *simCatalog
	client  client
	oracle  oracle
	lives   int
	counts  counts
	trace   []string
	tracing bool
}

// counts show that a run met what it is for.
type counts struct {
	Committed, Returned, Dropped, Lost, Refused int
	Claims, Takes, Rolls, Ends                  int
	UnknownOutcomes, LeaseReads                 int
	QuorumReads, FailedReads                    int
	Crashes, LostDisks, Damaged                 int
	NoRoom, Failures, Pauses                    int
	Sealed, Incomplete, Rivals, Stale           int
}

// occasion is something that happens at a time.
type occasion struct {
	at     Instant
	number uint64
	do     func()
}

type events []occasion

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(occasion)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// after has something happen.
func (s *sim) after(d time.Duration, do func()) {
	s.number++
	heap.Push(&s.queue, occasion{s.now.Add(d), s.number, do})
}

// every has something happen again and again.
func (s *sim) every(least, most time.Duration, do func()) {
	s.after(s.between(least, most), func() {
		do()
		s.every(least, most, do)
	})
}

func (s *sim) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rng.Int64N(int64(most-least)+1))
}

// chance says yes once in n times.
func (s *sim) chance(n int) bool { return s.rng.IntN(n) == 0 }

func (s *sim) logf(format string, args ...any) {
	if s.tracing {
		if len(s.trace) > 20000 {
			s.trace = slices.Delete(s.trace, 0, 10000)
		}
		s.trace = append(s.trace, fmt.Sprintf("%9.3fms  ", float64(s.now)/1e6)+fmt.Sprintf(format, args...))
	}
}

func newSim(seed uint64, broken rule) *sim {
	s := &sim{rng: rand.New(rand.NewPCG(seed, 22)), block: map[[2]int]bool{}, broken: broken}
	s.oracle = newOracle(s)
	s.gentle = s.chance(3)
	slots := 3
	if s.chance(3) {
		slots = 5
	}
	for range slots + s.rng.IntN(3) {
		s.newNode()
	}
	s.cat = newSimCatalog(s, slots)
	for _, n := range s.nodes {
		n.start()
	}
	s.client = client{sim: s}
	s.every(time.Millisecond, 8*time.Millisecond, s.client.append)
	s.every(5*time.Millisecond, 30*time.Millisecond, s.client.read)
	s.every(100*time.Millisecond, 400*time.Millisecond, s.reconcile)
	pace := s.between(60*time.Millisecond, 600*time.Millisecond)
	s.every(pace/4, 2*pace, s.fault)
	s.every(30*time.Millisecond, time.Second, s.act)
	return s
}

// run lets the time pass.
func (s *sim) run(until Instant) {
	for len(s.queue) > 0 && s.queue[0].at <= until {
		e := heap.Pop(&s.queue).(occasion)
		s.now = e.at
		e.do()
	}
	s.now = until
}

// send puts a message on the network, which delays, loses and repeats it.
func (s *sim) send(from, to *node, what string, deliver func()) {
	copies := 1
	if !s.calm {
		switch s.rng.IntN(40) {
		case 0:
			copies = 0
		case 1:
			copies = 2
		}
	}
	for range copies {
		d := s.between(200*time.Microsecond, 3*time.Millisecond)
		if !s.calm && !s.gentle && s.chance(60) {
			d = s.between(0, 1500*time.Millisecond)
		}
		s.after(d, func() {
			if !s.block[[2]int{from.number, to.number}] {
				to.input(what, deliver)
			}
		})
	}
}

// fault lets one bad thing happen, or one end.
func (s *sim) fault() {
	if s.calm || s.now < s.client.until && !s.chance(8) {
		return
	}
	if s.gentle && !s.chance(4) {
		clear(s.block)
		s.rivalry()
		return
	}
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	if p := s.primary(); p != nil && s.chance(3) {
		n = p
	}
	switch s.rng.IntN(22) {
	case 0, 1:
		s.partition()
	case 2, 3, 4:
		clear(s.block)
	case 5, 6:
		n.crash("")
	case 7, 8, 9, 10:
		if !n.up && !n.lost {
			n.start()
		}
	case 11, 12:
		n.pause(s.between(20*time.Millisecond, 2500*time.Millisecond))
	case 21:
		if s.chance(2) {
			n.loseDisk()
		}
	case 18:
		s.rivalry()
	case 14, 19, 20:
		n.disk.hang(s.between(10*time.Millisecond, 1500*time.Millisecond))
	case 15:
		n.disk.full = !n.disk.full
	case 16:
		n.disk.full = false
	case 17:
		n.disk.failing = true
	case 13:
		n.wall += ident.Timestamp(s.rng.Int64N(7200e6)) - 3600e6
	default:
		n.claim()
	}
}

// act has the primary do one of the things that end a segment.
func (s *sim) act() {
	if s.now < s.client.until {
		return
	}
	n := s.primary()
	if n == nil || s.calm || s.chance(6) {
		n = s.nodes[s.rng.IntN(len(s.nodes))]
	}
	switch s.rng.IntN(8) {
	default:
		n.act("roll", func(r *Range) { _ = r.Roll(n.clock()) })
	case 0, 1:
		if len(s.cat.topic().Ranges) < 40 {
			n.act("end", func(r *Range) { _ = r.End(n.clock()) })
		}
	case 2:
		if s.chance(2) {
			n.act("regrant", func(r *Range) { _ = r.Regrant(n.clock()) })
			s.after(s.between(0, 10*time.Millisecond), n.claim)
		}
		n.act("resign", func(r *Range) { r.Resign(n.clock()) })
	case 3:
		n.act("cancel", func(r *Range) { r.Cancel(n.clock()) })
	}
}

// rivalry has a node claim the range of a healthy primary that it can't reach, while
// nobody appends there: nothing but its leases tells the primary.
func (s *sim) rivalry() {
	p := s.primary()
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	if p == nil || n == p || n.lost {
		return
	}
	clear(s.block)
	s.block[[2]int{n.number, p.number}], s.block[[2]int{p.number, n.number}] = true, true
	s.block[[2]int{-1, p.number}], s.block[[2]int{p.number, -1}] = true, true
	s.client.rival, s.client.old, s.client.until = n, p, s.now.Add(s.between(time.Second, 2*time.Second))
	s.client.zombie = s.chance(2)
	if s.chance(3) {
		for _, o := range s.nodes {
			if o != p && !o.lost {
				o.crash("before a rivalry")
				s.after(s.between(0, 20*time.Millisecond), func() {
					if !o.up {
						o.start()
					}
				})
			}
		}
	}
	s.counts.Rivals++
	s.logf("n%d: is a rival of n%d", n.number, p.number)
	s.after(s.between(100*time.Millisecond, 300*time.Millisecond), n.claim)
}

// partition cuts some of the ways between nodes, in one direction or both. Node
// -1 is the catalog.
func (s *sim) partition() {
	clear(s.block)
	if s.chance(2) {
		s.cut()
		return
	}
	both := s.chance(2)
	side := map[int]bool{-1: s.chance(2)}
	for _, n := range s.nodes {
		side[n.number] = s.chance(2)
	}
	for a := -1; a < len(s.nodes); a++ {
		for b := -1; b < len(s.nodes); b++ {
			if side[a] != side[b] && (both || side[a]) {
				s.block[[2]int{a, b}] = true
			}
		}
	}
	s.logf("partition %v both=%v", side, both)
}

// cut takes some of the links, so that two nodes may reach a third one and not each
// other.
func (s *sim) cut() {
	one := s.chance(3)
	for a := -1; a < len(s.nodes); a++ {
		for b := -1; b < a; b++ {
			if s.chance(3) {
				s.block[[2]int{a, b}] = true
				s.block[[2]int{b, a}] = !one
			}
		}
	}
	s.logf("cut %v", s.block)
}

// isolated says whether a node can't reach a majority of the others and back.
func (s *sim) isolated(n *node) bool {
	far := 0
	for _, o := range s.nodes {
		if o != n && (!o.up || s.block[[2]int{n.number, o.number}] || s.block[[2]int{o.number, n.number}]) {
			far++
		}
	}
	return far*2 >= len(s.nodes)
}

// primary is a node that serves under the newest grant.
func (s *sim) primary() *node {
	for _, n := range s.nodes {
		if r := n.current(); n.up && r != nil && r.state == Serving && s.cat.leaf().Owner == n.owner() {
			return n
		}
	}
	return nil
}

// reconcile has somebody claim the range when nobody serves it.
func (s *sim) reconcile() {
	p := s.primary()
	if s.now < s.client.until && !s.calm {
		return
	}
	if p != nil && !p.paused && !(s.calm && p.cutOff) && !s.isolated(p) {
		return
	}
	up := slices.DeleteFunc(slices.Clone(s.nodes), func(n *node) bool { return !n.up || n == p })
	if len(up) > 0 {
		up[s.rng.IntN(len(up))].claim()
	}
}

// settle ends the faults and waits, within a bound, until appends are committed
// and read again, and all segments are on all of the stores that are left.
func (s *sim) settle() error {
	s.calm, s.client.rival = true, nil
	clear(s.block)
	for _, n := range s.nodes {
		n.disk.full, n.disk.failing, n.disk.hangUntil = false, false, 0
		n.resume()
		if !n.up && !n.lost {
			n.start()
		}
	}
	s.oracle.goal = s.client.id
	const bound = 20 * time.Second
	for end := s.now.Add(bound); s.now < end; {
		s.run(s.now.Add(250 * time.Millisecond))
		for _, n := range s.nodes {
			if !n.up && !n.lost {
				n.start()
			}
		}
		if s.oracle.fresh && s.oracle.read {
			return s.oracle.history()
		}
	}
	return fmt.Errorf("no progress within %v after the faults: %s", bound, s.describe())
}

func (s *sim) describe() string {
	var b strings.Builder
	l := s.cat.leaf()
	fmt.Fprintf(&b, "committed %v, read %v; %v epoch %d version %d open %v on %v", s.oracle.fresh, s.oracle.read,
		l.ID, l.Epoch, l.Version, l.Open.ID, s.cat.slots(l.Open.ID))
	for _, n := range s.nodes {
		fmt.Fprintf(&b, "; n%d up=%v lost=%v", n.number, n.up, n.lost)
		if r := n.current(); n.up && r != nil {
			fmt.Fprintf(&b, " %v epoch %d promise %d", r.state, r.epoch, r.promise)
			if r.out != nil {
				fmt.Fprintf(&b, " tail %d commit %d", r.out.tail.End, r.out.commit.End)
			}
		}
	}
	return b.String()
}

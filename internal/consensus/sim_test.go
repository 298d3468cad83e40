package consensus

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/quirelog/quire/internal/ident"
)

// sim is a cluster in one goroutine: all that happens is drawn from one seed.
type sim struct {
	rng    *rand.Rand
	nodes  []*node
	net    []packet
	block  map[[2]ident.StoreID]bool // from, to
	calm   bool                      // the faults are over
	groups []GroupID
	oracle oracle
	token  uint64
	// waiting are proposals without an outcome, by token, and where they are.
	waiting map[Token]*node
	readID  uint64
	counts  counts
}

// counts show that a run met what it is for.
type counts struct {
	Elections, Decided, Unknown, Refused, Reads, FailedReads, Crashes, LostDisks, Installs, Changes, Moves, Joins, Compactions int
}

// packet is a frame on its way.
type packet struct {
	from, to ident.StoreID
	frame    []byte
}

func newSim(seed uint64) *sim {
	s := &sim{
		rng: rand.New(rand.NewPCG(seed, 7)), block: map[[2]ident.StoreID]bool{}, waiting: map[Token]*node{},
	}
	s.oracle = oracle{sim: s, groups: map[GroupID]*truth{}}
	var stores []ident.StoreID
	for range 3 + s.rng.IntN(3) {
		stores = append(stores, s.newNode().store)
	}
	for i := range 2 + s.rng.IntN(4) {
		id := GroupID(i + 1)
		s.groups = append(s.groups, id)
		voters := slices.Clone(stores)
		s.rng.Shuffle(len(voters), func(i, j int) { voters[i], voters[j] = voters[j], voters[i] })
		switch s.rng.IntN(4) {
		case 0:
			voters = voters[:1] // the others come by changes of members
		case 1, 2:
			voters = voters[:3]
		}
		s.oracle.found(id, founding(voters))
		for _, v := range voters {
			s.must(s.node(v).host.Found(id, voters))
		}
	}
	for _, n := range s.nodes {
		n.process()
		n.sync() // who loses its founding alone would have to be told again
	}
	return s
}

func (s *sim) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (s *sim) newNode() *node {
	n := &node{sim: s, number: len(s.nodes), disk: map[GroupID]*state{}, machines: map[GroupID]*machine{}, named: map[GroupID]bool{}}
	n.store = ident.StoreID{0: byte(len(s.nodes) + 1), 15: 1}
	s.nodes = append(s.nodes, n)
	n.start()
	return n
}

func (s *sim) node(id ident.StoreID) *node {
	for _, n := range s.nodes {
		if n.store == id {
			return n
		}
	}
	panic("no such store")
}

// pick draws a node for which ok holds, or nil.
func (s *sim) pick(ok func(*node) bool) *node {
	var all []*node
	for _, n := range s.nodes {
		if ok(n) {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[s.rng.IntN(len(all))]
}

func up(n *node) bool { return n.host != nil }

// send puts messages on the network, which may lose and repeat them.
func (s *sim) send(ms []Message) {
	for _, m := range ms {
		copies := 1
		if !s.calm {
			switch s.rng.IntN(20) {
			case 0, 1:
				copies = 0
			case 2:
				copies = 2
			}
		}
		for range copies {
			s.net = append(s.net, packet{m.From, m.To, EncodeMessage(m)})
		}
	}
	for len(s.net) > 4000 {
		s.net = s.net[1:]
	}
}

// deliver takes a packet out of the network, any of them while there are faults.
func (s *sim) deliver() {
	if len(s.net) == 0 {
		return
	}
	i := 0
	if !s.calm && s.rng.IntN(3) == 0 {
		i = s.rng.IntN(len(s.net))
	}
	p := s.net[i]
	s.net = slices.Delete(s.net, i, i+1)
	if s.block[[2]ident.StoreID{p.from, p.to}] {
		return
	}
	if n := s.node(p.to); up(n) {
		m, err := DecodeMessage(p.frame)
		s.must(err)
		s.must(n.host.Step(m))
		n.process()
	}
}

// step lets one thing happen.
func (s *sim) step() {
	switch r := s.rng.IntN(1000); {
	case r < 120:
		if n := s.pick(up); n != nil {
			n.host.Tick()
			n.process()
		}
	case r < 600:
		for range 1 + s.rng.IntN(4) {
			s.deliver()
		}
	case r < 740:
		if n := s.pick(up); n != nil {
			n.sync()
		}
	case r < 860:
		if n := s.pick(up); n != nil {
			n.apply(1 + s.rng.IntN(4))
		}
	case r < 920:
		s.propose()
	case r < 960:
		s.read()
	case r < 962:
		if n := s.pick(up); n != nil {
			n.crash()
		}
	case r < 966:
		if n := s.pick(func(n *node) bool { return !up(n) && !n.lost }); n != nil {
			n.start()
			n.process()
		}
	case r < 967:
		s.partition()
	case r < 970:
		clear(s.block)
	case r < 982:
		if n := s.pick(up); n != nil {
			n.compact(s.groups[s.rng.IntN(len(s.groups))])
		}
	case r < 986:
		s.transfer()
	case r < 988:
		s.loseDisk()
	case r < 992:
		s.heal()
	case r < 993:
		s.tidy()
	default:
		s.move()
	}
}

// partition cuts some of the ways between stores, in one direction or both.
func (s *sim) partition() {
	clear(s.block)
	side := map[ident.StoreID]bool{}
	for _, n := range s.nodes {
		side[n.store] = s.rng.IntN(2) == 0
	}
	both := s.rng.IntN(2) == 0
	for _, a := range s.nodes {
		for _, b := range s.nodes {
			if side[a.store] != side[b.store] && (both || side[a.store]) {
				s.block[[2]ident.StoreID{a.store, b.store}] = true
			}
		}
	}
}

func (s *sim) newToken() (t Token) {
	s.token++
	copy(t[:], fmt.Sprintf("%016d", s.token))
	return t
}

// propose asks a leader, if there is one, and otherwise anybody.
func (s *sim) propose() {
	id := s.groups[s.rng.IntN(len(s.groups))]
	n := s.leader(id)
	if n == nil || s.rng.IntN(8) == 0 {
		n = s.pick(up)
	}
	if n == nil {
		return
	}
	t := s.newToken()
	data := make([]byte, s.rng.IntN(40))
	err := n.host.Propose(id, t, data)
	if err != nil {
		s.counts.Refused++
		n.process()
		return
	}
	s.waiting[t] = n
	if s.rng.IntN(4) == 0 {
		s.must(n.host.Propose(id, t, data)) // the same once more
	}
	n.process()
}

func (s *sim) read() {
	id := s.groups[s.rng.IntN(len(s.groups))]
	n := s.pick(up)
	if n == nil {
		return
	}
	s.readID++
	if n.host.ReadIndex(id, s.readID) == nil {
		n.reads = append(n.reads, reading{group: id, id: s.readID, floor: s.oracle.groups[id].floor})
	}
	n.process()
}

// leader is a node that believes to lead; there may be several.
func (s *sim) leader(id GroupID) *node {
	return s.pick(func(n *node) bool {
		return up(n) && n.host.groups[id] != nil && n.host.groups[id].leading()
	})
}

func (s *sim) transfer() {
	id := s.groups[s.rng.IntN(len(s.groups))]
	if n := s.leader(id); n != nil {
		m, err := n.host.Members(id)
		s.must(err)
		to := m.Members[s.rng.IntN(len(m.Members))].ID
		_ = n.host.TransferLeader(id, to) // a learner is refused
		n.process()
	}
}

// loseDisk destroys a store for ever, if no group has lost one already.
func (s *sim) loseDisk() {
	for _, id := range s.groups {
		if !s.whole(id) {
			return
		}
	}
	redundant := func(n *node) bool {
		return up(n) && !slices.ContainsFunc(s.groups, func(id GroupID) bool {
			m := s.oracle.groups[id].members()
			_, in := m.Find(n.store)
			// One that a change has named and that is not a member may become one
			// any time, and the group may lose another meanwhile.
			return in && len(m.State.Voters) < 3 || !in && n.named[id]
		})
	}
	if n := s.pick(redundant); n != nil && len(s.nodes) < 12 {
		s.counts.LostDisks++
		n.crash()
		n.lost, n.disk = true, nil
		s.newNode()
	}
}

// whole says that every member of a group is alive and knows, for good, the
// membership that it is in. Before that, a group of three does not survive the
// loss of a disk: the members that are left may count by the membership before.
func (s *sim) whole(id GroupID) bool {
	t := s.oracle.groups[id]
	m, since := t.members(), t.configs[len(t.configs)-1].index
	return !m.Joint() && !slices.ContainsFunc(m.Members, func(r Member) bool {
		n := s.node(r.Store)
		return n.lost || n.disk[id] == nil || n.disk[id].Self != r.ID ||
			max(n.disk[id].Hard.Commit, n.disk[id].Meta.Index) < since
	})
}

// heal replaces lost stores, as a reconciler would.
func (s *sim) heal() {
	for _, id := range s.groups {
		n := s.leader(id)
		if n == nil {
			continue
		}
		m, err := n.host.Members(id)
		s.must(err)
		for _, r := range m.Members {
			if !s.node(r.Store).lost {
				continue
			}
			spare := s.pick(func(n *node) bool { _, in := m.Find(n.store); return !n.lost && !in })
			c := Change{Remove: []ident.StoreID{r.Store}}
			if spare != nil {
				c.Voters = []ident.StoreID{spare.store}
			}
			s.change(n, id, c)
			break
		}
	}
}

// tidy removes groups from stores that a leader does not count any more.
func (s *sim) tidy() {
	for _, id := range s.groups {
		l := s.leader(id)
		if l == nil || !s.whole(id) {
			continue
		}
		m, err := l.host.Members(id)
		s.must(err)
		for _, n := range s.nodes {
			if _, in := m.Find(n.store); !in && up(n) && n != l && m.Next >= s.oracle.groups[id].members().Next {
				n.forget(id)
				n.process()
			}
		}
	}
}

// move draws a change of members that nothing calls for.
func (s *sim) move() {
	id := s.groups[s.rng.IntN(len(s.groups))]
	n := s.leader(id)
	if n == nil || !s.whole(id) {
		return
	}
	m, err := n.host.Members(id)
	s.must(err)
	var c Change
	spare := s.pick(func(n *node) bool { _, in := m.Find(n.store); return !n.lost && !in })
	if spare != nil && s.rng.IntN(4) == 0 {
		c.Learners = []ident.StoreID{spare.store}
	} else if spare != nil {
		c.Voters = []ident.StoreID{spare.store}
	}
	for _, r := range m.Members {
		if m.Learner(r.ID) && s.rng.IntN(2) == 0 {
			c.Voters = append(c.Voters, r.Store)
		} else if len(m.State.Voters) > 3 && len(c.Remove) == 0 && s.rng.IntN(2) == 0 ||
			len(m.State.Voters) == 3 && len(c.Voters) == 1 && len(c.Remove) == 0 && s.rng.IntN(3) == 0 {
			c.Remove = append(c.Remove, r.Store)
		}
	}
	s.counts.Moves++
	s.change(n, id, c)
}

func (s *sim) change(n *node, id GroupID, c Change) {
	for _, v := range slices.Concat(c.Voters, c.Learners) {
		s.node(v).named[id] = true
	}
	t := s.newToken()
	if err := n.host.ChangeMembers(id, t, c); err == nil {
		s.waiting[t] = n
	}
	n.process()
}

// settle ends the faults and waits, within a bound, until nothing is open.
func (s *sim) settle() error {
	s.calm = true
	clear(s.block)
	why := ""
	for round := range 400 {
		for _, n := range s.nodes {
			if !up(n) && !n.lost {
				n.start()
				n.process()
			}
		}
		for _, n := range s.nodes {
			if up(n) {
				n.host.Tick()
				n.process()
				n.sync()
				n.apply(1 << 20)
			}
		}
		for range 20 * len(s.nodes) {
			s.deliver()
		}
		for _, n := range s.nodes {
			if up(n) {
				n.sync()
				n.apply(1 << 20)
			}
		}
		if round%15 == 14 {
			s.heal()
		}
		if round > 5 {
			if why = s.unsettled(); why == "" {
				return nil
			}
		}
	}
	return fmt.Errorf("not settled in time: %s", why)
}

func (s *sim) unsettled() string {
	if len(s.waiting) > 0 {
		return fmt.Sprintf("%d proposals without an outcome", len(s.waiting))
	}
	for _, id := range s.groups {
		t := s.oracle.groups[id]
		m := t.members()
		if m.Joint() {
			return id.String() + " is in a joint configuration"
		}
		for _, r := range m.Members {
			n := s.node(r.Store)
			switch {
			case n.lost:
				return fmt.Sprintf("%s: a member is lost", id)
			case n.machines[id] == nil || n.machines[id].index != t.last:
				return fmt.Sprintf("%s: node %d is not at %d", id, n.number, t.last)
			case len(n.reads) > 0:
				return fmt.Sprintf("node %d has reads without an answer", n.number)
			}
		}
		if s.leader(id) == nil {
			return id.String() + " has no leader"
		}
	}
	return ""
}

package control_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/control"
	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// cluster is three stores with a network between them, in a bubble of synctest.
type cluster struct {
	rng   *rand.Rand
	met   *tally
	nodes []*clusterNode
	stop  chan struct{}
	tasks sync.WaitGroup

	mu     sync.Mutex
	net    *rand.Rand
	blocks map[ident.StoreID]bool // who hears and says nothing
	calm   bool

	groups map[consensus.GroupID]*past
	next   uint64
	// catalogs: the groups are catalogs, and no ledgers.
	catalogs bool
}

// clusterNode is one disk and who runs on it.
type clusterNode struct {
	c        *cluster
	disk     *faultfs.FS
	id       ident.StoreID
	store    *segment.Store // nil while it is down
	driver   *control.Driver
	machines map[consensus.GroupID]*ledger
	catalog  *control.Control // instead of machines
	lost     bool
	frames   chan packet
}

type packet struct {
	from  ident.StoreID
	frame []byte
}

// Send is the network of one node: it loses and repeats now and then, and what is
// too much.
func (n *clusterNode) Send(to ident.StoreID, frame []byte) {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	copies := 1
	if !c.calm {
		copies = []int{0, 1, 1, 1, 1, 1, 1, 2}[c.net.IntN(8)]
	}
	if c.blocks[n.id] || c.blocks[to] {
		copies = 0
	}
	for _, other := range c.nodes {
		for range copies {
			if other.id == to {
				select {
				case other.frames <- packet{n.id, slices.Clone(frame)}:
				default:
				}
			}
		}
	}
}

func newCluster(t testing.TB, seed uint64, met *tally, groups int, catalogs bool) *cluster {
	c := &cluster{
		catalogs: catalogs,
		rng:      rand.New(rand.NewPCG(seed, 5)), net: rand.New(rand.NewPCG(seed, 6)), met: met, stop: make(chan struct{}),
		blocks: map[ident.StoreID]bool{}, groups: map[consensus.GroupID]*past{},
	}
	for g := range groups {
		c.groups[consensus.GroupID(g+1)] = &past{perhaps: map[string]bool{}, never: map[string]bool{}}
	}
	for range 3 {
		c.newNode(t)
	}
	// Identities are drawn by the stores; only their order may matter.
	slices.SortFunc(c.nodes, func(a, b *clusterNode) int { return slices.Compare(a.id[:], b.id[:]) })
	for _, n := range c.nodes {
		c.must(t, n.start(c.stores()))
	}
	return c
}

func (c *cluster) must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newNode makes a disk, so that its store has an identity.
func (c *cluster) newNode(t testing.TB) *clusterNode {
	n := &clusterNode{c: c, disk: faultfs.New(faultfs.Config{Seed: c.rng.Uint64()}), frames: make(chan packet, 1000)}
	store, err := segment.Open(n.disk, "d", storeConfig)
	c.must(t, err)
	n.id = store.Identity()
	c.must(t, store.Close())
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	c.tasks.Go(func() {
		for {
			select {
			case <-c.stop:
				return
			case p := <-n.frames:
				c.mu.Lock()
				d := n.driver
				c.mu.Unlock()
				if d != nil {
					c.must(t, d.Receive(p.from, p.frame))
				}
			}
		}
	})
	return n
}

var storeConfig = segment.Config{JournalFileBytes: 64 << 10, OpenFiles: 16, MinFreeBytes: -1, BallastReserve: -1, SyncWorkers: 1}

func (c *cluster) stores() (all []ident.StoreID) {
	for _, n := range c.nodes {
		all = append(all, n.id)
	}
	return all
}

// start begins a life. Without voters the store waits to be taken in.
func (n *clusterNode) start(voters []ident.StoreID) error {
	store, err := segment.Open(n.disk, "d", storeConfig)
	if err != nil {
		return err
	}
	machines := map[consensus.GroupID]*ledger{}
	cfg := control.Config{
		Clock: time.Now, Groups: slices.Sorted(maps.Keys(n.c.groups)), Voters: voters, Transport: n,
		Machine: func(id consensus.GroupID) control.Machine {
			m := &ledger{}
			n.c.mu.Lock()
			defer n.c.mu.Unlock()
			machines[id] = m
			return m
		},
		Admit:     func(consensus.Stranger) bool { return true },
		RollBytes: 2000 + n.c.rng.Int64N(8000), KeepBytes: 300 + n.c.rng.IntN(5000),
		Host: consensus.Config{Random: rand.NewPCG(n.c.rng.Uint64(), 1), MaxChunkBytes: 1000},
	}
	var d *control.Driver
	if !n.c.catalogs {
		d, err = control.OpenDriver(store, cfg)
	} else if n.catalog, err = control.Open(store, cfg); err == nil {
		d = n.catalog.Driver()
	}
	if err != nil {
		return errors.Join(err, store.Close())
	}
	n.store, n.machines = store, machines
	n.c.mu.Lock()
	n.driver = d
	n.c.mu.Unlock()
	return nil
}

// crash ends a life with the power.
func (n *clusterNode) crash() {
	old := n.disk
	n.disk = old.Crash(faultfs.CrashOptions{Seed: n.c.rng.Uint64(), Survive: []int{0, 50, 100}[n.c.rng.IntN(3)]})
	old.Freeze()
	n.leave()
}

func (n *clusterNode) leave() {
	n.c.mu.Lock()
	d := n.driver
	n.driver = nil
	n.c.mu.Unlock()
	if d != nil {
		d.Close()
		for _, m := range n.machines {
			if m.restored > 1 { // the first is that of the start
				n.c.met.add("snapshot")
			}
		}
		n.store.Close() //nolint:errcheck // that it returns is what matters
	}
	n.store = nil
}

func (c *cluster) end() {
	for _, n := range c.nodes {
		n.leave()
	}
	close(c.stop)
	c.tasks.Wait()
}

// up draws a node that runs.
func (c *cluster) up() *clusterNode {
	var all []*clusterNode
	for _, n := range c.nodes {
		if n.driver != nil {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[c.rng.IntN(len(all))]
}

// leader waits for one who leads, and is heard.
func (c *cluster) leader(id consensus.GroupID) *clusterNode {
	for range 600 {
		for _, n := range c.nodes {
			if n.driver == nil || c.blocks[n.id] {
				continue
			}
			if s, ok := n.driver.Status(id); ok && s.Leading {
				return n
			}
		}
		<-time.After(50 * time.Millisecond)
	}
	return nil
}

// propose tells some commands to whoever leads, or does not know better.
func (c *cluster) propose(some int) {
	var wg sync.WaitGroup
	type attempt struct {
		p    *past
		line string
		err  error
	}
	var all []*attempt
	for range some {
		id := consensus.GroupID(1 + c.rng.IntN(len(c.groups)))
		n := c.up()
		if c.rng.IntN(8) > 0 {
			n = c.leader(id)
		}
		if n == nil {
			continue
		}
		c.next++
		a := &attempt{p: c.groups[id], line: fmt.Sprint("c", c.next, strings.Repeat(".", c.rng.IntN(100)))}
		all = append(all, a)
		token, d := tokenOf(c.next), n.driver
		wg.Go(func() { _, a.err = d.Propose(id, token, []byte(a.line)) })
	}
	wg.Wait()
	for _, a := range all {
		switch code := status.CodeOf(a.err); {
		case a.err == nil:
			c.met.add("acknowledged")
			a.p.sure = append(a.p.sure, a.line)
		case code == status.Unknown || code == status.StoreFailed:
			c.met.add("unknown")
			a.p.perhaps[a.line] = true
		default:
			c.met.add("refused")
			a.p.never[a.line] = true
		}
	}
}

// settle ends the faults, waits until all members are at one place, and compares
// them with each other and with what was answered.
func (c *cluster) settle() error {
	c.mu.Lock()
	c.calm = true
	clear(c.blocks)
	c.mu.Unlock()
	for _, n := range c.nodes {
		n.disk.SetInjector(nil)
		if n.driver == nil && !n.lost {
			if err := n.start(nil); err != nil {
				return err
			}
		}
	}
	for id, p := range c.groups {
		n := c.leader(id)
		if n == nil {
			return fmt.Errorf("%s has no leader", id)
		}
		if err := c.together(id, n); err != nil {
			return err
		}
		if c.catalogs {
			continue
		}
		if err := p.holds(n.lines(id)); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	return nil
}

// lines are what a group's ledger holds on a node.
func (n *clusterNode) lines(id consensus.GroupID) []string {
	n.c.mu.Lock()
	m := n.machines[id]
	n.c.mu.Unlock()
	return m.all()
}

// state is what a group's machine holds on a node.
func (n *clusterNode) state(id consensus.GroupID) string {
	if n.catalog == nil {
		return strings.Join(n.lines(id), "\n")
	}
	var b strings.Builder
	n.catalog.View(func(s *catalog.State) {
		for c := range s.Snapshot() {
			b.Write(c)
		}
	})
	return b.String()
}

// together waits until all members of a group have what its leader has.
func (c *cluster) together(id consensus.GroupID, leader *clusterNode) error {
	why := ""
	for range 1200 {
		<-time.After(50 * time.Millisecond)
		s, _ := leader.driver.Status(id)
		why = ""
		if !s.Leading {
			if leader = c.leader(id); leader == nil {
				return fmt.Errorf("%s has no leader any more", id)
			}
			why = "the leader changed"
			continue
		}
		for _, m := range s.Members.Members {
			for _, n := range c.nodes {
				if n.id != m.Store {
					continue
				}
				if n.driver == nil {
					return fmt.Errorf("%s: a member that is down", id)
				}
				o, _ := n.driver.Status(id)
				if o.Applied != s.Applied || n.state(id) != leader.state(id) {
					why = fmt.Sprintf("%s is at %d, the leader at %d", n.id, o.Applied, s.Applied)
				}
			}
		}
		if why == "" {
			return nil
		}
	}
	return fmt.Errorf("%s does not come together: %s", id, why)
}

// holds compares a machine with the answers.
func (p *past) holds(lines []string) error {
	at := map[string]bool{}
	for _, l := range lines {
		if at[l] || p.never[l] {
			return fmt.Errorf("%s is there twice, or was refused: %v", l, p.never[l])
		}
		at[l] = true
	}
	for _, l := range p.sure {
		if !at[l] {
			return fmt.Errorf("%s was acknowledged, and is lost", l)
		}
	}
	if len(lines) > len(p.sure)+len(p.perhaps) {
		return fmt.Errorf("%d commands are there, %d were proposed", len(lines), len(p.sure)+len(p.perhaps))
	}
	return nil
}

const clusterSeed = "QUIRE_CLUSTER_SEED"

// Histories of three stores over disks that crash and fill up and a network that
// loses and cuts, each from its seed.
func TestHistoriesOfThreeStores(t *testing.T) {
	first, last := seeds(t, clusterSeed, 40)
	met := newTally()
	for seed := first; seed <= last; seed++ {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, seed, met, 3, false)
			defer c.end()
			for range 40 {
				if err := c.step(); err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
			}
			if err := c.settle(); err != nil {
				t.Errorf("seed %d: %v\n\treplay it: %s=%d go test ./internal/control -run %s", seed, err, clusterSeed, seed, t.Name())
			}
		})
	}
	t.Log(met.counts)
	for _, what := range []string{"acknowledged", "refused", "unknown", "crash", "cut off", "full", "leader crash", "snapshot"} {
		if last-first+1 == 40 && met.counts[what] < 5 {
			t.Errorf("only %d times: %s", met.counts[what], what)
		}
	}
}

// step lets one thing happen.
func (c *cluster) step() error {
	switch r := c.rng.IntN(20); {
	case r < 8:
		c.propose(1 + c.rng.IntN(20))
	case r < 12:
		<-time.After(time.Duration(c.rng.IntN(2000)) * time.Millisecond)
	case r < 14:
		n := c.up()
		if c.rng.IntN(2) == 0 {
			n = c.leader(1)
		}
		if n == nil {
			return nil
		}
		if s, _ := n.driver.Status(1); s.Leading {
			c.met.add("leader crash")
		}
		c.met.add("crash")
		n.crash()
	case r < 17:
		for _, n := range c.nodes {
			if n.driver == nil {
				return n.start(nil)
			}
		}
	case r < 18:
		if n := c.up(); n != nil {
			c.met.add("cut off")
			c.mu.Lock()
			c.blocks[n.id] = true
			c.mu.Unlock()
		}
	case r < 19:
		c.mu.Lock()
		clear(c.blocks)
		c.mu.Unlock()
	default:
		if n := c.up(); n != nil {
			c.fill(n)
		}
	}
	return nil
}

// fill fills a disk for a while.
func (c *cluster) fill(n *clusterNode) {
	left := 1 + c.rng.IntN(10)
	n.disk.SetInjector(func(op faultfs.Op) faultfs.Fault {
		if op.Kind != faultfs.Write || !strings.Contains(op.Path, "/segments") || left == 0 {
			return faultfs.Fault{}
		}
		left--
		c.met.add("full")
		return faultfs.Fault{Err: syscall.ENOSPC}
	})
}

// inCluster runs f with three stores in a bubble.
func inCluster(t *testing.T, catalogs bool, f func(t *testing.T, c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, newTally(), 1, catalogs)
		c.calm = true
		defer c.end()
		f(t, c)
	})
}

func (c *cluster) mustHave(t *testing.T, n *clusterNode, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if _, err := n.driver.Propose(1, tokenOf(uint64(i+1)), []byte(fmt.Sprint("line ", i))); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		c.groups[1].sure = append(c.groups[1].sure, fmt.Sprint("line ", i))
	}
}

// The leader dies with what it alone has; the others go on, and when it is back its
// suffix gives way.
func TestASuffixThatNobodyAcknowledgedGivesWay(t *testing.T) {
	inCluster(t, false, func(t *testing.T, c *cluster) {
		old := c.leader(1)
		c.mustHave(t, old, 0, 10)
		c.mu.Lock()
		c.blocks[old.id] = true
		c.mu.Unlock()
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				_, err := old.driver.Propose(1, tokenOf(uint64(100+i)), []byte(fmt.Sprint("alone ", i)))
				if status.CodeOf(err) != status.Unknown {
					t.Errorf("a leader that nobody hears: %v", err)
				}
			})
		}
		wg.Wait() // it steps down after a while
		old.crash()
		next := c.leader(1)
		c.mustHave(t, next, 10, 20)
		c.must(t, c.settle())
		if lines := old.lines(1); len(lines) != 20 || lines[10] != "line 10" {
			t.Errorf("the old leader has %q", lines)
		}
	})
}

// A member that was away for longer than the others keep their logs is brought up
// by a snapshot, and so is a store that takes the place of a lost disk under an
// identity of its own.
func TestMembersThatAreFarBehindGetASnapshot(t *testing.T) {
	inCluster(t, false, func(t *testing.T, c *cluster) {
		leader := c.leader(1)
		away := c.nodes[0]
		if away == leader {
			away = c.nodes[1]
		}
		away.leave()
		long := strings.Repeat("x", 4000)
		for i := range 200 {
			line := fmt.Sprint(i, long)
			if _, err := leader.driver.Propose(1, tokenOf(uint64(1000+i)), []byte(line)); err != nil {
				t.Fatal(err)
			}
			c.groups[1].sure = append(c.groups[1].sure, line)
		}
		c.must(t, c.settle())

		away.crash()
		away.lost = true
		fresh := c.newNode(t)
		c.must(t, fresh.start(nil))
		leader = c.leader(1)
		c.must(t, leader.driver.ChangeMembers(1, consensus.Change{Voters: []ident.StoreID{fresh.id}, Remove: []ident.StoreID{away.id}}))
		c.mustHave(t, leader, 0, 5)
		c.must(t, c.settle())
		if got := len(fresh.lines(1)); got != 205 {
			t.Errorf("the new member has %d lines", got)
		}
		// It keeps what it was given.
		fresh.crash()
		c.must(t, c.settle())
		if got := len(fresh.lines(1)); got != 205 {
			t.Errorf("the new member has %d lines after a crash", got)
		}
	})
}

// The catalog is a group as any other: what one leader created is there under the
// next, and all members have the same bytes.
func TestTheCatalogIsEqualOnThreeStores(t *testing.T) {
	inCluster(t, true, func(t *testing.T, c *cluster) {
		for round := range 4 {
			n := c.leader(control.Root)
			for i := range 20 {
				if _, err := n.catalog.Propose(create(n.store, fmt.Sprintf("t%d-%d", round, i))); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := n.catalog.Propose(create(n.store, fmt.Sprintf("t%d-0", round))); status.CodeOf(err) != status.TopicExists {
				t.Errorf("a second topic of a name: %v", err)
			}
			other := c.nodes[0]
			if other == n {
				other = c.nodes[1]
			}
			var refused *consensus.NotLeaderError
			if _, err := other.catalog.Propose(create(n.store, "elsewhere")); !errors.As(err, &refused) || refused.Leader != n.id {
				t.Errorf("a member that does not lead: %v", err)
			}
			n.crash()
			c.must(t, c.settle())
		}
		c.nodes[0].catalog.View(func(s *catalog.State) {
			if err := s.Check(); err != nil || s.Len() != 80 {
				t.Errorf("%d topics, %v", s.Len(), err)
			}
		})
	})
}

package quorum

import (
	"slices"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// simCatalog is the catalog, which never fails, and the slots of each segment,
// which it does not know yet.
type simCatalog struct {
	sim      *sim
	state    *catalog.State
	id       ident.TopicID
	count    int // slots of a segment
	replicas map[ident.SegmentID][]ident.StoreID
	gone     map[ident.SegmentID]bool // retired
}

func newSimCatalog(s *sim, slots int) *simCatalog {
	c := &simCatalog{
		sim: s, state: catalog.New(), id: ident.TopicID{1}, count: slots,
		replicas: map[ident.SegmentID][]ident.StoreID{}, gone: map[ident.SegmentID]bool{},
	}
	n := s.nodes[0]
	n.life = 1 << 30 // the process to which the range is granted first has ended
	res, err := c.state.Apply(catalog.CreateTopic{
		ID: c.id, Name: catalog.Name{Tenant: catalog.DefaultTenant, Namespace: catalog.DefaultNamespace, Topic: "t"},
		Type: catalog.Log, Settings: catalog.DefaultSettings(), Created: 1, Owner: n.owner(),
	})
	s.must(err)
	c.place(res.Opened)
	return c
}

func (c *simCatalog) topic() *catalog.Topic {
	t, _ := c.state.Topic(c.id)
	return t
}

// leaf is the range that takes the appends: always that with the lowest band.
func (c *simCatalog) leaf() *catalog.Range { return c.topic().Route(0) }

// lineage is the leaf and the ranges that it continues, oldest first.
func (c *simCatalog) lineage() []ident.RangeID {
	out := []ident.RangeID{c.leaf().ID}
	for {
		r, _ := c.topic().Range(out[0])
		if len(r.Parents) == 0 {
			return out
		}
		out = slices.Insert(out, 0, r.Parents[0])
	}
}

func (c *simCatalog) slots(id ident.SegmentID) []ident.StoreID { return c.replicas[id] }

func (c *simCatalog) open(id ident.SegmentID) bool { return c.leaf().Open.ID == id }

func (c *simCatalog) retired(id ident.SegmentID) bool { return c.gone[id] }

// place draws the slots of a new segment, its writer's store among them. Some are
// vacant.
func (c *simCatalog) place(o catalog.OpenSegment) {
	slots := []ident.StoreID{o.Store}
	var others []*node
	for _, n := range c.sim.nodes {
		if !n.lost && n.store != o.Store {
			others = append(others, n)
		}
	}
	c.sim.rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	slices.SortStableFunc(others, func(a, b *node) int {
		switch {
		case a.bad == b.bad:
			return 0
		case a.bad:
			return 1
		}
		return -1
	})
	for len(slots) < c.count && len(others) > 0 {
		slots = append(slots, others[0].store)
		others = others[1:]
	}
	for len(slots) < c.count {
		slots = append(slots, ident.StoreID{})
	}
	// A late command may have made a store the writer's that is lost by now. Then
	// all that the segment can spare is gone already.
	if w := c.sim.nodeOf(o.Store); !w.lost && !w.bad && c.sim.chance(8) {
		slots[len(slots)-1] = ident.StoreID{}
	}
	c.sim.rng.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	c.replicas[o.ID] = slots
}

func (c *simCatalog) view(id ident.RangeID) View {
	r, _ := c.topic().Range(id)
	v := View{Range: r}
	if r.Open != nil {
		v.Replicas = c.replicas[r.Open.ID]
	}
	return v
}

// apply makes the command of a proposal and says whether it was applied.
func (c *simCatalog) apply(owner catalog.Owner, id ident.RangeID, p Proposal) bool {
	before, _ := c.topic().Range(id)
	var cmd catalog.Command
	switch p.Kind {
	case ProposeTake:
		cmd = catalog.Grant{Topic: c.id, Range: id, Epoch: p.Epoch, Version: p.Version, Open: p.Open, Seal: p.Seal, Owner: owner}
	case ProposeRoll:
		cmd = catalog.Roll{Topic: c.id, Range: id, Epoch: p.Epoch, Version: p.Version, Open: p.Open, Seal: p.Seal}
	case ProposeEnd:
		at := before.Band.First + (before.Band.Last-before.Band.First)/2 + 1
		cmd = catalog.Split{Topic: c.id, At: at, Ending: catalog.Ending{
			Range: id, Epoch: p.Epoch, Version: p.Version, Open: p.Open, Seal: p.Seal,
		}}
		if c.sim.chance(3) {
			return false // refused, for a reason of the driver's
		}
	}
	res, err := c.state.Apply(cmd)
	if err != nil {
		c.sim.logf("catalog: refuses %v of %v: %v", p.Kind, p.Open, err)
		return false
	}
	if res.Repeated {
		return true
	}
	c.sim.logf("catalog: %v of %v at %d", p.Kind, p.Open, p.Seal.End)
	for _, r := range res.Retired {
		c.gone[r.Segment] = true
	}
	if p.Kind == ProposeEnd {
		c.sim.counts.Ends++
		for _, r := range c.topic().Ranges {
			if r.Open != nil && c.replicas[r.Open.ID] == nil {
				c.place(*r.Open)
			}
		}
	} else {
		if c.replicas[res.Opened.ID] == nil {
			c.place(res.Opened)
		}
		if p.Kind == ProposeTake {
			c.sim.counts.Takes++
		} else {
			c.sim.counts.Rolls++
		}
	}
	c.sim.oracle.sealed(before, p.Seal)
	return true
}

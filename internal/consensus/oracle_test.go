package consensus

import (
	"fmt"
	"slices"

	"github.com/quirelog/quire/internal/ident"
)

// oracle sees all nodes at once and stops the run when two disagree.
type oracle struct {
	sim    *sim
	groups map[GroupID]*truth
}

// truth is what is known of a group: whoever says something first decides it.
type truth struct {
	leaders map[uint64]ident.StoreID // by term
	entries map[uint64]Entry         // committed, by index
	sums    map[uint64]uint64        // of the state machine, by index
	configs []configAt
	last    uint64
	floor   uint64 // what was acknowledged or read: the next read sees it
}

func (o *oracle) found(id GroupID, m Membership) {
	o.groups[id] = &truth{
		leaders: map[uint64]ident.StoreID{}, entries: map[uint64]Entry{}, sums: map[uint64]uint64{1: 0},
		configs: []configAt{{1, m}}, last: 1,
	}
}

func (t *truth) members() Membership { return t.configs[len(t.configs)-1].membership }

func (o *oracle) fail(n *node, id GroupID, format string, args ...any) {
	panic(fmt.Sprintf("node %d, %s: %s", n.number, id, fmt.Sprintf(format, args...)))
}

func (o *oracle) role(n *node, r Role) {
	t := o.groups[r.Group]
	if r.Leader == 0 || r.Store.IsZero() {
		return
	}
	if was, ok := t.leaders[r.Term]; ok && was != r.Store {
		o.fail(n, r.Group, "two leaders of term %d: %s and %s", r.Term, was, r.Store)
	} else if !ok {
		o.sim.counts.Elections++
	}
	t.leaders[r.Term] = r.Store
}

func (o *oracle) committed(n *node, c Committed) {
	t := o.groups[c.Group]
	for _, e := range c.Entries {
		was, ok := t.entries[e.Index]
		switch {
		case !ok && e.Index != t.last+1:
			o.fail(n, c.Group, "entry %d is committed, but %d is not", e.Index, t.last+1)
		case ok && (was.Term != e.Term || was.Kind != e.Kind || was.Token != e.Token || !slices.Equal(was.Data, e.Data)):
			o.fail(n, c.Group, "entry %d is %v and %v", e.Index, was, e)
		}
		t.entries[e.Index] = e
		t.last = max(t.last, e.Index)
	}
}

func (o *oracle) outcome(n *node, out Outcome) {
	t := o.groups[out.Group]
	if o.sim.waiting[out.Token] != n {
		o.fail(n, out.Group, "an outcome that nobody waits for: %v", out)
	}
	delete(o.sim.waiting, out.Token)
	switch out.Result {
	case Decided:
		o.sim.counts.Decided++
		e, ok := t.entries[out.Index]
		if !ok || e.Kind == Nothing || e.Kind == Command && e.Token != out.Token {
			o.fail(n, out.Group, "%v was decided, but the entry is %v", out, e)
		}
		t.floor = max(t.floor, out.Index)
	case Unknown:
		o.sim.counts.Unknown++
	}
}

func (o *oracle) applied(n *node, id GroupID, m *machine) {
	t := o.groups[id]
	if was, ok := t.sums[m.index]; ok && was != m.sum {
		o.fail(n, id, "the state at %d differs", m.index)
	}
	t.sums[m.index] = m.sum
}

func (o *oracle) installed(n *node, id GroupID, s *Snapshot, m *machine) {
	if m.index != s.Meta.Index {
		o.fail(n, id, "a snapshot of %d has the state of %d", s.Meta.Index, m.index)
	}
	if _, ok := o.groups[id].sums[m.index]; !ok {
		o.fail(n, id, "a snapshot of %d, where nobody has been", m.index)
	}
	o.applied(n, id, m)
	if m.index > 1 {
		o.sim.counts.Installs++
	}
}

// membersAt learns and compares the membership from an index on.
func (o *oracle) membersAt(n *node, id GroupID, index uint64) {
	t := o.groups[id]
	g := n.host.groups[id]
	if g == nil || g.history[len(g.history)-1].index != index {
		return // overtaken by a snapshot
	}
	m := g.membership()
	for _, c := range t.configs {
		if c.index == index {
			if fmt.Sprint(c.membership) != fmt.Sprint(m) {
				o.fail(n, id, "the membership at %d is %v and %v", index, c.membership, m)
			}
			return
		}
	}
	o.sim.counts.Changes++
	t.configs = append(t.configs, configAt{index, m})
	slices.SortFunc(t.configs, func(a, b configAt) int { return int(a.index) - int(b.index) })
}

func (o *oracle) served(n *node, r reading, m *machine) {
	t := o.groups[r.group]
	if m.index < r.floor {
		o.fail(n, r.group, "a read sees %d, but %d was acknowledged or read before it began", m.index, r.floor)
	}
	t.floor = max(t.floor, m.index)
	o.sim.counts.Reads++
}

// meta compares what a host says of an index that is applied.
func (o *oracle) meta(n *node, id GroupID, m Meta) {
	t := o.groups[id]
	if e, ok := t.entries[m.Index]; m.Index > 1 && (!ok || e.Term != m.Term) {
		o.fail(n, id, "index %d is of term %d, not %d", m.Index, e.Term, m.Term)
	}
	var want Membership
	for _, c := range t.configs {
		if c.index <= m.Index {
			want = c.membership
		}
	}
	if m.Index > 0 && fmt.Sprint(want) != fmt.Sprint(m.Membership) {
		o.fail(n, id, "the membership at %d is %v, not %v", m.Index, want, m.Membership)
	}
}

package catalog

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/quirelog/quire/internal/ident"
)

// State is a catalog. See the package comment for who may touch it.
type State struct {
	namespaces []Namespace // in order

	// The topics by id, by name, and in name order.
	byID    map[ident.TopicID]*Topic
	byName  map[Name]*Topic
	ordered []*Topic

	retired map[ident.SegmentID]Retired

	// The deleted topics that are remembered, oldest first, and by id.
	tombstones []Tombstone
	gone       map[ident.TopicID]Tombstone
	deletions  uint64

	// The next ids to give out.
	nextRange   ident.RangeID
	nextSegment ident.SegmentID
}

// New is the catalog of an empty cluster: one namespace and no topic.
func New() *State {
	s := empty()
	s.namespaces = []Namespace{{DefaultTenant, DefaultNamespace}}
	return s
}

func empty() *State {
	return &State{
		byID:        map[ident.TopicID]*Topic{},
		byName:      map[Name]*Topic{},
		retired:     map[ident.SegmentID]Retired{},
		gone:        map[ident.TopicID]Tombstone{},
		nextRange:   1,
		nextSegment: 1,
	}
}

// Apply carries out a command. After an error, which is a *status.Error, or
// wraps ErrConflict or ErrMalformed, the state is what it was.
func (s *State) Apply(c Command) (Result, error) { return c.apply(s) }

// Len counts the topics.
func (s *State) Len() int { return len(s.ordered) }

// Lookup finds the topic that has the name now.
func (s *State) Lookup(n Name) (*Topic, bool) {
	t, ok := s.byName[n]
	return t, ok
}

// Topic finds a topic by its incarnation.
func (s *State) Topic(id ident.TopicID) (*Topic, bool) {
	t, ok := s.byID[id]
	return t, ok
}

// After lists the topics whose names come after n, in name order; the zero
// Name begins. The state must not be changed while it is listed.
func (s *State) After(n Name) iter.Seq[*Topic] {
	i, found := s.search(n)
	if found {
		i++
	}
	return slices.Values(s.ordered[i:])
}

// Deleted finds what is remembered of a deleted topic.
func (s *State) Deleted(id ident.TopicID) (Tombstone, bool) {
	t, ok := s.gone[id]
	return t, ok
}

// Deletions counts the topics that were ever deleted; CreateTopic carries it.
func (s *State) Deletions() uint64 { return s.deletions }

// RetiredOn lists, in the order of their ids, the segments that a store is to
// delete and to confirm.
func (s *State) RetiredOn(store ident.StoreID) []Retired {
	var list []Retired
	for _, r := range s.retired {
		if r.Store == store {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, compareRetired)
	return list
}

// Namespaces lists the namespaces in order.
func (s *State) Namespaces() []Namespace { return slices.Clone(s.namespaces) }

// namespace finds the namespace of a topic name.
func (s *State) namespace(n Name) (Namespace, bool) {
	i, ok := slices.BinarySearchFunc(s.namespaces, Namespace{n.Tenant, n.Namespace}, Namespace.compare)
	if !ok {
		return Namespace{}, false
	}
	return s.namespaces[i], true
}

func (n Namespace) compare(m Namespace) int {
	return cmp.Or(strings.Compare(n.Tenant, m.Tenant), strings.Compare(n.Namespace, m.Namespace))
}

func compareRetired(a, b Retired) int { return cmp.Compare(a.Segment, b.Segment) }

func (s *State) search(n Name) (int, bool) {
	return slices.BinarySearchFunc(s.ordered, n, func(t *Topic, n Name) int { return t.Name.Compare(n) })
}

// put makes t the topic of its name and id in all three indexes.
func (s *State) put(t *Topic) {
	if i, found := s.search(t.Name); found {
		s.ordered[i] = t
	} else {
		s.ordered = slices.Insert(s.ordered, i, t)
	}
	s.byID[t.ID], s.byName[t.Name] = t, t
}

// remove takes t out of all three indexes.
func (s *State) remove(t *Topic) {
	if i, found := s.search(t.Name); found {
		s.ordered = slices.Delete(s.ordered, i, i+1)
	}
	delete(s.byID, t.ID)
	delete(s.byName, t.Name)
}

func (s *State) retire(list []Retired) {
	for _, r := range list {
		s.retired[r.Segment] = r
	}
}

// bury remembers a deleted topic and forgets the oldest beyond the limit.
func (s *State) bury(t Tombstone) {
	s.deletions++
	s.tombstones = append(s.tombstones, t)
	s.gone[t.ID] = t
	if over := len(s.tombstones) - MaxTombstones; over > 0 {
		for _, old := range s.tombstones[:over] {
			delete(s.gone, old.ID)
		}
		s.tombstones = s.tombstones[over:]
	}
}

// retiredInOrder is all that is retired, in the order of the ids.
func (s *State) retiredInOrder() []Retired {
	return slices.SortedFunc(maps.Values(s.retired), compareRetired)
}

package catalog

import (
	"strings"
	"testing"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// example is a state that has some of everything: a topic with a trimmed
// front, two sealed segments and an open one in a second epoch, a topic whose
// range has been sealed and split, a deleted topic, and retired segments.
func example(t testing.TB) *State {
	s := New()
	must := func(c Command) Result {
		t.Helper()
		res, err := s.Apply(c)
		if err != nil {
			t.Fatalf("%T: %v", c, err)
		}
		return res
	}
	must(createOrders(identity(1)))
	for n := range uint64(3) {
		must(Roll{
			Topic: identity(1), Range: 1, Epoch: 1, Version: n + 1, Open: ident.SegmentID(n + 1),
			Seal: Seal{
				End: ident.Offset(100 * (n + 1)), Digest: 0xd0 + n, Users: 99, Bytes: 1 << 20,
				LastTime: ident.Timestamp(5_000_000 * (n + 1)),
			},
		})
	}
	must(Grant{
		Topic: identity(1), Range: 1, Epoch: 1, Version: 4, Open: 4, Owner: process2,
		Seal: EmptySeal(*topic(s, 1).Ranges[0].Open),
	})
	settings, err := ParseSettings(map[string]string{
		"ack": "primary", "fsync": "250ms", "replicas": "3", "segment-bytes": "64MiB", "segment-age": "10m",
		"retention-bytes": "1GiB", "retention-age": "7d", "max-value-bytes": "64KiB",
	})
	if err != nil {
		t.Fatal(err)
	}
	must(AlterTopic{Topic: identity(1), Version: 1, Token: identity(0xee), Settings: settings})
	must(OpenSession{Topic: identity(1)})
	must(Trim{Topic: identity(1), TopicVersion: 2, Range: 1, Through: 1})

	deleted := createOrders(identity(2))
	deleted.Name.Topic = "deleted"
	must(deleted)
	must(DeleteTopic{Topic: identity(2), Deleted: 7_000_000})

	split := createOrders(identity(3))
	split.Name.Topic, split.Type, split.Deletions = "split", Cache, 1
	must(split)
	must(Roll{
		Topic: identity(3), Range: 3, Epoch: 1, Version: 1, Open: 7,
		Seal: Seal{End: 10, Digest: 0xe0, Users: 10, Bytes: 100, LastTime: 8_000_000},
	})
	must(Split{Topic: identity(3), Ending: endingOf(topic(s, 3).Ranges[0], EmptySeal(*topic(s, 3).Ranges[0].Open)), At: half})
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return s
}

func topic(s *State, id byte) *Topic { return s.byID[identity(id)] }

// TestCheckFindsEachBreach breaks one invariant after another.
func TestCheckFindsEachBreach(t *testing.T) {
	orders := func(s *State) *Topic { return topic(s, 1) }
	rng := func(s *State) *Range { return orders(s).Ranges[0] }
	split := func(s *State) *Topic { return topic(s, 3) }
	for name, change := range map[string]func(*State){
		"range counter":              func(s *State) { s.nextRange = 0 },
		"range counter bound":        func(s *State) { s.nextRange = counterBound + 1 },
		"segment counter":            func(s *State) { s.nextSegment = 0 },
		"segment counter bound":      func(s *State) { s.nextSegment = counterBound + 1 },
		"deletions bound":            func(s *State) { s.deletions = counterBound + 1 },
		"no default namespace":       func(s *State) { s.namespaces = []Namespace{{"default", "other"}} },
		"namespace out of order":     func(s *State) { s.namespaces = append(s.namespaces, Namespace{"a", "a"}) },
		"namespace of odd name":      func(s *State) { s.namespaces = append(s.namespaces, Namespace{"x", ".."}) },
		"index by id":                func(s *State) { delete(s.byID, identity(1)) },
		"index by name":              func(s *State) { s.byName[split(s).Name] = orders(s) },
		"order of topics":            func(s *State) { s.ordered[0], s.ordered[1] = s.ordered[1], s.ordered[0] },
		"topic without namespace":    func(s *State) { rename(s, Name{"acme", "eu", "orders"}) },
		"topic of odd name":          func(s *State) { rename(s, Name{"default", "default", "a b"}) },
		"topic without id":           func(s *State) { reidentify(s, ident.TopicID{}) },
		"topic type":                 func(s *State) { orders(s).Type = 4 },
		"topic version":              func(s *State) { orders(s).Version = 0 },
		"topic token":                func(s *State) { orders(s).Token = ident.Incarnation{} },
		"token in the first version": func(s *State) { split(s).Token = identity(9) },
		"settings":                   func(s *State) { orders(s).Settings.Replicas = 9 },
		"weak cache":                 func(s *State) { split(s).Settings.Ack = AckPrimary },
		"no ranges":                  func(s *State) { orders(s).Ranges = nil },
		"keyspace begins late":       func(s *State) { rng(s).Band.First = 1 },
		"keyspace ends early":        func(s *State) { rng(s).Band.Last-- },
		"bands overlap":              func(s *State) { split(s).Ranges[1].Band.Last++ },
		"bands leave a hole":         func(s *State) { split(s).Ranges[1].Band.Last-- },
		"band upside down":           func(s *State) { split(s).Ranges[0].Band = keyspace.Band{First: 2, Last: 1} },
		"range order": func(s *State) {
			r := split(s).Ranges
			r[1], r[2] = r[2], r[1]
		},
		"range id zero":              func(s *State) { rng(s).ID = 0 },
		"range id twice":             func(s *State) { rng(s).ID = 3 },
		"range id above the counter": func(s *State) { rng(s).ID = s.nextRange },
		"range epoch":                func(s *State) { rng(s).Epoch = 0 },
		"range epoch not the open":   func(s *State) { rng(s).Epoch++ },
		"range version":              func(s *State) { rng(s).Version = 0 },
		"no store of the owner":      func(s *State) { rng(s).Owner.Store = ident.StoreID{} },
		"no process of the owner":    func(s *State) { rng(s).Owner.Process = ident.Incarnation{} },
		"owner on another store":     func(s *State) { rng(s).Owner.Store = store2 },
		"start before its segment":   func(s *State) { rng(s).Start-- },
		"users before the start":     func(s *State) { rng(s).UserBefore++ },
		"more users than records": func(s *State) {
			r := rng(s)
			r.UserBefore = 101
			for i := range r.Segments {
				r.Segments[i].UserBefore += 2
			}
			r.Open.UserBefore += 2
		},
		"sealed epoch above":     func(s *State) { split(s).Ranges[0].Segments[0].Epoch = 2 },
		"segment id zero":        func(s *State) { rng(s).Segments[0].ID = 0 },
		"segment twice":          func(s *State) { rng(s).Segments[0].ID = 1 }, // which is retired
		"segment ids fall":       func(s *State) { rng(s).Segments[0].ID, rng(s).Segments[1].ID = 3, 2 },
		"segment not counted":    func(s *State) { rng(s).Open.ID = s.nextSegment },
		"segment epoch":          func(s *State) { rng(s).Segments[1].Epoch = 0 },
		"segment epochs fall":    func(s *State) { rng(s).Segments[0].Epoch = 2 },
		"segment hole":           func(s *State) { rng(s).Segments[1].Base++ },
		"segment user count":     func(s *State) { rng(s).Segments[1].UserBefore++ },
		"segment chain":          func(s *State) { rng(s).Segments[1].Chain++ },
		"segment store":          func(s *State) { rng(s).Segments[1].Store = ident.StoreID{} },
		"segment empty":          func(s *State) { rng(s).Segments[1].End = rng(s).Segments[1].Base },
		"segment too many users": func(s *State) { rng(s).Segments[1].Users = 101 },
		"segment end bound":      func(s *State) { split(s).Ranges[0].Segments[0].End = counterBound + 1 },
		"append times fall":      func(s *State) { rng(s).Segments[1].LastTime = rng(s).Segments[0].LastTime - 1 },
		"last time":              func(s *State) { rng(s).LastTime-- },
		"clock below its parent": func(s *State) { split(s).Ranges[1].LastTime = 1 },
		"epoch of its parent":    func(s *State) { split(s).Ranges[1].Epoch, split(s).Ranges[1].Open.Epoch = 1, 1 },
		"child not there":        func(s *State) { split(s).Ranges[0].Children[0] = 99 },
		"child of nobody":        func(s *State) { split(s).Ranges[1].Parents = nil },
		"parent not there":       func(s *State) { split(s).Ranges[1].Parents[0] = 99 },
		"sealed for nobody":      func(s *State) { split(s).Ranges[0].Children = nil },
		"open with children":     func(s *State) { rng(s).Children = []ident.RangeID{3} },
		"open base":              func(s *State) { rng(s).Open.Base++ },
		"open chain":             func(s *State) { rng(s).Open.Chain++ },
		"first chain":            func(s *State) { split(s).Ranges[1].Open.Chain = 1 },
		"too many segments": func(s *State) {
			rng(s).Segments = make([]SealedSegment, MaxSegments+grantReserve+1)
		},
		"retired zero":          func(s *State) { s.retired[0] = Retired{0, identity(2), store1} },
		"retired not counted":   func(s *State) { s.retire([]Retired{{s.nextSegment, identity(2), store1}}) },
		"retired and live":      func(s *State) { s.retire([]Retired{{rng(s).Open.ID, identity(1), store1}}) },
		"retired of no store":   func(s *State) { s.retire([]Retired{{1, identity(1), ident.StoreID{}}}) },
		"retired of no topic":   func(s *State) { s.retire([]Retired{{1, identity(77), store1}}) },
		"deletion not counted":  func(s *State) { s.deletions = 0 },
		"deletions without one": func(s *State) { s.deletions = 2 },
		"tombstone index":       func(s *State) { delete(s.gone, identity(2)) },
		"tombstone and live": func(s *State) {
			dead := Tombstone{identity(1), orders(s).Name, 1}
			s.tombstones, s.gone = []Tombstone{dead}, map[ident.TopicID]Tombstone{identity(1): dead}
		},
		"tombstone of odd name": func(s *State) {
			s.tombstones[0].Name.Topic = ""
			s.gone[identity(2)] = s.tombstones[0]
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			s := example(t)
			change(s)
			if err := s.Check(); err == nil {
				t.Error("not found")
			}
		})
	}
}

func rename(s *State, n Name) {
	t := *topic(s, 1)
	s.remove(&t)
	t.Name = n
	s.put(&t)
}

func reidentify(s *State, id ident.TopicID) {
	t := *topic(s, 1)
	s.remove(&t)
	t.ID = id
	s.put(&t)
}

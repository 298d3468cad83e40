package catalog

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

func TestTopicsAreListedInNameOrder(t *testing.T) {
	s := New()
	for i, name := range []string{"m", "b", "z", "a", "b.c", "b-c", "B"} {
		apply(t, s, CreateTopic{
			ID: identity(byte(i + 1)), Name: Name{"default", "default", name}, Type: Log, Settings: DefaultSettings(),
			Owner: process1,
		})
	}
	list := func(after string, limit int) (names []string) {
		n := Name{}
		if after != "" {
			n = Name{"default", "default", after}
		}
		for topic := range s.After(n) {
			if len(names) == limit {
				break
			}
			names = append(names, topic.Name.Short())
		}
		return names
	}
	equal(t, list("", 100), []string{"B", "a", "b", "b-c", "b.c", "m", "z"})
	equal(t, list("b", 2), []string{"b-c", "b.c"}) // after one that is there
	equal(t, list("c", 9), []string{"m", "z"})     // after one that is not
	equal(t, list("z", 9), nil)
	equal(t, s.Len(), 7)
	equal(t, s.Namespaces(), []Namespace{{"default", "default"}})

	apply(t, s, DeleteTopic{Topic: identity(1)})
	equal(t, list("b.c", 9), []string{"z"})
	if _, ok := s.Lookup(Name{"default", "default", "m"}); ok {
		t.Error("a deleted topic is found by its name")
	}
	got, ok := s.Lookup(Name{"default", "default", "b.c"})
	if byID := topicOf(t, s, identity(5)); !ok || got != byID {
		t.Errorf("by name %v, by id %v", got, byID)
	}
}

func TestListsOfTheCallerAreItsOwn(t *testing.T) {
	s := example(t)
	s.Namespaces()[0].Tenant = "x"
	for i := range s.RetiredOn(store1) {
		s.RetiredOn(store1)[i] = Retired{}
	}
	SettingsTable()[0].Name = "x"
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if SettingsTable()[0].Name != "ack" {
		t.Error("the table of settings has changed")
	}
}

func TestFindGivesTheSegmentOfAnOffset(t *testing.T) {
	r := topic(example(t), 1).Ranges[0]
	for _, tc := range []struct {
		at ident.Offset
		id ident.SegmentID
	}{{0, 0}, {99, 0}, {100, 2}, {199, 2}, {200, 3}, {299, 3}, {300, 5}, {1 << 40, 5}} {
		g, ok := r.Find(tc.at)
		if g.ID != tc.id || ok != (tc.id != 0) {
			t.Errorf("offset %d is in %v, %v; want %v", tc.at, g.ID, ok, tc.id)
		}
	}
	dead := topic(example(t), 3).Ranges[0]
	if g, ok := dead.Find(9); !ok || g.ID != 7 {
		t.Errorf("the last offset of a sealed range is in %v", g.ID)
	}
	if g, ok := dead.Find(10); ok {
		t.Errorf("an offset past a sealed range is in %v", g.ID)
	}
}

// TestEachPositionHasOneRange is L2 as far as the catalog goes: whatever the
// splits, one range takes the appends of a position.
func TestEachPositionHasOneRange(t *testing.T) {
	split := topic(example(t), 3)
	rapid.Check(t, func(t *rapid.T) {
		p := ident.Position(rapid.Uint64().Draw(t, "position"))
		var homes []ident.RangeID
		for _, r := range split.Ranges {
			if !r.Sealed() && r.Band.Contains(p) {
				homes = append(homes, r.ID)
			}
		}
		if got := split.Route(p); len(homes) != 1 || got.ID != homes[0] {
			t.Fatalf("position %d: homes %v, route %v", p, homes, got)
		}
	})
	for _, p := range []ident.Position{0, 1<<63 - 1, 1 << 63, keyspace.Full().Last} {
		if got := split.Route(p); got == nil || got.Sealed() {
			t.Errorf("position %d goes to %v", p, got)
		}
	}
	ids := slices.Collect(func(yield func(ident.RangeID) bool) {
		for id := ident.RangeID(0); id < 9; id++ {
			if r, ok := split.Range(id); ok && (r.ID != id || !yield(id)) {
				return
			}
		}
	})
	equal(t, ids, []ident.RangeID{3, 4, 5})
}

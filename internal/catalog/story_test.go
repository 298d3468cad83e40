package catalog

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/status"
)

// identity is one that is recognized in a failure's output.
func identity(n byte) ident.Incarnation {
	return ident.Incarnation{0: n, 15: n}
}

var (
	store1   = identity(0xd1)
	store2   = identity(0xd2)
	process1 = Owner{store1, identity(0x01)}
	process2 = Owner{store1, identity(0x02)}
	process3 = Owner{store2, identity(0x03)}
	orders   = Name{"default", "default", "orders"}
)

func createOrders(id ident.TopicID) CreateTopic {
	return CreateTopic{
		ID: id, Name: orders, Type: Log, Settings: DefaultSettings(), Created: 1_000_000, Owner: process1,
	}
}

// apply applies a command that must be accepted, and checks the state.
func apply(t *testing.T, s *State, c Command) Result {
	t.Helper()
	res, err := s.Apply(c)
	if err != nil {
		t.Fatalf("%T: %v", c, err)
	}
	if err := s.Check(); err != nil {
		t.Fatalf("after %T: %v", c, err)
	}
	return res
}

// refuse applies a command that must be refused and change nothing.
func refuse(t *testing.T, s *State, c Command) error {
	t.Helper()
	before := snapshot(s)
	_, err := s.Apply(c)
	if err == nil {
		t.Fatalf("%T was accepted: %+v", c, c)
	}
	if !slices.EqualFunc(before, snapshot(s), slices.Equal) {
		t.Fatalf("%T was refused (%v) and changed the state", c, err)
	}
	return err
}

func conflict(t *testing.T, s *State, c Command) {
	t.Helper()
	if err := refuse(t, s, c); !errors.Is(err, ErrConflict) {
		t.Errorf("%T: %v, want a conflict", c, err)
	}
}

func malformed(t *testing.T, s *State, c Command) {
	t.Helper()
	if err := refuse(t, s, c); !errors.Is(err, ErrMalformed) {
		t.Errorf("%T: %v, want it malformed", c, err)
	}
}

func refuseWith(t *testing.T, s *State, code status.Code, c Command) {
	t.Helper()
	if err := refuse(t, s, c); status.CodeOf(err) != code {
		t.Errorf("%T: %v, want code %s", c, err, code)
	}
}

// repeat applies a command again, which must say so and change nothing.
func repeat(t *testing.T, s *State, c Command) Result {
	t.Helper()
	before := snapshot(s)
	res, err := s.Apply(c)
	if err != nil || !res.Repeated {
		t.Fatalf("%T again: %+v, %v", c, res, err)
	}
	if !slices.EqualFunc(before, snapshot(s), slices.Equal) {
		t.Fatalf("%T again changed the state", c)
	}
	return res
}

func snapshot(s *State) [][]byte { return slices.Collect(s.Snapshot()) }

func TestLifeOfATopic(t *testing.T) {
	s, id := New(), identity(0xa1)

	// It is created with one range over all keys, granted, and a segment.
	create := createOrders(id)
	res := apply(t, s, create)
	wantTopic := &Topic{
		ID: id, Name: orders, Type: Log, Settings: DefaultSettings(), Version: 1, Created: 1_000_000,
		Ranges: []*Range{{
			ID: 1, Band: keyspace.Full(), Epoch: 1, Owner: process1, Version: 1,
			Open: &OpenSegment{ID: 1, Epoch: 1, Store: store1},
		}},
	}
	equal(t, res, Result{Topic: wantTopic, Opened: OpenSegment{ID: 1, Epoch: 1, Store: store1}})
	equal(t, repeat(t, s, create), Result{Repeated: true, Topic: wantTopic, Opened: res.Opened})

	// Its first segment is full: the next continues where it ended.
	roll := Roll{
		Topic: id, Range: 1, Epoch: 1, Version: 1, Open: 1,
		Seal: Seal{End: 100, Digest: 0xabc, Users: 90, Bytes: 5000, LastTime: 2_000_000},
	}
	res = apply(t, s, roll)
	second := OpenSegment{ID: 2, Epoch: 1, Base: 100, UserBefore: 90, Chain: 0xabc, Store: store1}
	equal(t, res.Opened, second)
	equal(t, repeat(t, s, roll).Opened, second)

	// The process starts again on a segment with records: they are sealed.
	grant := Grant{
		Topic: id, Range: 1, Epoch: 1, Version: 2, Open: 2, Owner: process2,
		Seal: Seal{End: 120, Digest: 0xdef, Users: 20, Bytes: 900, LastTime: 3_000_000},
	}
	res = apply(t, s, grant)
	third := OpenSegment{ID: 3, Epoch: 2, Base: 120, UserBefore: 110, Chain: 0xdef, Store: store1}
	equal(t, res.Opened, third)
	equal(t, repeat(t, s, grant).Opened, third)
	// What the process before it wanted comes too late.
	conflict(t, s, Roll{Topic: id, Range: 1, Epoch: 1, Version: 2, Open: 2, Seal: grant.Seal})
	conflict(t, s, roll)

	// It starts again on another store, and nothing had been written.
	res = apply(t, s, Grant{
		Topic: id, Range: 1, Epoch: 2, Version: 3, Open: 3, Owner: process3, Seal: EmptySeal(third),
	})
	fourth := OpenSegment{ID: 4, Epoch: 3, Base: 120, UserBefore: 110, Chain: 0xdef, Store: store2}
	equal(t, res.Opened, fourth)
	equal(t, res.Retired, []Retired{{Segment: 3, Topic: id, Store: store1}})
	equal(t, len(res.Topic.Ranges[0].Segments), 2)

	// Its settings change, which makes a retention that was decided before void.
	settings, err := DefaultSettings().With(map[string]string{"retention-bytes": "1"})
	if err != nil {
		t.Fatal(err)
	}
	alter := AlterTopic{Topic: id, Version: 1, Token: identity(0xee), Settings: settings}
	res = apply(t, s, alter)
	equal(t, res.Topic.Settings, settings)
	equal(t, res.Topic.Version, uint64(2))
	repeat(t, s, alter)
	conflict(t, s, AlterTopic{Topic: id, Version: 1, Token: identity(0xef), Settings: DefaultSettings()})
	conflict(t, s, Trim{Topic: id, TopicVersion: 1, Range: 1, Through: 1})

	// Sessions of producers are given out once each.
	session := OpenSession{Topic: id}
	equal(t, apply(t, s, session).Topic.Sessions, uint64(1))
	conflict(t, s, session)
	session.Sessions = 1
	equal(t, apply(t, s, session).Topic.Sessions, uint64(2))

	// The first segment goes, and stays listed until its store confirms.
	trim := Trim{Topic: id, TopicVersion: 2, Range: 1, Through: 1}
	res = apply(t, s, trim)
	r := res.Topic.Ranges[0]
	equal(t, [...]uint64{uint64(r.Start), r.UserBefore, uint64(len(r.Segments))}, [...]uint64{100, 90, 1})
	equal(t, res.Retired, []Retired{{Segment: 1, Topic: id, Store: store1}})
	repeat(t, s, trim)
	equal(t, s.RetiredOn(store1), []Retired{{1, id, store1}, {3, id, store1}})
	conflict(t, s, ConfirmRetired{[]Retired{{1, id, store2}}})
	conflict(t, s, ConfirmRetired{[]Retired{{1, identity(0xa2), store1}}})
	confirm := ConfirmRetired{s.RetiredOn(store1)}
	apply(t, s, confirm)
	repeat(t, s, confirm)
	equal(t, s.RetiredOn(store1), nil)
	for _, kept := range []ident.SegmentID{2, 4} {
		conflict(t, s, ConfirmRetired{[]Retired{{kept, id, store1}}})
	}

	// It is deleted, and the next of its name is another.
	remove := DeleteTopic{Topic: id, Deleted: 9_000_000}
	res = apply(t, s, remove)
	equal(t, res, Result{Retired: []Retired{{2, id, store1}, {4, id, store2}}})
	repeat(t, s, remove)
	tombstone, ok := s.Deleted(id)
	equal(t, tombstone, Tombstone{ID: id, Name: orders, Deleted: 9_000_000})
	equal(t, ok, true)
	conflict(t, s, create)
	next := createOrders(identity(0xa2))
	next.Deletions = s.Deletions()
	res = apply(t, s, next)
	equal(t, res.Topic.Ranges[0].ID, ident.RangeID(2))
	equal(t, res.Opened.ID, ident.SegmentID(5))
	refuseWith(t, s, status.TopicNotFound, alter)
	refuseWith(t, s, status.TopicNotFound, roll)
	refuseWith(t, s, status.TopicNotFound, trim)
	repeat(t, s, remove)
}

func equal[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

package catalog

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// numbered is an identity for each of many.
func numbered(n int) (id ident.Incarnation) {
	binary.BigEndian.PutUint64(id[:], uint64(n)+1)
	return id
}

func createNumbered(n int, deletions uint64) CreateTopic {
	return CreateTopic{
		ID: numbered(n), Name: Name{"default", "default", fmt.Sprintf("sensor.readings-%06d", n)}, Type: Log,
		Settings: DefaultSettings(), Created: ident.Timestamp(n), Owner: process1, Deletions: deletions,
	}
}

func many(t testing.TB, topics int) *State {
	t.Helper()
	s := New()
	for n := range topics {
		if _, err := s.Apply(createNumbered(n, 0)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestTopicsAreBounded(t *testing.T) {
	s := New()
	for n := range MaxTopics {
		c := createNumbered(n, 0)
		s.put(&Topic{ID: c.ID, Name: c.Name})
	}
	if _, err := s.Apply(createNumbered(MaxTopics, 0)); status.CodeOf(err) != status.LimitReached {
		t.Errorf("a topic more: %v", err)
	}
	for _, c := range []Command{DeleteTopic{Topic: numbered(0)}, createNumbered(MaxTopics, 1)} {
		if _, err := s.Apply(c); err != nil {
			t.Errorf("%T: %v", c, err)
		}
	}
}

// TestForgottenTopicsDoNotComeBack: when so many topics have been deleted that
// the first is not remembered any more, what created it is still too late.
func TestForgottenTopicsDoNotComeBack(t *testing.T) {
	s := New()
	for n := range MaxTombstones + 1 {
		for _, c := range []Command{createNumbered(n, s.Deletions()), DeleteTopic{Topic: numbered(n)}} {
			if _, err := s.Apply(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Deleted(numbered(0)); ok {
		t.Error("the first deleted topic is still remembered")
	}
	if _, ok := s.Deleted(numbered(1)); !ok {
		t.Error("the second deleted topic is forgotten")
	}
	if got := len(s.tombstones); got != MaxTombstones {
		t.Errorf("%d tombstones", got)
	}
	conflict(t, s, createNumbered(0, 0))
	refuseWith(t, s, status.TopicNotFound, DeleteTopic{Topic: numbered(0)})
	conflict(t, s, createNumbered(1, 1)) // remembered
	if _, err := load(snapshot(s)); err != nil {
		t.Errorf("the snapshot does not load: %v", err)
	}
}

func TestRetiredSegmentsAreBounded(t *testing.T) {
	s, id := New(), identity(1)
	open := apply(t, s, createOrders(id)).Opened
	sealed := Seal{End: 10, Digest: 1, Users: 10}
	open = apply(t, s, Roll{Topic: id, Range: 1, Epoch: 1, Version: 1, Open: open.ID, Seal: sealed}).Opened
	s.nextSegment = 2 * MaxRetired
	for n := range MaxRetired {
		r := Retired{ident.SegmentID(100 + n), id, store1}
		s.retired[r.Segment] = r
	}

	trim := Trim{Topic: id, TopicVersion: 1, Range: 1, Through: 1}
	replace := Grant{Topic: id, Range: 1, Epoch: 1, Version: 2, Open: 2, Seal: EmptySeal(open), Owner: process2}
	remove := DeleteTopic{Topic: id}
	for _, c := range []Command{trim, replace, remove} {
		if _, err := s.Apply(c); status.CodeOf(err) != status.LimitReached {
			t.Errorf("%T at the limit: %v", c, err)
		}
		if n := len(s.retired); n != MaxRetired {
			t.Fatalf("%T at the limit: %d retired", c, n)
		}
	}
	if _, err := s.Apply(ConfirmRetired{[]Retired{{100, id, store1}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(remove); status.CodeOf(err) != status.LimitReached {
		t.Errorf("a deletion of two segments with room for one: %v", err)
	}
	if _, err := s.Apply(trim); err != nil {
		t.Errorf("a trim of one segment with room for one: %v", err)
	}
}

// TestARangeAtItsLimitIsStillGranted: rolls end at the limit, so that the open
// segment grows, and grants go on for a while.
func TestARangeAtItsLimitIsStillGranted(t *testing.T) {
	s, id := New(), identity(1)
	apply(t, s, createOrders(id))
	r := *topicOf(t, s, id).Ranges[0]
	for n := range MaxSegments {
		at := uint64(n)
		r.Segments = append(r.Segments, SealedSegment{
			OpenSegment{
				ID: ident.SegmentID(n + 1), Epoch: 1, Base: ident.Offset(n), UserBefore: at, Chain: at, Store: store1,
			},
			Seal{End: ident.Offset(n + 1), Digest: at + 1, Users: 1},
		})
	}
	r.Open = &OpenSegment{
		ID: MaxSegments + 1, Epoch: 1, Base: MaxSegments, UserBefore: MaxSegments, Chain: MaxSegments, Store: store1,
	}
	s.nextSegment = r.Open.ID + 1
	s.put(topicOf(t, s, id).with(&r))
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}

	seal := func(open *OpenSegment) Seal { return Seal{End: open.Base + 1, Digest: 5, Users: 1} }
	roll := Roll{Topic: id, Range: 1, Epoch: 1, Version: 1, Open: r.Open.ID, Seal: seal(r.Open)}
	if _, err := s.Apply(roll); status.CodeOf(err) != status.LimitReached {
		t.Errorf("a roll at the limit: %v", err)
	}
	grant := func(now *Range) Grant {
		return Grant{
			Topic: id, Range: 1, Epoch: now.Epoch, Version: now.Version, Open: now.Open.ID, Seal: seal(now.Open),
			Owner: process2,
		}
	}
	for range grantReserve {
		if _, err := s.Apply(grant(topicOf(t, s, id).Ranges[0])); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(grant(topicOf(t, s, id).Ranges[0])); status.CodeOf(err) != status.LimitReached {
		t.Errorf("a grant at its own limit: %v", err)
	}
}

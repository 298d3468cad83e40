package catalog

import (
	"testing"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/status"
)

const half = ident.Position(1) << 63

func endingOf(r *Range, seal Seal) Ending {
	return Ending{Range: r.ID, Epoch: r.Epoch, Version: r.Version, Open: r.Open.ID, Seal: seal}
}

// splitOrders makes the topic and splits it in the middle after 100 records.
func splitOrders(t *testing.T) (*State, *Topic, Split) {
	t.Helper()
	s := New()
	topic := apply(t, s, createOrders(identity(0xa1))).Topic
	split := Split{
		Topic: topic.ID, At: half,
		Ending: endingOf(topic.Ranges[0], Seal{End: 100, Digest: 7, Users: 90, Bytes: 5000, LastTime: 2_000_000}),
	}
	return s, apply(t, s, split).Topic, split
}

func TestASplitEndsTheParentAndContinuesItTwice(t *testing.T) {
	s, topic, split := splitOrders(t)
	parent, low, high := topic.Ranges[0], topic.Ranges[1], topic.Ranges[2]
	equal(t, parent.Children, []ident.RangeID{2, 3})
	if !parent.Sealed() || parent.End() != 100 || len(parent.Segments) != 1 {
		t.Errorf("parent %+v", parent)
	}
	for _, c := range []struct {
		r    *Range
		id   ident.RangeID
		band keyspace.Band
		open ident.SegmentID
	}{{low, 2, keyspace.Band{Last: half - 1}, 2}, {high, 3, keyspace.Band{First: half, Last: keyspace.Full().Last}, 3}} {
		equal(t, c.r, &Range{
			ID: c.id, Band: c.band, Epoch: 2, Owner: process1, Version: 1, LastTime: 2_000_000,
			Parents: []ident.RangeID{1}, Open: &OpenSegment{ID: c.open, Epoch: 2, Store: store1},
		})
	}
	repeat(t, s, split)

	// What comes late is a conflict: nothing is appended to a sealed parent.
	conflict(t, s, Roll{Topic: topic.ID, Range: 1, Epoch: 1, Version: 1, Open: 1, Seal: split.Ending.Seal})
	other := split
	other.At = half + 1
	conflict(t, s, other)
	other = split
	other.Ending.Seal.End++
	conflict(t, s, other)
}

func TestAMergeEndsBothAndContinuesThemOnce(t *testing.T) {
	s, topic, _ := splitOrders(t)
	merge := Merge{
		Topic: topic.ID,
		Left:  endingOf(topic.Ranges[1], Seal{End: 10, Digest: 1, Users: 10, Bytes: 1, LastTime: 3_000_000}),
		Right: endingOf(topic.Ranges[2], EmptySeal(*topic.Ranges[2].Open)),
	}
	res := apply(t, s, merge)
	equal(t, res.Retired, []Retired{{Segment: 3, Topic: topic.ID, Store: store1}})
	equal(t, res.Topic.Ranges[3], &Range{
		ID: 4, Band: keyspace.Full(), Epoch: 3, Owner: process1, Version: 1, LastTime: 3_000_000,
		Parents: []ident.RangeID{2, 3}, Open: &OpenSegment{ID: 4, Epoch: 3, Store: store1},
	})
	repeat(t, s, merge)
	if n := res.Topic.Leaves(); n != 1 {
		t.Errorf("%d leaves", n)
	}
}

func TestReshapingIsRefused(t *testing.T) {
	s, topic, _ := splitOrders(t)
	low, high := topic.Ranges[1], topic.Ranges[2]
	empty := func(r *Range) Ending { return endingOf(r, EmptySeal(*r.Open)) }
	for _, at := range []ident.Position{0, half, half + 5} {
		malformed(t, s, Split{Topic: topic.ID, Ending: empty(low), At: at})
	}
	malformed(t, s, Merge{Topic: topic.ID, Left: empty(high), Right: empty(low)})
	malformed(t, s, Merge{Topic: topic.ID, Left: empty(low), Right: empty(low)})

	// Two at once: the first wins.
	apply(t, s, Split{Topic: topic.ID, Ending: empty(low), At: half / 2})
	conflict(t, s, Split{Topic: topic.ID, Ending: empty(low), At: half / 4})
	conflict(t, s, Merge{Topic: topic.ID, Left: empty(low), Right: empty(high)})

	// A merge needs one primary.
	granted := apply(t, s, Grant{
		Topic: topic.ID, Range: high.ID, Epoch: high.Epoch, Version: high.Version, Open: high.Open.ID,
		Seal: EmptySeal(*high.Open), Owner: process2,
	}).Topic
	conflict(t, s, Merge{Topic: topic.ID, Left: empty(granted.Ranges[4]), Right: empty(granted.Ranges[2])})
	refuseWith(t, s, status.TopicNotFound, Split{Topic: identity(9), Ending: empty(low), At: 1})
}

func TestOldStubsAreForgottenOnceTheirRecordsAre(t *testing.T) {
	s := New()
	topic := apply(t, s, createOrders(identity(0xa1))).Topic
	// Each turn splits the first range and merges it again.
	for len(topic.Ranges)-topic.Leaves() < MaxStubs {
		r := topic.Route(0)
		topic = mustApply(t, s, Split{Topic: topic.ID, Ending: endingOf(r, EmptySeal(*r.Open)), At: half}).Topic
		l, h := topic.Route(0), topic.Route(half)
		topic = mustApply(t, s, Merge{
			Topic: topic.ID, Left: endingOf(l, EmptySeal(*l.Open)), Right: endingOf(h, EmptySeal(*h.Open)),
		}).Topic
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if n := len(topic.Ranges) - topic.Leaves(); n != MaxStubs {
		t.Errorf("%d stubs, at most %d", n, MaxStubs)
	}
	if _, ok := topic.Range(1); ok {
		t.Error("the first range is still remembered")
	}
}

// mustApply is apply without the check, for long histories.
func mustApply(t *testing.T, s *State, c Command) Result {
	t.Helper()
	res, err := s.Apply(c)
	if err != nil {
		t.Fatalf("%T: %v", c, err)
	}
	return res
}

package catalog

import (
	"strings"
	"testing"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

func TestCreateTopicIsRefused(t *testing.T) {
	s := New()
	apply(t, s, createOrders(identity(1)))
	with := func(change func(*CreateTopic)) CreateTopic {
		c := createOrders(identity(2))
		c.Name.Topic = "other"
		change(&c)
		return c
	}

	refuseWith(t, s, status.TopicExists, createOrders(identity(2)))
	conflict(t, s, with(func(c *CreateTopic) { c.ID = identity(1) }))
	conflict(t, s, with(func(c *CreateTopic) { c.Deletions = 1 }))
	malformed(t, s, with(func(c *CreateTopic) { c.ID = ident.TopicID{} }))
	malformed(t, s, with(func(c *CreateTopic) { c.Owner.Store = ident.StoreID{} }))
	malformed(t, s, with(func(c *CreateTopic) { c.Owner.Process = ident.Incarnation{} }))
	malformed(t, s, with(func(c *CreateTopic) { c.Type = 0 }))
	malformed(t, s, with(func(c *CreateTopic) { c.Type = Counter + 1 }))
	refuseWith(t, s, status.InvalidName, with(func(c *CreateTopic) { c.Name.Topic = "a b" }))
	refuseWith(t, s, status.NotSupported, with(func(c *CreateTopic) { c.Name.Namespace = "eu" }))
	refuseWith(t, s, status.InvalidArgument, with(func(c *CreateTopic) { c.Settings = Settings{} }))
}

func TestOnlyLogsMayBeWeak(t *testing.T) {
	for _, weak := range []map[string]string{{"ack": "primary"}, {"fsync": "never"}, {"fsync": "1s"}} {
		settings, err := ParseSettings(weak)
		if err != nil || !settings.Weak() {
			t.Fatalf("%v: weak %v, %v", weak, settings.Weak(), err)
		}
		s := New()
		for typ := Log; typ <= Counter; typ++ {
			c := CreateTopic{
				ID: identity(byte(typ)), Name: Name{"default", "default", typ.String()}, Type: typ,
				Settings: DefaultSettings(), Owner: process1,
			}
			apply(t, s, c)
			alter := AlterTopic{Topic: c.ID, Version: 1, Token: identity(9), Settings: settings}
			c.ID, c.Name.Topic, c.Settings = identity(100+byte(typ)), c.Name.Topic+"2", settings
			if typ == Log {
				apply(t, s, c)
				apply(t, s, alter)
				continue
			}
			refuseWith(t, s, status.InvalidArgument, c)
			refuseWith(t, s, status.InvalidArgument, alter)
		}
	}
}

func TestAlterTopicIsRefused(t *testing.T) {
	s := New()
	apply(t, s, createOrders(identity(1)))
	good := AlterTopic{Topic: identity(1), Version: 1, Token: identity(9), Settings: DefaultSettings()}

	c := good
	c.Token = ident.Incarnation{}
	malformed(t, s, c)
	c = good
	c.Version = 2
	conflict(t, s, c)
	c = good
	c.Topic = identity(2)
	refuseWith(t, s, status.TopicNotFound, c)
	c = good
	c.Settings.SegmentBytes = 1
	refuseWith(t, s, status.InvalidArgument, c)
	refuseWith(t, s, status.TopicNotFound, DeleteTopic{Topic: identity(2)})
}

func TestGrantAndRollCompareWhatWasRead(t *testing.T) {
	s, id := New(), identity(1)
	apply(t, s, createOrders(id))
	apply(t, s, Roll{
		Topic: id, Range: 1, Epoch: 1, Version: 1, Open: 1, Seal: Seal{End: 10, Digest: 7, Users: 10, Bytes: 1, LastTime: 50},
	})
	seal := Seal{End: 20, Digest: 8, Users: 10, Bytes: 1, LastTime: 60}
	roll := Roll{Topic: id, Range: 1, Epoch: 1, Version: 2, Open: 2, Seal: seal}
	both := func(check func(*testing.T, *State, Command), change func(*Roll)) {
		t.Helper()
		c := roll
		change(&c)
		check(t, s, c)
		check(t, s, Grant{
			Topic: c.Topic, Range: c.Range, Epoch: c.Epoch, Version: c.Version, Open: c.Open, Seal: c.Seal, Owner: process2,
		})
	}

	both(conflict, func(c *Roll) { c.Range = 2 })
	both(conflict, func(c *Roll) { c.Epoch = 2 })
	both(conflict, func(c *Roll) { c.Version = 1 })
	both(conflict, func(c *Roll) { c.Open = 3 })
	both(malformed, func(c *Roll) { c.Seal.End = 9 })
	both(malformed, func(c *Roll) { c.Seal.End = counterBound + 1 })
	both(malformed, func(c *Roll) { c.Seal.End = 10 })
	both(malformed, func(c *Roll) { c.Seal.Users = 11 })
	both(malformed, func(c *Roll) { c.Seal.LastTime = 49 })

	// The same segment sealed in another way is not the roll that was applied.
	conflict(t, s, Roll{
		Topic: id, Range: 1, Epoch: 1, Version: 1, Open: 1, Seal: Seal{End: 10, Digest: 6, Users: 10, Bytes: 1, LastTime: 50},
	})
	// Without records, a grant may replace a segment and a roll may not.
	r := topicOf(t, s, id).Ranges[0]
	malformed(t, s, Roll{Topic: id, Range: 1, Epoch: 1, Version: 2, Open: 2, Seal: EmptySeal(*r.Open)})
	malformed(t, s, Grant{Topic: id, Range: 1, Epoch: 1, Version: 2, Open: 2, Seal: EmptySeal(*r.Open)})
	apply(t, s, Grant{Topic: id, Range: 1, Epoch: 1, Version: 2, Open: 2, Seal: EmptySeal(*r.Open), Owner: process2})
}

func TestOfTwoGrantsOneIsApplied(t *testing.T) {
	s, id := New(), identity(1)
	open := apply(t, s, createOrders(id)).Opened
	grant := Grant{Topic: id, Range: 1, Epoch: 1, Version: 1, Open: 1, Seal: EmptySeal(open), Owner: process2}
	rival := grant
	rival.Owner = process3
	apply(t, s, grant)
	conflict(t, s, rival)
	repeat(t, s, grant)
}

func TestTrimTakesSealedSegmentsFromTheFront(t *testing.T) {
	s, id := New(), identity(1)
	apply(t, s, createOrders(id))
	for n := range 5 {
		apply(t, s, Roll{
			Topic: id, Range: 1, Epoch: 1, Version: uint64(1 + n), Open: ident.SegmentID(1 + n),
			Seal: Seal{End: ident.Offset(10 * (n + 1)), Digest: uint64(n + 1), Users: 9, LastTime: ident.Timestamp(n)},
		})
	}
	trim := func(through ident.SegmentID) Trim {
		return Trim{Topic: id, TopicVersion: 1, Range: 1, Through: through}
	}
	conflict(t, s, trim(6)) // the open one
	conflict(t, s, trim(7))
	c := trim(2)
	c.Range = 2
	conflict(t, s, c)

	res := apply(t, s, trim(3))
	equal(t, len(res.Retired), 3)
	repeat(t, s, trim(2))
	r := res.Topic.Ranges[0]
	equal(t, [...]uint64{uint64(r.Start), r.UserBefore}, [...]uint64{30, 27})
	apply(t, s, trim(5))
	r = topicOf(t, s, id).Ranges[0]
	equal(t, [...]uint64{uint64(r.Start), r.UserBefore, uint64(len(r.Segments))}, [...]uint64{50, 45, 0})
	repeat(t, s, trim(5))

	// With nothing left, the append time still does not run back.
	back := Roll{
		Topic: id, Range: 1, Epoch: 1, Version: 6, Open: 6, Seal: Seal{End: 51, Digest: 9, Users: 1, LastTime: r.LastTime - 1},
	}
	malformed(t, s, back)
	back.Seal.LastTime = r.LastTime
	apply(t, s, back)
}

func TestASealedRangeTakesNoGrantAndNoRoll(t *testing.T) {
	s, id := New(), identity(1)
	apply(t, s, createOrders(id))
	dead := *topicOf(t, s, id).Ranges[0]
	dead.Open = nil
	s.put(topicOf(t, s, id).with(&dead))
	seal := Seal{End: 1, Users: 1}
	conflict(t, s, Roll{Topic: id, Range: 1, Epoch: 1, Version: 1, Open: 1, Seal: seal})
	conflict(t, s, Grant{Topic: id, Range: 1, Epoch: 1, Version: 1, Open: 1, Seal: seal, Owner: process2})
}

func TestConfirmNamesABoundedNumber(t *testing.T) {
	s, full := New(), ConfirmRetired{}
	s.nextSegment = counterBound
	for n := range MaxConfirm {
		full.Retired = append(full.Retired, Retired{counterBound - ident.SegmentID(n+1), identity(1), store1})
	}
	malformed(t, s, ConfirmRetired{append(full.Retired, full.Retired...)})
	repeat(t, s, full)
	s.nextSegment -= MaxConfirm
	conflict(t, s, full) // it names segments that are still to come
	if _, err := MarshalCommand(full); err != nil {
		t.Errorf("the largest confirmation does not encode: %v", err)
	}
}

func TestTheLongestNameEncodes(t *testing.T) {
	part := strings.Repeat("x", MaxNamePart)
	c := createOrders(identity(1))
	c.Name = Name{part, part, part}
	if _, err := MarshalCommand(c); err != nil {
		t.Error(err)
	}
	c.Name.Topic = strings.Repeat("x", MaxCommand)
	if _, err := MarshalCommand(c); err == nil {
		t.Error("a command over its limit encodes")
	}
}

func topicOf(t *testing.T, s *State, id ident.TopicID) *Topic {
	t.Helper()
	topic, ok := s.Topic(id)
	if !ok {
		t.Fatalf("no topic %v", id)
	}
	return topic
}

package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

func topicMessage(name string) *quirev1.Topic {
	return &quirev1.Topic{
		Name: name, Type: "log", Id: "01", CreatedUs: 5_000_000,
		Settings: &quirev1.TopicSettings{Values: map[string]string{"retention-age": "1h"}},
	}
}

func TestATopicIsCreatedAlteredAndDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		wanted := Topic{
			Name: "orders", Type: "log", ID: "01", Created: time.Unix(5, 0).UTC(),
			Settings: map[string]string{"retention-age": "1h"},
		}
		results := make(chan Topic, 2)
		done := background(func() error {
			got, err := c.CreateTopic(t.Context(), "orders", TopicConfig{Settings: map[string]string{"retention-age": "1h"}})
			results <- got
			return err
		})
		b := n.accept()
		f := b.next(wire.TypeCreateTopicRequest)
		var create quirev1.CreateTopicRequest
		if err := f.Unmarshal(&create); err != nil {
			t.Fatal(err)
		}
		want(t, create.Name+create.Type+create.Settings.Values["retention-age"], "orders1h")
		b.send(wire.TypeCreateTopicResponse, f.ID, &quirev1.CreateTopicResponse{Topic: topicMessage("orders")})
		want(t, <-done == nil, true)
		want(t, <-results, wanted)

		done = background(func() error {
			got, err := c.AlterTopic(t.Context(), "orders", map[string]string{"retention-age": "2h"})
			results <- got
			return err
		})
		f = b.next(wire.TypeAlterTopicRequest)
		var alter quirev1.AlterTopicRequest
		if err := f.Unmarshal(&alter); err != nil {
			t.Fatal(err)
		}
		want(t, alter.Settings.Values, map[string]string{"retention-age": "2h"})
		b.send(wire.TypeAlterTopicResponse, f.ID, &quirev1.AlterTopicResponse{Topic: topicMessage("orders")})
		want(t, <-done == nil, true)
		want(t, <-results, wanted)

		described := make(chan Description, 1)
		done = background(func() error {
			d, err := c.DescribeTopic(t.Context(), "orders")
			described <- d
			return err
		})
		b.send(wire.TypeDescribeTopicResponse, b.next(wire.TypeDescribeTopicRequest).ID, &quirev1.DescribeTopicResponse{
			Topic: topicMessage("orders"),
			Ranges: []*quirev1.Range{
				{Id: 1, LastPosition: 9, Epoch: 2, StartOffset: 3, EndOffset: 7, Records: 4, Bytes: 50, Segments: []*quirev1.Segment{
					{Id: 8, Epoch: 2, StartOffset: 3, EndOffset: 7, Sealed: true, Bytes: 50},
				}},
				{Id: 2, FirstPosition: 10, LastPosition: 20, Records: 6, Bytes: 70},
			},
		})
		want(t, <-done == nil, true)
		d := <-described
		want(t, d, Description{Topic: wanted, Ranges: []RangeInfo{
			{ID: 1, Last: 9, Epoch: 2, Start: 3, End: 7, Records: 4, Bytes: 50, Segments: []SegmentInfo{
				{ID: 8, Epoch: 2, Start: 3, End: 7, Sealed: true, Bytes: 50},
			}},
			{ID: 2, First: 10, Last: 20, Records: 6, Bytes: 70},
		}})
		want(t, []uint64{d.Records(), d.Bytes()}, []uint64{10, 120})
	})
}

func TestTopicsAreListedPageByPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		var got []string
		done := background(func() error {
			for topic, err := range c.Topics(t.Context(), Internal()) {
				if err != nil {
					return err
				}
				got = append(got, topic.Name)
			}
			return nil
		})
		b := n.accept()
		for _, page := range []struct {
			after  string
			topics []*quirev1.Topic
		}{
			{"", []*quirev1.Topic{topicMessage("a"), topicMessage("b")}},
			{"b", []*quirev1.Topic{topicMessage("c")}},
		} {
			f := b.next(wire.TypeListTopicsRequest)
			var m quirev1.ListTopicsRequest
			if err := f.Unmarshal(&m); err != nil {
				t.Fatal(err)
			}
			want(t, m.After, page.after)
			want(t, m.Internal, true)
			b.send(wire.TypeListTopicsResponse, f.ID, &quirev1.ListTopicsResponse{Topics: page.topics, More: page.after == ""})
		}
		want(t, <-done == nil, true)
		want(t, got, []string{"a", "b", "c"})
	})
}

func TestAListingEndsWithItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		seen := 0
		done := background(func() (last error) {
			for _, err := range c.Topics(t.Context()) {
				seen++
				last = err
			}
			return last
		})
		b := n.accept()
		b.refuse(b.next(wire.TypeListTopicsRequest).ID, status.LimitReached, "too many")
		wantCode(t, <-done, status.LimitReached)
		want(t, seen, 1)
	})
}

func TestATopicThatMayHaveBeenCreatedOrDeletedIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		for typ, f := range map[wire.Type]func() error{
			wire.TypeCreateTopicRequest: func() error {
				_, err := c.CreateTopic(t.Context(), "orders", TopicConfig{})
				return err
			},
			wire.TypeDeleteTopicRequest: func() error { return c.DeleteTopic(t.Context(), "orders") },
		} {
			done := background(f)
			b := n.accept()
			b.next(typ)
			b.hangUp()
			wantCode(t, <-done, status.Unknown)
		}
	})
}

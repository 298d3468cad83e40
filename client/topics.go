package client

import (
	"context"
	"iter"
	"time"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
)

// TopicConfig says what a new topic is like. The zero value is a durable log
// with the broker's defaults.
type TopicConfig struct {
	// Type is "log" (also if empty), "cache" or "counter".
	Type string
	// Settings are named settings as text, such as "retention-age": "168h".
	// What is not named has its default.
	Settings map[string]string
}

// Topic is a topic as everyone may see it.
type Topic struct {
	Name string
	Type string
	// Settings has every setting of the topic, as text.
	Settings map[string]string
	Created  time.Time
	// ID tells this topic from others that had its name before.
	ID string
}

// Description is a topic as its operator sees it.
type Description struct {
	Topic
	Ranges []RangeInfo
}

// RangeInfo is a range of a topic: a band of its keyspace with a log of its
// own. It is for operators; programs that read and write need none of it.
type RangeInfo struct {
	ID uint64
	// First and Last are the positions where the band begins and ends, both
	// within it.
	First, Last uint64
	Epoch       uint64
	// Start and End are the offsets that can be read, End not included.
	Start, End uint64
	Records    uint64
	Bytes      uint64
	Segments   []SegmentInfo
	// Parents are the ranges that this one continues: one that was split, or
	// two that were merged. Children are those that continue it; a range that
	// has any takes no more records.
	Parents, Children []uint64
}

// SegmentInfo is a stretch of a range's log, a file.
type SegmentInfo struct {
	ID         uint64
	Epoch      uint64
	Start, End uint64
	Sealed     bool
	Bytes      uint64
}

// Records is the sum over the ranges.
func (d *Description) Records() (n uint64) {
	for i := range d.Ranges {
		n += d.Ranges[i].Records
	}
	return n
}

// Bytes is the sum over the ranges.
func (d *Description) Bytes() (n uint64) {
	for i := range d.Ranges {
		n += d.Ranges[i].Bytes
	}
	return n
}

// CreateTopic makes a topic. If the connection breaks on the way the outcome
// may be unknown.
func (c *Client) CreateTopic(ctx context.Context, name string, cfg TopicConfig) (Topic, error) {
	var resp quirev1.CreateTopicResponse
	_, err := c.do(ctx, call{
		typ:   wire.TypeCreateTopicRequest,
		req:   &quirev1.CreateTopicRequest{Name: name, Type: cfg.Type, Settings: settings(cfg.Settings)},
		want:  wire.TypeCreateTopicResponse,
		resp:  &resp,
		doing: "creating topic " + name,
	})
	return topicOf(resp.Topic), err
}

// ListOption configures [Client.Topics].
type ListOption func(*listing)

// listing is what a listing asks for.
type listing struct{ internal bool }

// Internal lists the broker's own topics too; default is without them.
func Internal() ListOption {
	return func(l *listing) { l.internal = true }
}

// Topics lists the topics in the order of their names. It asks for some at a
// time, so a topic that is made or deleted meanwhile may be seen or not. After
// an error the iteration ends.
func (c *Client) Topics(ctx context.Context, opts ...ListOption) iter.Seq2[Topic, error] {
	var l listing
	for _, opt := range opts {
		opt(&l)
	}
	return func(yield func(Topic, error) bool) {
		after := ""
		for more := true; more; {
			var resp quirev1.ListTopicsResponse
			_, err := c.do(ctx, call{
				typ:   wire.TypeListTopicsRequest,
				req:   &quirev1.ListTopicsRequest{Internal: l.internal, After: after},
				want:  wire.TypeListTopicsResponse,
				resp:  &resp,
				again: always,
				doing: "listing topics",
			})
			if err != nil {
				yield(Topic{}, err)
				return
			}
			for _, t := range resp.Topics {
				if !yield(topicOf(t), nil) {
					return
				}
				after = t.Name
			}
			more = resp.More && len(resp.Topics) > 0
		}
	}
}

// DescribeTopic gives an operator's view of a topic.
func (c *Client) DescribeTopic(ctx context.Context, name string) (Description, error) {
	var resp quirev1.DescribeTopicResponse
	_, err := c.do(ctx, call{
		typ:   wire.TypeDescribeTopicRequest,
		req:   &quirev1.DescribeTopicRequest{Name: name},
		want:  wire.TypeDescribeTopicResponse,
		resp:  &resp,
		again: always,
		doing: "describing topic " + name,
	})
	if err != nil {
		return Description{}, err
	}
	d := Description{Topic: topicOf(resp.Topic)}
	for _, r := range resp.Ranges {
		d.Ranges = append(d.Ranges, rangeOf(r))
	}
	return d, nil
}

// AlterTopic changes the named settings of a topic and leaves the others.
func (c *Client) AlterTopic(ctx context.Context, name string, changes map[string]string) (Topic, error) {
	var resp quirev1.AlterTopicResponse
	_, err := c.do(ctx, call{
		typ:   wire.TypeAlterTopicRequest,
		req:   &quirev1.AlterTopicRequest{Name: name, Settings: settings(changes)},
		want:  wire.TypeAlterTopicResponse,
		resp:  &resp,
		again: always, // it sets values, so twice is once
		doing: "altering topic " + name,
	})
	return topicOf(resp.Topic), err
}

// DeleteTopic deletes a topic and its records. If the connection breaks on the
// way the outcome may be unknown.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	var resp quirev1.DeleteTopicResponse
	_, err := c.do(ctx, call{
		typ:   wire.TypeDeleteTopicRequest,
		req:   &quirev1.DeleteTopicRequest{Name: name},
		want:  wire.TypeDeleteTopicResponse,
		resp:  &resp,
		doing: "deleting topic " + name,
	})
	return err
}

// SplitTopic splits a range of a topic in two, where key is or, if that is nil,
// the largest range where that halves what was written to it last. Records,
// cursors and the order of each key go on as before; more ranges can be written
// and read beside each other. If the connection breaks on the way the outcome may
// be unknown.
func (c *Client) SplitTopic(ctx context.Context, name string, key []byte) error {
	var resp quirev1.SplitTopicResponse
	_, err := c.do(ctx, call{
		typ:   wire.TypeSplitTopicRequest,
		req:   &quirev1.SplitTopicRequest{Name: name, AtKey: key},
		want:  wire.TypeSplitTopicResponse,
		resp:  &resp,
		doing: "splitting topic " + name,
	})
	return err
}

// MergeTopic makes one range of the two neighbouring ranges of a topic that
// have least. If the connection breaks on the way the outcome may be unknown.
func (c *Client) MergeTopic(ctx context.Context, name string) error {
	var resp quirev1.MergeTopicResponse
	_, err := c.do(ctx, call{
		typ:   wire.TypeMergeTopicRequest,
		req:   &quirev1.MergeTopicRequest{Name: name},
		want:  wire.TypeMergeTopicResponse,
		resp:  &resp,
		doing: "merging ranges of topic " + name,
	})
	return err
}

// RestripeTopic begins a new segment in each range of a topic that takes records,
// where segments are placed today. What is stored stays where it is.
func (c *Client) RestripeTopic(ctx context.Context, name string) error {
	var resp quirev1.RestripeTopicResponse
	_, err := c.do(ctx, call{
		typ:   wire.TypeRestripeTopicRequest,
		req:   &quirev1.RestripeTopicRequest{Name: name},
		want:  wire.TypeRestripeTopicResponse,
		resp:  &resp,
		again: always, // new segments more do no harm
		doing: "restriping topic " + name,
	})
	return err
}

func settings(values map[string]string) *quirev1.TopicSettings {
	if len(values) == 0 {
		return nil
	}
	return &quirev1.TopicSettings{Values: values}
}

func topicOf(t *quirev1.Topic) Topic {
	if t == nil {
		return Topic{}
	}
	return Topic{
		Name:     t.Name,
		Type:     t.Type,
		Settings: t.GetSettings().GetValues(),
		Created:  ident.Timestamp(t.CreatedUs).Time(),
		ID:       t.Id,
	}
}

func rangeOf(r *quirev1.Range) RangeInfo {
	info := RangeInfo{
		ID: r.Id, First: r.FirstPosition, Last: r.LastPosition, Epoch: r.Epoch,
		Start: r.StartOffset, End: r.EndOffset, Records: r.Records, Bytes: r.Bytes,
		Parents: r.Parents, Children: r.Children,
	}
	for _, s := range r.Segments {
		info.Segments = append(info.Segments, SegmentInfo{
			ID: s.Id, Epoch: s.Epoch, Start: s.StartOffset, End: s.EndOffset, Sealed: s.Sealed, Bytes: s.Bytes,
		})
	}
	return info
}

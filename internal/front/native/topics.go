package native

import (
	"context"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

const (
	// topicRequests is how many requests about topics a connection runs at a
	// time. Their answers can be large, and exist before there is room for
	// them.
	topicRequests = 8
	// maxList is the most topics in an answer, which is also the default.
	maxList = 1000
)

// topic begins a request about topics. They run beside each other: a client
// that wants an order waits for the answer.
func (c *conn) topic(f wire.Frame) error {
	m := wire.New(f.Type)
	if err := f.Unmarshal(m); err != nil {
		return err
	}
	if ok, err := c.enter(f, uncancelable); !ok {
		return err
	}
	t, id := f.Type, f.ID
	c.tasks.Go(func() {
		select {
		case c.topics <- struct{}{}:
			defer func() { <-c.topics }()
		case <-c.cut.Done():
			return
		}
		answer, err := ask(c.cut, c.srv.broker, m)
		var held int64
		if err == nil {
			held, err = c.room(c.cut, int64(answer.SizeVT()))
		}
		if err != nil {
			c.fail(t, id, told(c.cut, err))
			return
		}
		// The answer of a request has the next number.
		c.answer(t, id, t+1, answer, nil, held, nil)
	})
	return nil
}

// ask puts one request to the broker.
func ask(ctx context.Context, b Topics, m wire.Message) (wire.Message, error) {
	switch m := m.(type) {
	case *quirev1.CreateTopicRequest:
		return createTopic(ctx, b, m)
	case *quirev1.ListTopicsRequest:
		return listTopics(ctx, b, m)
	case *quirev1.DescribeTopicRequest:
		d, err := b.DescribeTopic(ctx, m.Name)
		return description(&d), err
	case *quirev1.AlterTopicRequest:
		t, err := b.AlterTopic(ctx, m.Name, m.GetSettings().GetValues())
		return &quirev1.AlterTopicResponse{Topic: topicInfo(&t)}, err
	case *quirev1.DeleteTopicRequest:
		return &quirev1.DeleteTopicResponse{}, b.DeleteTopic(ctx, m.Name)
	case *quirev1.SplitTopicRequest:
		return &quirev1.SplitTopicResponse{}, b.SplitTopic(ctx, m.Name, m.AtKey)
	case *quirev1.MergeTopicRequest:
		return &quirev1.MergeTopicResponse{}, b.MergeTopic(ctx, m.Name)
	case *quirev1.RestripeTopicRequest:
		return &quirev1.RestripeTopicResponse{}, b.RestripeTopic(ctx, m.Name)
	case *quirev1.OpenProducerRequest:
		id, session, err := b.OpenProducer(m.Topic, m.Name)
		return &quirev1.OpenProducerResponse{Producer: id[:], Session: session}, err
	case *quirev1.CloseProducerRequest:
		return closeProducer(b, m)
	}
	panic("native: a request type without its case")
}

func closeProducer(b Topics, m *quirev1.CloseProducerRequest) (wire.Message, error) {
	if len(m.Producer) != len(batch.ProducerID{}) {
		return nil, status.New(status.InvalidArgument, "a producer is named by %d bytes, not by %d",
			len(batch.ProducerID{}), len(m.Producer))
	}
	return &quirev1.CloseProducerResponse{}, b.CloseProducer(m.Topic, batch.ProducerID(m.Producer), m.Session)
}

func createTopic(ctx context.Context, b Topics, m *quirev1.CreateTopicRequest) (wire.Message, error) {
	typ := catalog.Log
	if m.Type != "" {
		var err error
		if typ, err = catalog.ParseTopicType(m.Type); err != nil {
			return nil, err
		}
	}
	t, err := b.CreateTopic(ctx, m.Name, typ, m.GetSettings().GetValues())
	return &quirev1.CreateTopicResponse{Topic: topicInfo(&t)}, err
}

func listTopics(ctx context.Context, b Topics, m *quirev1.ListTopicsRequest) (wire.Message, error) {
	limit := maxList
	if m.Limit > 0 {
		limit = int(min(m.Limit, maxList))
	}
	topics, more, err := b.ListTopics(ctx, m.Internal, m.After, limit)
	answer := &quirev1.ListTopicsResponse{Topics: make([]*quirev1.Topic, len(topics)), More: more}
	for i := range topics {
		answer.Topics[i] = topicInfo(&topics[i])
	}
	return answer, err
}

func topicInfo(t *node.TopicInfo) *quirev1.Topic {
	return &quirev1.Topic{
		Name:      t.Name,
		Type:      t.Type.String(),
		Settings:  &quirev1.TopicSettings{Values: t.Settings.Values()},
		CreatedUs: int64(t.Created),
		Id:        t.ID.String(),
	}
}

func description(d *node.TopicDescription) *quirev1.DescribeTopicResponse {
	m := &quirev1.DescribeTopicResponse{
		Topic:  topicInfo(&d.TopicInfo),
		Ranges: make([]*quirev1.Range, len(d.Ranges)),
	}
	for i := range d.Ranges {
		r := &d.Ranges[i]
		segments := make([]*quirev1.Segment, len(r.Segments))
		for j, s := range r.Segments {
			segments[j] = &quirev1.Segment{
				Id: uint64(s.ID), Epoch: uint64(s.Epoch), StartOffset: uint64(s.Start), EndOffset: uint64(s.End),
				Sealed: s.Sealed, Bytes: s.Bytes,
			}
		}
		m.Ranges[i] = &quirev1.Range{
			Id: uint64(r.ID), FirstPosition: uint64(r.First), LastPosition: uint64(r.Last), Epoch: uint64(r.Epoch),
			StartOffset: uint64(r.Start), EndOffset: uint64(r.End), Records: r.Records, Bytes: r.Bytes,
			Segments: segments,
		}
		for _, id := range r.Parents {
			m.Ranges[i].Parents = append(m.Ranges[i].Parents, uint64(id))
		}
		for _, id := range r.Children {
			m.Ranges[i].Children = append(m.Ranges[i].Children, uint64(id))
		}
	}
	return m
}

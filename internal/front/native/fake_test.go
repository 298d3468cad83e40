package native

import (
	"context"
	"fmt"
	"sync"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/status"
)

// fakeBroker is a broker that tests play. What is not set answers at once
// with nothing in it.
type fakeBroker struct {
	produce   func(node.ProduceRequest, func(node.ProduceResult, error))
	fetch     func(context.Context, node.FetchRequest) (node.Delivery, error)
	subscribe func(context.Context, node.SubscribeRequest) (Subscription, error)
	describe  func(context.Context, string) (node.TopicDescription, error)

	mu     sync.Mutex
	topics []node.TopicInfo
}

func (b *fakeBroker) Produce(req node.ProduceRequest, done func(node.ProduceResult, error)) {
	if b.produce != nil {
		b.produce(req, done)
		return
	}
	done(node.ProduceResult{AppendTime: 42}, nil)
}

// Fetch finds an empty topic, unless the test has one.
func (b *fakeBroker) Fetch(ctx context.Context, req node.FetchRequest) (node.Delivery, error) {
	if b.fetch != nil {
		return b.fetch(ctx, req)
	}
	return emptyTopic(ctx, req)
}

// emptyTopic is a fetch of a topic that stays empty. A long poll waits until
// it is canceled.
func emptyTopic(ctx context.Context, req node.FetchRequest) (node.Delivery, error) {
	if req.Wait > 0 {
		<-ctx.Done()
		return node.Delivery{}, ctx.Err()
	}
	return node.Delivery{Cursor: "c0", AtEnd: true}, nil
}

func (b *fakeBroker) Subscribe(ctx context.Context, req node.SubscribeRequest) (Subscription, error) {
	if b.subscribe != nil {
		return b.subscribe(ctx, req)
	}
	return newFakeSubscription(), nil
}

func (b *fakeBroker) CreateTopic(
	_ context.Context, name string, typ catalog.TopicType, settings map[string]string,
) (node.TopicInfo, error) {
	s, err := catalog.ParseSettings(settings)
	if err != nil {
		return node.TopicInfo{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.topics = append(b.topics, node.TopicInfo{Name: name, Type: typ, Settings: s, Created: 7})
	return b.topics[len(b.topics)-1], nil
}

func (b *fakeBroker) ListTopics(
	_ context.Context, _ bool, after string, limit int,
) ([]node.TopicInfo, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []node.TopicInfo
	for _, t := range b.topics {
		if t.Name > after {
			found = append(found, t)
		}
	}
	return found[:min(limit, len(found))], len(found) > limit, nil
}

func (b *fakeBroker) DescribeTopic(ctx context.Context, name string) (node.TopicDescription, error) {
	if b.describe != nil {
		return b.describe(ctx, name)
	}
	i, err := b.find(name)
	if err != nil {
		return node.TopicDescription{}, err
	}
	return node.TopicDescription{
		TopicInfo: b.topics[i],
		Ranges: []node.RangeDescription{{
			ID: 1, Last: 1<<64 - 1, Epoch: 3, Start: 10, End: 30, Records: 20, Bytes: 2000,
			Segments: []node.SegmentDescription{{ID: 5, Epoch: 3, Start: 10, End: 30, Sealed: true, Bytes: 2000}},
		}},
	}, nil
}

func (b *fakeBroker) AlterTopic(
	_ context.Context, name string, changes map[string]string,
) (node.TopicInfo, error) {
	i, err := b.find(name)
	if err != nil {
		return node.TopicInfo{}, err
	}
	if b.topics[i].Settings, err = b.topics[i].Settings.With(changes); err != nil {
		return node.TopicInfo{}, err
	}
	return b.topics[i], nil
}

func (b *fakeBroker) SplitTopic(_ context.Context, name string, _ []byte) error {
	_, err := b.find(name)
	return err
}

func (b *fakeBroker) RestripeTopic(_ context.Context, name string) error {
	_, err := b.find(name)
	return err
}

func (b *fakeBroker) MergeTopic(_ context.Context, name string) error {
	_, err := b.find(name)
	return err
}

func (b *fakeBroker) OpenProducer(topic, _ string) (id batch.ProducerID, session uint64, err error) {
	_, err = b.find(topic)
	return id, 1, err
}

func (b *fakeBroker) CloseProducer(topic string, _ batch.ProducerID, _ uint64) error {
	_, err := b.find(topic)
	return err
}

func (b *fakeBroker) DeleteTopic(_ context.Context, name string) error {
	i, err := b.find(name)
	if err == nil {
		b.topics = append(b.topics[:i], b.topics[i+1:]...)
	}
	return err
}

func (b *fakeBroker) find(name string) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.topics {
		if b.topics[i].Name == name {
			return i, nil
		}
	}
	return 0, status.New(status.TopicNotFound, "there is no topic %s", name)
}

// fakeSubscription gives what the test sends, if there is credit for a record.
type fakeSubscription struct {
	deliveries chan node.Delivery
	closed     chan struct{}

	mu      sync.Mutex
	records uint64
	bytes   uint64
	granted chan struct{}
}

func newFakeSubscription() *fakeSubscription {
	return &fakeSubscription{
		deliveries: make(chan node.Delivery),
		closed:     make(chan struct{}),
		granted:    make(chan struct{}, 1),
	}
}

func (s *fakeSubscription) Grant(records, bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records += records
	s.bytes += bytes
	select {
	case s.granted <- struct{}{}:
	default:
	}
}

func (s *fakeSubscription) credit() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d records, %d bytes", s.records, s.bytes)
}

func (s *fakeSubscription) Next(ctx context.Context) (node.Delivery, error) {
	for {
		s.mu.Lock()
		open := s.records > 0
		if open {
			s.records--
		}
		s.mu.Unlock()
		if open {
			break
		}
		select {
		case <-s.granted:
		case <-ctx.Done():
			return node.Delivery{}, ctx.Err()
		}
	}
	select {
	case d, ok := <-s.deliveries:
		if !ok {
			return d, status.New(status.SlowConsumer, "too slow")
		}
		return d, nil
	case <-ctx.Done():
		return node.Delivery{}, ctx.Err()
	}
}

func (s *fakeSubscription) Close() { close(s.closed) }

// deliveryOf has one batch of n bytes.
func deliveryOf(n int, cursor string) node.Delivery {
	return node.Delivery{
		Slices: []node.Slice{{Batch: make([]byte, n), Take: 1}},
		Start:  "before " + cursor,
		Cursor: cursor,
	}
}

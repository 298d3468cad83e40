package native

import (
	"context"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/node"
)

// Broker is what this front asks of a broker. Errors with a code are
// *status.Error; others are told as internal.
type Broker interface {
	Topics
	// Produce never blocks. The batch of req belongs to the broker. done is
	// called exactly once, from any goroutine, and is quick.
	Produce(req node.ProduceRequest, done func(node.ProduceResult, error))
	// Fetch waits up to req.Wait for a first record. The bytes of the delivery
	// are shared and are not changed.
	Fetch(ctx context.Context, req node.FetchRequest) (node.Delivery, error)
	// Subscribe is closed by the front.
	Subscribe(ctx context.Context, req node.SubscribeRequest) (Subscription, error)
}

// Topics is the part of Broker that is about topics.
type Topics interface {
	CreateTopic(
		ctx context.Context, name string, typ catalog.TopicType, settings map[string]string,
	) (node.TopicInfo, error)
	ListTopics(
		ctx context.Context, internal bool, after string, limit int,
	) (topics []node.TopicInfo, more bool, err error)
	DescribeTopic(ctx context.Context, name string) (node.TopicDescription, error)
	AlterTopic(ctx context.Context, name string, changes map[string]string) (node.TopicInfo, error)
	DeleteTopic(ctx context.Context, name string) error
	SplitTopic(ctx context.Context, name string, key []byte) error
	MergeTopic(ctx context.Context, name string) error
	RestripeTopic(ctx context.Context, name string) error
	OpenProducer(topic, name string) (id batch.ProducerID, session uint64, err error)
	// CloseProducer waits for nothing.
	CloseProducer(topic string, id batch.ProducerID, session uint64) error
}

// Subscription is a topic that is pushed.
type Subscription interface {
	// Grant adds credit and never blocks.
	Grant(records, bytes uint64)
	// Next waits for records and credit. It is called by one goroutine.
	Next(ctx context.Context) (node.Delivery, error)
	Close()
}

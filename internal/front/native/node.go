package native

import (
	"context"

	"github.com/quirelog/quire/internal/node"
)

// Node is a node's broker as this front sees it.
func Node(b *node.Broker) Broker { return nodeBroker{b} }

type nodeBroker struct{ *node.Broker }

// Subscribe gives the node's subscription as the front's interface.
func (n nodeBroker) Subscribe(ctx context.Context, req node.SubscribeRequest) (Subscription, error) {
	s, err := n.Broker.Subscribe(ctx, req)
	if err != nil {
		return nil, err
	}
	return s, nil
}

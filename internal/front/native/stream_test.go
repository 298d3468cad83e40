package native

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// subscribed is a broker with one subscription.
func subscribed() (*fakeBroker, *fakeSubscription) {
	sub := newFakeSubscription()
	return &fakeBroker{subscribe: func(context.Context, node.SubscribeRequest) (Subscription, error) {
		return sub, nil
	}}, sub
}

func TestSubscriptionDeliversWhileThereIsCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sub := subscribed()
		p := serve(t, b, Config{}).connect()
		credit := &quirev1.Credit{Records: 1, Bytes: 100}
		p.send(wire.TypeSubscribeRequest, 2, &quirev1.SubscribeRequest{Credit: credit})
		synctest.Wait()
		if got := sub.credit(); got != "0 records, 100 bytes" { // Next has taken its record
			t.Errorf("the first credit is %s", got)
		}
		sub.deliveries <- deliveryOf(10, "c1")
		f, m := p.next()
		if f.Type != wire.TypeDelivery || f.ID != 2 || len(f.Payload) != 10 || m.(*quirev1.Delivery).Cursor != "c1" {
			t.Errorf("read %v %d %v", f.Type, f.ID, m)
		}

		// Without credit nothing is taken from the subscription.
		synctest.Wait()
		select {
		case sub.deliveries <- deliveryOf(10, "c2"):
			t.Fatal("a delivery was taken without credit")
		default:
		}
		p.send(wire.TypeCredit, 2, &quirev1.Credit{Records: 1, Bytes: 50})
		sub.deliveries <- deliveryOf(10, "c2")
		p.expect(wire.TypeDelivery, 2, nil)
	})
}

func TestCreditThatComesBeforeTheSubscriptionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sub := newFakeSubscription()
		made := make(chan struct{})
		var asked node.SubscribeRequest
		b := &fakeBroker{subscribe: func(_ context.Context, req node.SubscribeRequest) (Subscription, error) {
			asked = req
			<-made
			return sub, nil
		}}
		p := serve(t, b, Config{}).connect()
		p.send(wire.TypeSubscribeRequest, 2, &quirev1.SubscribeRequest{
			Topic: "orders", Overflow: quirev1.Overflow_OVERFLOW_DROP_OLDEST, QueueRecords: 50,
			Credit: &quirev1.Credit{Records: 5, Bytes: 100},
		})
		p.send(wire.TypeCredit, 2, &quirev1.Credit{Records: 1<<64 - 1, Bytes: 11})
		synctest.Wait()
		close(made)
		synctest.Wait()
		// Credit adds up and does not run over; Next has taken a record.
		if got := sub.credit(); got != "18446744073709551614 records, 111 bytes" {
			t.Errorf("credit is %s", got)
		}
		want := node.SubscribeRequest{Topic: "orders", Overflow: node.OverflowDropOldest, QueueRecords: 50}
		if asked.Topic != want.Topic || asked.Overflow != want.Overflow || asked.QueueRecords != want.QueueRecords {
			t.Errorf("the broker was asked %+v", asked)
		}
	})
}

func TestCancelEndsASubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sub := subscribed()
		p := serve(t, b, Config{}).connect()
		p.send(wire.TypeSubscribeRequest, 2, &quirev1.SubscribeRequest{})
		p.send(wire.TypeCancel, 2, &quirev1.Cancel{})
		p.expectError(2, status.Canceled)
		<-sub.closed
		// Credit may have crossed the end on its way.
		p.send(wire.TypeCredit, 2, &quirev1.Credit{Records: 1})
		p.produce(3, "batch")
		p.expect(wire.TypeProduceResponse, 3, nil)
	})
}

func TestSubscriptionThatEndsSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sub := subscribed()
		p := serve(t, b, Config{}).connect()
		p.send(wire.TypeSubscribeRequest, 2, &quirev1.SubscribeRequest{Credit: &quirev1.Credit{Records: 1}})
		close(sub.deliveries)
		p.expectError(2, status.SlowConsumer)
		<-sub.closed

		b.subscribe = func(context.Context, node.SubscribeRequest) (Subscription, error) {
			return nil, status.New(status.TopicNotFound, "no")
		}
		p.send(wire.TypeSubscribeRequest, 3, &quirev1.SubscribeRequest{})
		p.expectError(3, status.TopicNotFound)
		p.send(wire.TypeSubscribeRequest, 4, &quirev1.SubscribeRequest{Overflow: 77})
		p.expectError(4, status.InvalidArgument)
	})
}

func TestSubscriptionsEndWithTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sub := subscribed()
		p := serve(t, b, Config{}).connect()
		p.send(wire.TypeSubscribeRequest, 2, &quirev1.SubscribeRequest{Credit: &quirev1.Credit{Records: 1}})
		p.poll(3)
		if err := p.nc.Close(); err != nil {
			t.Fatal(err)
		}
		<-sub.closed
	})
}

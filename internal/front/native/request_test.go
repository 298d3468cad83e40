package native

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

func TestHandshakeStatesTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, &fakeBroker{}, Config{Name: "quire test", MaxInFlight: 7}).dial()
		p.write([]byte(wire.Preface))
		p.send(wire.TypeHelloRequest, 1, &quirev1.HelloRequest{MinVersion: 1, MaxVersion: 9})
		p.expect(wire.TypeHelloResponse, 1, &quirev1.HelloResponse{
			Version: 1, Broker: "quire test", MaxFrameBytes: 16 << 20, MaxInFlight: 7, MaxBatchBytes: 8 << 20,
		})
	})
}

func TestProduceIsAnsweredWithItsAppendTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got node.ProduceRequest
		b := &fakeBroker{produce: func(req node.ProduceRequest, done func(node.ProduceResult, error)) {
			if got = req; string(req.Batch) == "bad" {
				done(node.ProduceResult{}, status.New(status.BatchCorrupt, "bad"))
				return
			}
			done(node.ProduceResult{AppendTime: 42}, nil)
		}}
		p := serve(t, b, Config{}).connect()
		p.produce(2, "batch")
		p.expect(wire.TypeProduceResponse, 2, &quirev1.ProduceResponse{AppendTimeUs: 42})
		if got.Topic != "orders" || string(got.Batch) != "batch" {
			t.Errorf("the broker got %+v", got)
		}
		p.produce(3, "bad")
		p.expectError(3, status.BatchCorrupt)
	})
}

func TestLongPollBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, &fakeBroker{}, Config{}).connect()
		p.poll(2)
		p.poll(3)
		p.produce(4, "batch")
		p.expect(wire.TypeProduceResponse, 4, nil)
		p.send(wire.TypeListTopicsRequest, 5, &quirev1.ListTopicsRequest{})
		p.expect(wire.TypeListTopicsResponse, 5, nil)
		p.send(wire.TypeFetchRequest, 6, &quirev1.FetchRequest{Topic: "orders"})
		p.expect(wire.TypeDelivery, 6, &quirev1.Delivery{Cursor: "c0", AtEnd: true})
	})
}

func TestProducesThatWaitDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := map[string]func(node.ProduceResult, error){}
		b := &fakeBroker{produce: func(req node.ProduceRequest, d func(node.ProduceResult, error)) {
			done[string(req.Batch)] = d
		}}
		p := serve(t, b, Config{}).connect()
		p.produce(2, "a")
		p.produce(3, "b")
		synctest.Wait()
		done["b"](node.ProduceResult{AppendTime: 2}, nil)
		p.expect(wire.TypeProduceResponse, 3, nil)
		done["a"](node.ProduceResult{AppendTime: 1}, nil)
		p.expect(wire.TypeProduceResponse, 2, nil)
	})
}

func TestProducesReachTheBrokerInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		b := &fakeBroker{produce: func(req node.ProduceRequest, done func(node.ProduceResult, error)) {
			got = append(got, string(req.Batch))
			// Answers come from elsewhere, in any order.
			go done(node.ProduceResult{}, nil)
		}}
		p := serve(t, b, Config{}).connect()
		var want []string
		for i := range 500 {
			want = append(want, fmt.Sprint("batch ", i))
		}
		go func() {
			for i, batch := range want {
				p.produce(uint64(i+2), batch)
			}
		}()
		for range want {
			p.next()
		}
		if !slices.Equal(got, want) {
			t.Errorf("the broker got %q", got)
		}
	})
}

func TestFetchSaysWhatIsAskedAndWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got node.FetchRequest
		b := &fakeBroker{fetch: func(_ context.Context, req node.FetchRequest) (node.Delivery, error) {
			got = req
			return node.Delivery{
				Slices: []node.Slice{
					{Batch: []byte("one"), Take: 2},
					{Batch: make([]byte, 5000), Skip: 1, Take: 3, Entry: 4},
				},
				Start: "c1", Cursor: "c2", AtEnd: true,
				Gap: &node.Gap{Reason: node.GapRetention, Records: 9, Known: true},
			}, nil
		}}
		p := serve(t, b, Config{}).connect()
		p.send(wire.TypeFetchRequest, 2, &quirev1.FetchRequest{
			Topic: "orders", Start: &quirev1.Start{At: &quirev1.Start_Cursor{Cursor: "c1"}},
			Filter:     &quirev1.Filter{By: &quirev1.Filter_KeyPrefix{KeyPrefix: []byte("eu-")}},
			MaxRecords: 10, MaxBytes: 1000,
		})
		f := p.expect(wire.TypeDelivery, 2, &quirev1.Delivery{
			Slices: []*quirev1.Slice{{Size: 3, Take: 2}, {Size: 5000, Skip: 1, Take: 3, Entry: 4}},
			Start:  "c1", Cursor: "c2", AtEnd: true,
			Gap: &quirev1.Gap{Reason: quirev1.GapReason_GAP_REASON_RETENTION, Records: 9, Known: true},
		})
		if len(f.Payload) != 5003 || string(f.Payload[:3]) != "one" {
			t.Errorf("payload of %d bytes", len(f.Payload))
		}
		if got.Start != (node.Start{Kind: node.StartCursor, Cursor: "c1"}) || string(got.Filter.Prefix) != "eu-" ||
			got.Filter.Key != nil || got.MaxRecords != 10 || got.MaxBytes != 1000 {
			t.Errorf("the broker was asked %+v", got)
		}
	})
}

// A long poll at the end of a topic answers with the first record that comes,
// and otherwise with nothing when its time is over.
func TestLongPollEndsWithARecordOrItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrived := make(chan struct{})
		there := false
		b := &fakeBroker{fetch: func(ctx context.Context, req node.FetchRequest) (node.Delivery, error) {
			if there {
				return deliveryOf(10, "c1"), nil
			}
			if req.Wait == 0 {
				return node.Delivery{Cursor: "c0", AtEnd: true}, nil
			}
			if req.Start.Cursor != "c0" {
				t.Errorf("the poll began at %+v, and not at the end that it had found", req.Start)
			}
			select {
			case <-arrived:
				return deliveryOf(10, "c1"), nil
			case <-time.After(req.Wait):
				return node.Delivery{Cursor: "c0", AtEnd: true}, nil
			}
		}}
		p := serve(t, b, Config{}).connect()
		end := &quirev1.Start{At: &quirev1.Start_End{End: true}}

		began := time.Now()
		p.send(wire.TypeFetchRequest, 2, &quirev1.FetchRequest{Start: end, WaitMs: 5000})
		p.expect(wire.TypeDelivery, 2, &quirev1.Delivery{Cursor: "c0", AtEnd: true})
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("waited %v for nothing, want 5s", took)
		}

		p.send(wire.TypeFetchRequest, 3, &quirev1.FetchRequest{Start: end, WaitMs: 5000})
		synctest.Wait()
		there = true
		close(arrived)
		f, m := p.next()
		if f.ID != 3 || m.(*quirev1.Delivery).Cursor != "c1" || len(f.Payload) != 10 {
			t.Errorf("read %d %v", f.ID, m)
		}
	})
}

// What a long poll waited for is delivered as it came if it is small. If it
// is large, it is not held without room, but read once there is some.
func TestLongPollReadsALargeRecordOnlyWithRoom(t *testing.T) {
	for size, reads := range map[int]int{1000: 2, maxPoll: 3} {
		synctest.Test(t, func(t *testing.T) {
			var asked []node.FetchRequest
			b := &fakeBroker{fetch: func(_ context.Context, req node.FetchRequest) (node.Delivery, error) {
				if asked = append(asked, req); len(asked) == 1 {
					return node.Delivery{Cursor: "c0", AtEnd: true}, nil
				}
				return deliveryOf(size, "c1"), nil
			}}
			p := serve(t, b, Config{}).connect()
			p.send(wire.TypeFetchRequest, 2, &quirev1.FetchRequest{MaxRecords: 7, WaitMs: 5000})
			if f := p.expect(wire.TypeDelivery, 2, nil); len(f.Payload) != size {
				t.Errorf("payload of %d bytes", len(f.Payload))
			}
			if len(asked) != reads || asked[1].MaxBytes != maxPoll || asked[1].MaxRecords != 7 {
				t.Errorf("%d bytes: the broker was asked %+v", size, asked)
			}
		})
	}
}

func TestCancelEndsALongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, &fakeBroker{}, Config{}).connect()
		p.poll(2)
		p.send(wire.TypeCancel, 2, &quirev1.Cancel{})
		p.expectError(2, status.Canceled)
		// Its id is free again, and a late or senseless cancel does no harm.
		p.send(wire.TypeCancel, 2, &quirev1.Cancel{})
		p.produce(2, "batch")
		p.expect(wire.TypeProduceResponse, 2, nil)
	})
}

func TestTooManyRequestsInFlightAreRefusedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, &fakeBroker{}, Config{}).connect()
		for id := range uint64(wire.MaxInFlight) {
			p.poll(id + 2)
		}
		p.produce(5000, "one too many")
		p.expectError(5000, status.LimitReached)
		p.send(wire.TypeCancel, 2, &quirev1.Cancel{})
		p.expectError(2, status.Canceled)
		p.produce(5001, "there is room")
		p.expect(wire.TypeProduceResponse, 5001, nil)
	})
}

func TestTopicRequestsAreCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, &fakeBroker{}, Config{}).connect()
		p.send(wire.TypeCreateTopicRequest, 2, &quirev1.CreateTopicRequest{
			Name: "orders", Settings: &quirev1.TopicSettings{Values: map[string]string{"retention-age": "1h"}},
		})
		_, m := p.next()
		topic := m.(*quirev1.CreateTopicResponse).Topic
		if topic.Name != "orders" || topic.Type != "log" || topic.CreatedUs != 7 || topic.Id == "" ||
			topic.Settings.Values["retention-age"] != "1h" {
			t.Errorf("created %v", topic)
		}
		p.send(wire.TypeCreateTopicRequest, 3, &quirev1.CreateTopicRequest{Name: "x", Type: "tree"})
		p.expectError(3, status.InvalidArgument)
		p.send(wire.TypeCreateTopicRequest, 4, &quirev1.CreateTopicRequest{Name: "prices", Type: "cache"})
		p.expect(wire.TypeCreateTopicResponse, 4, nil)

		p.send(wire.TypeListTopicsRequest, 5, &quirev1.ListTopicsRequest{After: "a", Limit: 1})
		_, m = p.next()
		if list := m.(*quirev1.ListTopicsResponse); len(list.Topics) != 1 || !list.More {
			t.Errorf("listed %v", list)
		}
		p.send(wire.TypeDescribeTopicRequest, 6, &quirev1.DescribeTopicRequest{Name: "orders"})
		p.expect(wire.TypeDescribeTopicResponse, 6, &quirev1.DescribeTopicResponse{
			Topic: topic,
			Ranges: []*quirev1.Range{{
				Id: 1, LastPosition: 1<<64 - 1, Epoch: 3, StartOffset: 10, EndOffset: 30, Records: 20, Bytes: 2000,
				Segments: []*quirev1.Segment{{Id: 5, Epoch: 3, StartOffset: 10, EndOffset: 30, Sealed: true, Bytes: 2000}},
			}},
		})
		p.send(wire.TypeAlterTopicRequest, 7, &quirev1.AlterTopicRequest{
			Name: "orders", Settings: &quirev1.TopicSettings{Values: map[string]string{"retention-age": "2h"}},
		})
		if _, m = p.next(); m.(*quirev1.AlterTopicResponse).Topic.Settings.Values["retention-age"] != "2h" {
			t.Errorf("altered %v", m)
		}
		p.send(wire.TypeDeleteTopicRequest, 8, &quirev1.DeleteTopicRequest{Name: "orders"})
		p.expect(wire.TypeDeleteTopicResponse, 8, nil)
		p.send(wire.TypeDescribeTopicRequest, 9, &quirev1.DescribeTopicRequest{Name: "orders"})
		p.expectError(9, status.TopicNotFound)
	})
}

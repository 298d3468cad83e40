package client

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// subscribed makes a subscription from the end of a topic with at records, and
// gives the broker's end and the subscription's id there.
func subscribed(t *testing.T, n *network, at int, opts ...SubscribeOption) (*Subscription, *peer, uint64) {
	t.Helper()
	return subscribedBy(t, t.Context(), n, at, opts...)
}

func subscribedBy(t *testing.T, ctx context.Context, n *network, at int, opts ...SubscribeOption) (
	*Subscription, *peer, uint64,
) {
	t.Helper()
	c := n.client()
	type made struct {
		s   *Subscription
		err error
	}
	done := make(chan made, 1)
	go func() {
		s, err := c.Subscribe(ctx, "orders", End(), opts...)
		done <- made{s, err}
	}()
	b := n.accept()
	id, f := b.fetch()
	if _, ok := f.Start.GetAt().(*quirev1.Start_End); !ok || f.WaitMs != 0 {
		t.Errorf("the client looks for the end with %v", f)
	}
	b.atEnd(id, at)
	id, req := b.subscribe()
	want(t, req.Start.GetCursor(), tokenAt(at))
	m := <-done
	if m.err != nil {
		t.Fatal(m.err)
	}
	t.Cleanup(func() { _ = m.s.Close() })
	return m.s, b, id
}

// pull gives the next value or error of an iteration.
func pull(t *testing.T, s interface {
	All() iter.Seq2[record.Record, error]
},
) (next func() string) {
	t.Helper()
	more, stop := iter.Pull2(s.All())
	t.Cleanup(stop)
	return func() string {
		rec, err, ok := more()
		switch {
		case !ok:
			return "(end)"
		case err != nil:
			return err.Error()
		}
		return string(rec.Value)
	}
}

func TestASubscriptionContinuesOnANewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		s, b, id := subscribed(t, n, 10)
		next := pull(t, s)
		b.deliver(id, 10, "10", "11", "12")
		b.deliver(id, 13, "13", "14")
		synctest.Wait()
		b.hangUp()
		for _, v := range numbered(10, 5) {
			want(t, next(), v)
		}
		got := make(chan string, 1)
		go func() { got <- next() }()
		b = n.accept()
		id, req := b.subscribe()
		want(t, offset(t, req.Start.GetCursor()), 15)
		b.deliver(id, 15, "15")
		want(t, <-got, "15")
	})
}

func TestASubscriptionFromTheEndMissesNothingWhenItBreaksBeforeTheFirstRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		s, b, _ := subscribed(t, n, 10)
		next := pull(t, s)
		got := make(chan string, 1)
		go func() { got <- next() }()
		synctest.Wait()
		b.hangUp()
		b = n.accept()
		id, req := b.subscribe()
		want(t, offset(t, req.Start.GetCursor()), 10)
		b.deliver(id, 10, "10")
		want(t, <-got, "10")
	})
}

func TestTheCursorIsExactToTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, id := subscribed(t, newNetwork(t), 10)
		next := pull(t, s)
		want(t, offset(t, s.Cursor()), 10)
		b.deliver(id, 10, "10", "11", "12")
		b.deliver(id, 13, "13", "14")
		for i, v := range numbered(10, 5) {
			want(t, next(), v)
			want(t, offset(t, s.Cursor()), 11+i)
		}
	})
}

func TestASliceIsReadFromWhereItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, id := subscribed(t, newNetwork(t), 11)
		next := pull(t, s)
		d := deliveryFrom(10, "10", "11", "12", "13")
		d.Slices[0].Skip, d.Slices[0].Take = 1, 2
		d.Start, d.Cursor = tokenAt(11), tokenAt(13)
		b.send(wire.TypeDelivery, id, d, stored(t, 10, batch.None, "10", "11", "12", "13"))
		b.deliver(id, 13, "13")
		for i, v := range []string{"11", "12", "13"} {
			want(t, next(), v)
			want(t, offset(t, s.Cursor()), 12+i)
		}
	})
}

func TestAGapIsYieldedAndTheIterationGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, id := subscribed(t, newNetwork(t), 10)
		d := deliveryFrom(20, "20")
		d.Start = tokenAt(10)
		d.Gap = &quirev1.Gap{Reason: quirev1.GapReason_GAP_REASON_OVERFLOW, Records: 10, Known: true}
		b.send(wire.TypeDelivery, id, d, stored(t, 20, batch.None, "20"))
		b.send(wire.TypeDelivery, id, &quirev1.Delivery{
			Start: tokenAt(21), Cursor: tokenAt(30),
			Gap: &quirev1.Gap{Reason: quirev1.GapReason_GAP_REASON_RETENTION},
		})
		b.deliver(id, 30, "30")
		var got []string
		for rec, err := range s.All() {
			var gap *GapError
			switch {
			case errors.As(err, &gap):
				got = append(got, gap.Error())
			case err != nil:
				t.Fatal(err)
			default:
				got = append(got, string(rec.Value))
			}
			if len(got) == 4 {
				break
			}
		}
		want(t, got, []string{"10 records are missing here (overflow)", "20", "records are missing here (retention)", "30"})
		want(t, offset(t, s.Cursor()), 31)
	})
}

func TestCreditIsGivenBackAsRecordsAreConsumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		s, b, id := subscribed(t, n, 0, Window(8, 1<<20))
		next := pull(t, s)
		b.deliver(id, 0, numbered(0, 8)...)
		var got credit
		take := func() {
			of, c := b.credit()
			want(t, of, id)
			got.records += int(c.Records)
			got.bytes += int(c.Bytes)
		}
		// Each quarter of the window is worth a frame.
		for range 4 {
			first := next()
			want(t, next() != first, true)
			take()
		}
		want(t, got, credit{8, len(stored(t, 0, batch.None, numbered(0, 8)...))})
		// Less is given back when the iteration has to wait.
		b.deliver(id, 8, "8")
		want(t, next(), "8")
		last := make(chan string, 1)
		go func() { last <- next() }()
		take()
		want(t, got.records, 9)
		want(t, s.Close() == nil, true)
		want(t, <-last, "(end)")
	})
}

func TestALeftIterationContinuesWithTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, id := subscribed(t, newNetwork(t), 0)
		b.deliver(id, 0, numbered(0, 4)...)
		var got []string
		for range 2 {
			for rec, err := range s.All() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(rec.Value))
				if len(got)%2 == 0 {
					break
				}
			}
		}
		want(t, got, numbered(0, 4))
	})
}

func TestClosingASubscriptionEndsItsIterationAndTellsTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, id := subscribed(t, newNetwork(t), 0)
		next := pull(t, s)
		got := make(chan string, 1)
		go func() { got <- next() }()
		synctest.Wait()
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		want(t, b.next(wire.TypeCancel).ID, id)
		want(t, <-got, "(end)")
		b.deliver(id, 0, "too late")
		b.refuse(id, status.Canceled, "canceled")
	})
}

func TestTheContextEndsASubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, b, id := subscribedBy(t, ctx, newNetwork(t), 0)
		next := pull(t, s)
		got := make(chan string, 1)
		go func() { got <- next() }()
		synctest.Wait()
		cancel()
		want(t, b.next(wire.TypeCancel).ID, id)
		want(t, <-got, "canceled while reading orders (canceled)")
		want(t, next(), "(end)")
	})
}

func TestADamagedBatchEndsTheIteration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, id := subscribed(t, newNetwork(t), 0)
		b.deliver(id, 0, "0")
		bad := stored(t, 1, batch.None, "1", "2")
		bad[len(bad)-1] ^= 1
		b.send(wire.TypeDelivery, id, deliveryFrom(1, "1", "2"), bad)
		next := pull(t, s)
		want(t, next(), "0")
		if err := next(); !strings.Contains(err, "arrived damaged") || !strings.Contains(err, "data_corrupt") {
			t.Fatalf("a damaged batch gave %q", err)
		}
		want(t, next(), "(end)")
		want(t, offset(t, s.Cursor()), 1)
	})
}

func TestASlowConsumerIsToldAfterWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, id := subscribed(t, newNetwork(t), 0, WithOverflow(Disconnect), Queue(5))
		b.deliver(id, 0, "0", "1")
		b.refuse(id, status.SlowConsumer, "too slow")
		next := pull(t, s)
		want(t, next(), "0")
		want(t, next(), "1")
		want(t, next(), "too slow (slow_consumer)")
		want(t, offset(t, s.Cursor()), 2)
	})
}

func TestASubscriptionOutlivesARestartOfItsBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		s, b, id := subscribed(t, n, 0)
		next := pull(t, s)
		got := make(chan string, 1)
		go func() { got <- next() }()
		down := time.Now()
		n.refuse = func(string) error {
			if time.Since(down) < 10*time.Second {
				return errors.New("connection refused")
			}
			return nil
		}
		b.refuse(id, status.Unavailable, "stopping")
		b.hangUp()
		b = n.accept()
		id, _ = b.subscribe()
		b.deliver(id, 0, "0")
		want(t, <-got, "0")
	})
}

func TestASubscriptionEndsWhenNoBrokerAnswersForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		s, b, _ := subscribed(t, n, 7)
		next := pull(t, s)
		n.refuse = func(string) error { return errors.New("connection refused") }
		b.hangUp()
		begin := time.Now()
		if err := next(); !strings.Contains(err, "connection refused") || !strings.Contains(err, "unavailable") {
			t.Fatalf("it ended with %q", err)
		}
		want(t, time.Since(begin), DefaultReconnectTimeout)
		want(t, offset(t, s.Cursor()), 7)
	})
}

func TestABrokerThatIgnoresTheWindowIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, id := subscribed(t, newNetwork(t), 0)
		s.stream.mu.Lock()
		s.stream.limit = 200 // of the window and a frame, which would take long to fill
		s.stream.mu.Unlock()
		for i := range 3 {
			b.deliver(id, i, strings.Repeat("x", 100))
		}
		b.ended()
		next := pull(t, s)
		for range 2 {
			want(t, next(), strings.Repeat("x", 100))
		}
		if err := next(); !strings.Contains(err, "more than the subscription's window") {
			t.Fatalf("it ended with %q", err)
		}
	})
}

func TestASubscriptionAsksForWhatItsOptionsSay(t *testing.T) {
	for _, test := range []struct {
		opts []SubscribeOption
		want *quirev1.SubscribeRequest
	}{
		{nil, &quirev1.SubscribeRequest{
			Overflow: quirev1.Overflow_OVERFLOW_BLOCK,
			Credit:   &quirev1.Credit{Records: DefaultWindowRecords, Bytes: DefaultWindowBytes},
		}},
		{[]SubscribeOption{Window(7, 8), WithOverflow(DropOldest), Queue(9), Key([]byte("k"))}, &quirev1.SubscribeRequest{
			Overflow: quirev1.Overflow_OVERFLOW_DROP_OLDEST, QueueRecords: 9,
			Credit: &quirev1.Credit{Records: 7, Bytes: 8},
			Filter: &quirev1.Filter{By: &quirev1.Filter_Key{Key: []byte("k")}},
		}},
		{[]SubscribeOption{WithOverflow(DropNewest), KeyPrefix([]byte("p"))}, &quirev1.SubscribeRequest{
			Overflow: quirev1.Overflow_OVERFLOW_DROP_NEWEST,
			Credit:   &quirev1.Credit{Records: DefaultWindowRecords, Bytes: DefaultWindowBytes},
			Filter:   &quirev1.Filter{By: &quirev1.Filter_KeyPrefix{KeyPrefix: []byte("p")}},
		}},
		{[]SubscribeOption{WithOverflow(Disconnect)}, &quirev1.SubscribeRequest{
			Overflow: quirev1.Overflow_OVERFLOW_DISCONNECT,
			Credit:   &quirev1.Credit{Records: DefaultWindowRecords, Bytes: DefaultWindowBytes},
		}},
	} {
		s := &Subscription{topic: "orders", resume: tokenAt(5)}
		s.cfg = subscribeConfig{records: DefaultWindowRecords, bytes: DefaultWindowBytes}
		for _, opt := range test.opts {
			opt.setSubscribe(&s.cfg)
		}
		test.want.Topic, test.want.Start = "orders", startOf(Cursor(tokenAt(5)))
		if got := s.request(); !proto.Equal(got, test.want) {
			t.Errorf("got %v, want %v", got, test.want)
		}
	}
}

func TestOnlyOneIterationRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, id := subscribed(t, newNetwork(t), 0)
		b.deliver(id, 0, "0")
		for range s.All() {
			for _, err := range s.All() {
				wantCode(t, err, status.InvalidArgument)
			}
			break
		}
	})
}

func TestASubscriptionSaysAtOnceThatItCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		made := background(func() error {
			_, err := c.Subscribe(t.Context(), "orders", Cursor("nonsense"))
			return err
		})
		b := n.accept()
		id, _ := b.fetch()
		b.refuse(id, status.CursorInvalid, "the cursor is not one of orders")
		wantCode(t, <-made, status.CursorInvalid)
		for _, opt := range []SubscribeOption{Window(0, 1), Window(1, MaxWindowBytes+1), Queue(-1), WithOverflow(9)} {
			_, err := c.Subscribe(t.Context(), "orders", Start(), opt)
			wantCode(t, err, status.InvalidArgument)
		}
	})
}

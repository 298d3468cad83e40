package node_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/status"
)

func subscribe(t *testing.T, b *node.Broker, req node.SubscribeRequest) *node.Subscription {
	t.Helper()
	s, err := b.Subscribe(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func produceAll(t *testing.T, b *node.Broker, topic string, list []string) {
	t.Helper()
	for _, v := range list {
		if err := produce(b, topic, v); err != nil {
			t.Fatal(err)
		}
	}
}

// next takes deliveries until n records or a gap beside them have come, and
// gives the records and the gaps' counts.
func next(t *testing.T, s *node.Subscription, n int) (records []string, gaps []uint64) {
	t.Helper()
	for len(records) < n {
		d, err := s.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if d.Gap != nil {
			if d.Gap.Reason != node.GapOverflow || !d.Gap.Known {
				t.Fatalf("gap %+v", d.Gap)
			}
			gaps = append(gaps, d.Gap.Records)
		}
		records = append(records, values(t, d)...)
	}
	return records, gaps
}

// While its window is shut a blocked subscriber falls behind and loses
// nothing.
func TestABlockedSubscriberLosesNothing(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	s := subscribe(t, b, node.SubscribeRequest{Topic: "t", QueueRecords: 5})
	produceAll(t, b, "t", numbers(0, 50))
	s.Grant(1000, 1<<20)
	got, gaps := next(t, s, 50)
	same(t, got, numbers(0, 50))
	if gaps != nil {
		t.Errorf("gaps %v", gaps)
	}
}

// A window in records admits no more than it says.
func TestAWindowAdmitsWhatItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, vfs.NewMem())
		create(t, b, "t", nil)
		s := subscribe(t, b, node.SubscribeRequest{Topic: "t"})
		if err := produce(b, "t", numbers(0, 20)...); err != nil {
			t.Fatal(err)
		}
		s.Grant(7, 1<<20)
		got, _ := next(t, s, 7)
		same(t, got, numbers(0, 7))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if d, err := s.Next(ctx); status.CodeOf(err) != status.Canceled {
			t.Errorf("beyond the window: %v, %v", values(t, d), err)
		}
		s.Grant(100, 1<<20)
		got, _ = next(t, s, 13)
		same(t, got, numbers(7, 20))
		s.Close()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// shutWindow waits until the subscription has found its window shut.
func shutWindow(t *testing.T, s *node.Subscription) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Next(ctx); status.CodeOf(err) != status.Canceled {
		t.Fatalf("a shut window: %v", err)
	}
}

func TestDropOldestKeepsTheNewestAndCountsTheRest(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	s := subscribe(t, b, node.SubscribeRequest{Topic: "t", Overflow: node.OverflowDropOldest, QueueRecords: 10})
	shutWindow(t, s)
	produceAll(t, b, "t", numbers(0, 50))
	s.Grant(1000, 1<<20)
	got, gaps := next(t, s, 10)
	same(t, got, numbers(40, 50))
	if fmt.Sprint(gaps) != "[40]" {
		t.Errorf("gaps %v, want 40 records", gaps)
	}
}

// What the broker keeps in the log for itself is not counted.
func TestAGapCountsWhatUsersWrote(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	s := subscribe(t, b, node.SubscribeRequest{Topic: "t", Overflow: node.OverflowDropOldest, QueueRecords: 10})
	shutWindow(t, s)
	h := batch.Producer{ID: drawn(1), Session: 1}
	for n := uint64(1); n <= 50; n++ {
		ask(t, b, "t", sequences(h, n, n), "appended")
		h.Floor, h.Prev = n, n
		if n%5 == 0 { // what is known of the producer begins a new segment
			if err := b.RestripeTopic(context.Background(), "t"); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Grant(1000, 1<<20)
	d, err := s.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got := values(t, d)
	if d.Gap == nil || !d.Gap.Known || d.Gap.Records+uint64(len(got)) != 50 {
		t.Errorf("a gap of %+v before %d records of 50", d.Gap, len(got))
	}
	same(t, got, numbers(51-len(got), 51))
}

// A cursor that retention has passed is told how many records of users are gone.
func TestAGapOfRetentionCountsWhatUsersWrote(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", map[string]string{"segment-bytes": "65536"})
	h := batch.Producer{ID: drawn(1), Session: 1}
	key := strings.Repeat("k", 4000)
	const all = 400
	for n := uint64(1); n <= all; n++ {
		ask(t, b, "t", sequences(h, n, n, key), "appended")
		h.Floor, h.Prev = n, n
	}
	kept, err := b.Fetch(context.Background(), node.FetchRequest{Topic: "t", MaxRecords: 30}) // in the second segment
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.AlterTopic(context.Background(), "t", map[string]string{"retention-bytes": "300000"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "retention", func() bool { return describe(t, b, "t").Start > 100 })
	d, err := b.Fetch(context.Background(), node.FetchRequest{Topic: "t", Start: node.Start{Kind: node.StartCursor, Cursor: kept.Cursor}})
	if err != nil {
		t.Fatal(err)
	}
	first := 0
	if _, err := fmt.Sscanf(values(t, d)[0], "v%d", &first); err != nil {
		t.Fatal(err)
	}
	if d.Gap == nil || !d.Gap.Known || d.Gap.Records != uint64(first-31) {
		t.Errorf("a gap of %+v between records 30 and %d", d.Gap, first)
	}
}

func TestDropNewestKeepsTheQueueAndCountsWhatCameWhileItWasFull(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	s := subscribe(t, b, node.SubscribeRequest{Topic: "t", Overflow: node.OverflowDropNewest, QueueRecords: 10})
	shutWindow(t, s)
	produceAll(t, b, "t", numbers(0, 50))
	s.Grant(1000, 1<<20)
	got, gaps := next(t, s, 10)
	same(t, got, numbers(0, 10))
	if gaps != nil {
		t.Errorf("gaps %v before the queue", gaps)
	}
	produceAll(t, b, "t", numbers(50, 53))
	got, gaps = next(t, s, 3)
	same(t, got, numbers(50, 53))
	if fmt.Sprint(gaps) != "[40]" {
		t.Errorf("gaps %v, want 40 records", gaps)
	}
}

func TestDisconnectEndsASlowSubscription(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	s := subscribe(t, b, node.SubscribeRequest{Topic: "t", Overflow: node.OverflowDisconnect, QueueRecords: 10})
	produceAll(t, b, "t", numbers(0, 11))
	if _, err := s.Next(context.Background()); status.CodeOf(err) != status.SlowConsumer {
		t.Errorf("with 11 of 10 waiting: %v", err)
	}
}

// A subscriber that is not served does not hold up the others.
func TestASlowSubscriberDoesNotSlowTheOthers(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	for _, o := range []node.Overflow{node.OverflowBlock, node.OverflowDropOldest, node.OverflowDropNewest} {
		subscribe(t, b, node.SubscribeRequest{Topic: "t", Overflow: o, QueueRecords: 1})
	}
	s := subscribe(t, b, node.SubscribeRequest{Topic: "t"})
	s.Grant(1000, 1<<20)
	for i := range 100 {
		produceAll(t, b, "t", numbers(i, i+1))
		got, _ := next(t, s, 1)
		same(t, got, numbers(i, i+1))
	}
}

// Filters run in the broker, and their cursors skip what they did not pick.
func TestFiltersPickByKeyAndPrefix(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	for range 3 {
		if err := produce(b, "t", "a", "b", "c", "d"); err != nil { // keys k0 k1 k2 k0
			t.Fatal(err)
		}
	}
	fetch := func(f node.Filter, start node.Start, max int) ([]string, string) {
		d, err := b.Fetch(context.Background(), node.FetchRequest{Topic: "t", Filter: f, Start: start, MaxRecords: max})
		if err != nil {
			t.Fatal(err)
		}
		return values(t, d), d.Cursor
	}
	got, _ := fetch(node.Filter{Key: []byte("k0")}, node.Start{}, 0)
	same(t, got, []string{"a", "d", "a", "d", "a", "d"})
	got, _ = fetch(node.Filter{Prefix: []byte("k")}, node.Start{}, 0)
	if len(got) != 12 {
		t.Errorf("prefix k: %d records", len(got))
	}
	got, _ = fetch(node.Filter{Key: []byte("k")}, node.Start{}, 0)
	if len(got) != 0 {
		t.Errorf("key k: %v", got)
	}
	var all []string
	start := node.Start{}
	for range 10 {
		part, cursor := fetch(node.Filter{Key: []byte("k0")}, start, 1)
		all = append(all, part...)
		start = node.Start{Kind: node.StartCursor, Cursor: cursor}
	}
	same(t, all, []string{"a", "d", "a", "d", "a", "d"})
	_, err := b.Fetch(context.Background(), node.FetchRequest{Topic: "t", Filter: node.Filter{Key: []byte("a"), Prefix: []byte("a")}})
	if status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("both filters: %v", err)
	}
}

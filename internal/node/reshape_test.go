package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// numbered are records of a key, each with its number.
func numbered(key string, from, to int) []byte {
	b := batch.NewBuilder(batch.Options{})
	for i := from; i < to; i++ {
		if err := b.AddRecord(&record.Record{Key: []byte(key), Value: fmt.Append(nil, i)}); err != nil {
			panic(err)
		}
	}
	return b.Finish()
}

// tally counts what a reader saw of each key, and checks the order.
type tally map[string]int

func (y tally) take(t testing.TB, d node.Delivery) {
	t.Helper()
	each(t, d, func(v *batch.View) {
		key, n := string(v.Key), 0
		if _, err := fmt.Sscan(string(v.Value), &n); err != nil {
			t.Fatal(err)
		}
		if n != y[key] {
			t.Fatalf("key %s: record %d, due is %d", key, n, y[key])
		}
		y[key]++
	})
}

// drain reads to the end, and gives the cursor there.
func (y tally) drain(t testing.TB, b *node.Broker, topic string, start node.Start, max int) string {
	t.Helper()
	for {
		d, err := b.Fetch(context.Background(), node.FetchRequest{Topic: topic, Start: start, MaxRecords: max})
		if err != nil {
			t.Fatal(err)
		}
		if d.Gap != nil {
			t.Fatalf("a gap: %+v", d.Gap)
		}
		y.take(t, d)
		if len(d.Slices) == 0 && d.AtEnd {
			return d.Cursor
		}
		start = node.Start{Kind: node.StartCursor, Cursor: d.Cursor}
	}
}

func send(b *node.Broker, topic string, raw []byte) error {
	ch := make(chan error, 1)
	b.Produce(node.ProduceRequest{Topic: topic, Batch: raw}, func(_ node.ProduceResult, err error) { ch <- err })
	return <-ch
}

func leavesOf(t testing.TB, b *node.Broker, topic string) int {
	t.Helper()
	d, err := b.DescribeTopic(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range d.Ranges {
		if len(r.Children) == 0 {
			n++
		}
	}
	return n
}

// A cursor taken before splits and merges goes on after them, through restarts,
// and each key is read once and in order.
func TestACursorSurvivesSplitsAndMerges(t *testing.T) {
	fs := vfs.NewMem()
	b := open(t, fs)
	create(t, b, "t", nil)
	ctx := context.Background()
	written := tally{}
	rng := rand.New(rand.NewPCG(1, 2))
	write := func() {
		for range 40 {
			key := fmt.Sprint("k", rng.IntN(20))
			n := 1 + rng.IntN(5)
			if err := send(b, "t", numbered(key, written[key], written[key]+n)); err != nil {
				t.Fatal(err)
			}
			written[key] += n
		}
	}
	type reader struct {
		seen   tally
		cursor string
	}
	var readers []*reader
	for step := range 30 {
		write()
		d, err := b.Fetch(ctx, node.FetchRequest{Topic: "t", MaxRecords: 1 + rng.IntN(100)})
		if err != nil {
			t.Fatal(err)
		}
		r := &reader{tally{}, d.Cursor}
		r.seen.take(t, d)
		readers = append(readers, r)
		switch rng.IntN(5) {
		case 4:
			err = b.RestripeTopic(ctx, "t")
		case 0, 1:
			err = b.SplitTopic(ctx, "t", nil)
		case 2:
			if leavesOf(t, b, "t") > 1 {
				err = b.MergeTopic(ctx, "t")
			}
		case 3:
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			b = open(t, fs)
		}
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	write()
	for i, r := range readers {
		r.seen.drain(t, b, "t", node.Start{Kind: node.StartCursor, Cursor: r.cursor}, 1+rng.IntN(50))
		if fmt.Sprint(r.seen) != fmt.Sprint(written) {
			t.Errorf("reader %d saw %v, want %v", i, r.seen, written)
		}
	}
}

// Appends that run while ranges are split and merged are all made, once, and in
// the order of each key.
func TestAppendsAreCarriedOver(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", map[string]string{"segment-bytes": "65536"})
	ctx := context.Background()
	const writers, each = 8, 300
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			key := fmt.Sprint("w", w)
			var pipeline sync.WaitGroup
			for i := range each {
				pipeline.Add(1)
				b.Produce(node.ProduceRequest{Topic: "t", Batch: numbered(key, i, i+1)}, func(_ node.ProduceResult, err error) {
					if err != nil {
						t.Errorf("append %d of %s: %v", i, key, err)
					}
					pipeline.Done()
				})
			}
			pipeline.Wait()
		})
	}
	for i := range 12 {
		var err error
		if i%3 == 2 {
			err = b.MergeTopic(ctx, "t")
		} else {
			err = b.SplitTopic(ctx, "t", nil)
		}
		if err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	seen := tally{}
	seen.drain(t, b, "t", node.Start{}, 0)
	for w := range writers {
		if n := seen[fmt.Sprint("w", w)]; n != each {
			t.Errorf("writer %d: %d records, want %d", w, n, each)
		}
	}
}

// What comes while a range is being ended waits, and is appended in its order.
func TestWhatWaitsForASplitKeepsItsOrder(t *testing.T) {
	fs := faultfs.New(faultfs.Config{})
	b := open(t, fs)
	create(t, b, "t", nil)
	if err := send(b, "t", numbered("k", 0, 1)); err != nil {
		t.Fatal(err)
	}
	hold, syncing := make(chan struct{}), make(chan struct{}, 100)
	fs.SetInjector(func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.SyncData {
			syncing <- struct{}{}
			<-hold
		}
		return faultfs.Fault{}
	})
	split := make(chan error, 1)
	go func() { split <- b.SplitTopic(context.Background(), "t", nil) }()
	<-syncing // the range is frozen, and its segment is being sealed
	const n = 20
	appended := make(chan error, n)
	for i := 1; i <= n; i++ {
		b.Produce(node.ProduceRequest{Topic: "t", Batch: numbered("k", i, i+1)}, func(_ node.ProduceResult, err error) { appended <- err })
	}
	close(hold)
	fs.SetInjector(nil)
	for range n {
		if err := <-appended; err != nil {
			t.Error(err)
		}
	}
	if err := <-split; err != nil {
		t.Error(err)
	}
	seen := tally{}
	seen.drain(t, b, "t", node.Start{}, 0)
	if seen["k"] != n+1 {
		t.Errorf("%d records, want %d", seen["k"], n+1)
	}
}

// A batch with keys of several ranges is made in each of them.
func TestABatchMayStraddle(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	ctx := context.Background()
	for range 3 {
		if err := b.SplitTopic(ctx, "t", nil); err != nil {
			t.Fatal(err)
		}
	}
	raw := batch.NewBuilder(batch.Options{Compression: batch.S2})
	for i := range 100 {
		rec := &record.Record{Key: fmt.Append(nil, "k", i%10), Value: fmt.Append(nil, i/10)}
		if err := raw.AddRecord(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(b, "t", raw.Finish()); err != nil {
		t.Fatal(err)
	}
	seen := tally{}
	seen.drain(t, b, "t", node.Start{}, 7)
	for i := range 10 {
		if n := seen[fmt.Sprint("k", i)]; n != 10 {
			t.Errorf("key %d: %d records, want 10", i, n)
		}
	}
}

// Records without keys go to all ranges.
func TestKeylessBatchesSpread(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	for range 3 {
		if err := b.SplitTopic(context.Background(), "t", nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 40 {
		raw := batch.NewBuilder(batch.Options{})
		if err := raw.AddRecord(&record.Record{Value: []byte("v")}); err != nil {
			t.Fatal(err)
		}
		if err := send(b, "t", raw.Finish()); err != nil {
			t.Fatal(err)
		}
	}
	d, err := b.DescribeTopic(context.Background(), "t")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Ranges {
		if len(r.Children) == 0 && r.Records != 10 {
			t.Errorf("range %v has %d records, want 10", r.ID, r.Records)
		}
	}
}

// A split without a key halves the load: with one key that has half of it, that
// key is alone on its side.
func TestASplitHalvesTheLoad(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	for i := range 100 {
		for _, key := range []string{"hot", fmt.Sprint("k", i)} {
			if err := send(b, "t", numbered(key, i, i+1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.SplitTopic(context.Background(), "t", nil); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		for _, key := range []string{"hot", fmt.Sprint("k", i)} {
			if err := send(b, "t", numbered(key, i, i+1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	d, err := b.DescribeTopic(context.Background(), "t")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Ranges[1:] {
		if r.Records < 50 {
			t.Errorf("range %v got %d of 200 records", r.ID, r.Records)
		}
	}
}

func TestReshapingThatCannotBeIsRefused(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	ctx := context.Background()
	if err := b.MergeTopic(ctx, "t"); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("merge of one range: %v", err)
	}
	if err := b.SplitTopic(ctx, "none", nil); status.CodeOf(err) != status.TopicNotFound {
		t.Errorf("split of no topic: %v", err)
	}
	if err := b.SplitTopic(ctx, "t", []byte("k")); err != nil {
		t.Fatal(err)
	}
	if err := b.SplitTopic(ctx, "t", []byte("k")); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("split where a range begins: %v", err)
	}
	produceAll(t, b, "t", numbers(0, 10))
}

// Splits and merges at the same time all come to an end, and the topic stays
// whole.
func TestReshapingAtTheSameTime(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				var err error
				if i%2 == 0 {
					err = b.SplitTopic(context.Background(), "t", nil)
				} else {
					err = b.MergeTopic(context.Background(), "t")
				}
				switch status.CodeOf(err) {
				case "", status.Unavailable, status.InvalidArgument:
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	produceAll(t, b, "t", numbers(0, 100))
	got, _ := readAll(t, b, "t", node.Start{}, 0)
	if len(got) != 100 {
		t.Errorf("%d records, want 100", len(got))
	}
}

// A power cut at any time of a reshaping leaves a topic that has all its
// records and takes more.
func TestAPowerCutWhileReshaping(t *testing.T) {
	for seed := range uint64(40) {
		fs := faultfs.New(faultfs.Config{Seed: seed})
		b := open(t, fs)
		create(t, b, "t", nil)
		written := tally{}
		write := func(b *node.Broker) {
			for i := range 6 {
				key := fmt.Sprint("k", i)
				if err := send(b, "t", numbered(key, written[key], written[key]+2)); err != nil {
					t.Fatal(err)
				}
				written[key] += 2
			}
		}
		write(b)
		if seed%2 == 1 {
			if err := b.SplitTopic(context.Background(), "t", nil); err != nil {
				t.Fatal(err)
			}
			write(b)
		}
		// The machine stops after so many more operations of its disk.
		fs.CrashAt(fs.Changes() + int64(seed/2) + 1)
		if seed%2 == 0 {
			_ = b.SplitTopic(context.Background(), "t", nil) // whatever became of it
		} else {
			_ = b.MergeTopic(context.Background(), "t")
		}
		image := fs.Crash(faultfs.CrashOptions{})
		after := open(t, image)
		write(after)
		seen := tally{}
		seen.drain(t, after, "t", node.Start{}, 3)
		if fmt.Sprint(seen) != fmt.Sprint(written) {
			t.Errorf("seed %d: read %v, want %v", seed, seen, written)
		}
	}
}

// A restriped topic writes on in a new segment of each range.
func TestARestripeBeginsNewSegments(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	ctx := context.Background()
	if err := b.SplitTopic(ctx, "t", nil); err != nil {
		t.Fatal(err)
	}
	segments := func() (n int) {
		d, err := b.DescribeTopic(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range d.Ranges {
			n += len(r.Segments)
		}
		return n
	}
	for i := range 20 {
		if err := send(b, "t", numbered(fmt.Sprint("k", i), 0, 1)); err != nil {
			t.Fatal(err)
		}
	}
	before := segments()
	if err := b.RestripeTopic(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if now := segments(); now != before+2 {
		t.Errorf("%d segments, of two ranges with %d", now, before)
	}
	if err := b.RestripeTopic(ctx, "no"); status.CodeOf(err) != status.TopicNotFound {
		t.Errorf("no topic: %v", err)
	}
}

// A topic has no more ranges than its owner allows, and says so before anything
// is sealed.
func TestSplitsEndAtTheTopicsLimit(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", map[string]string{"max-ranges": "3"})
	ctx := context.Background()
	for range 2 {
		if err := b.SplitTopic(ctx, "t", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(b, "t", numbered("k", 0, 1)); err != nil {
		t.Fatal(err)
	}
	before, err := b.DescribeTopic(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SplitTopic(ctx, "t", nil); status.CodeOf(err) != status.LimitReached {
		t.Errorf("a fourth range of three: %v", err)
	}
	after, err := b.DescribeTopic(ctx, "t")
	if err != nil || fmt.Sprint(after.Ranges) != fmt.Sprint(before.Ranges) {
		t.Errorf("a split that was refused changed %v to %v, %v", before.Ranges, after.Ranges, err)
	}
	if _, err := b.AlterTopic(ctx, "t", map[string]string{"max-ranges": "1"}); err != nil {
		t.Fatal(err)
	}
	if err := b.MergeTopic(ctx, "t"); err != nil || leavesOf(t, b, "t") != 2 {
		t.Errorf("a merge above the limit: %v", err)
	}
}

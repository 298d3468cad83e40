package quire_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/quirelog/quire"
	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/record"
)

// A producer learns where its topic is split, and goes on: every record is
// written once, those of a key in their order, and the callbacks come in the
// order of Send.
func TestAProducerGoesOnWhileItsTopicIsSplit(t *testing.T) {
	b, err := quire.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := context.Background()
	c, err := b.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CreateTopic(ctx, "t", client.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	p := c.NewProducer("t", client.BatchRecords(300), client.MaxBuffered(1<<20))
	const keys, each, every = 40, 500, 2_000
	called := 0
	for i := range keys * each {
		if i%every == every-1 {
			change := c.SplitTopic(ctx, "t", nil)
			if i/every%4 == 3 {
				change = c.MergeTopic(ctx, "t")
			}
			if change != nil {
				t.Fatal(change)
			}
		}
		rec := record.Record{Value: strconv.AppendInt(nil, int64(i/(keys+1)), 10)}
		if k := i % (keys + 1); k < keys {
			rec.Key = fmt.Append(nil, "k", k)
		}
		if err := p.Send(ctx, rec, func(err error) {
			if err != nil || called != i {
				t.Errorf("callback %d came as number %d: %v", i, called, err)
			}
			called++
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if called != keys*each {
		t.Errorf("%d callbacks, want %d", called, keys*each)
	}
	compare(t, c, keys, keys*each)
}

// compare reads all back.
func compare(t *testing.T, c *client.Client, keys, total int) {
	t.Helper()
	reading, err := c.Read(context.Background(), "t", client.Start())
	if err != nil {
		t.Fatal(err)
	}
	next, read := map[string]int{}, 0
	for rec, err := range reading.All() {
		if err != nil {
			t.Fatal(err)
		}
		read++
		if rec.Key == nil {
			continue
		}
		n, err := strconv.Atoi(string(rec.Value))
		if err != nil || n != next[string(rec.Key)] {
			t.Fatalf("key %s: record %s, due is %d", rec.Key, rec.Value, next[string(rec.Key)])
		}
		next[string(rec.Key)]++
	}
	if read != total || len(next) != keys {
		t.Errorf("%d records of %d keys, want %d of %d", read, len(next), total, keys)
	}
}

package node_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

func open(t testing.TB, fs vfs.FS, change ...func(*node.Config)) *node.Broker {
	t.Helper()
	cfg := node.Config{
		Dir: "d", FS: fs, TendInterval: 10 * time.Millisecond,
		Store: segment.Config{JournalFileBytes: 256 << 10, BallastReserve: -1, MinFreeBytes: -1},
	}
	for _, f := range change {
		f(&cfg)
	}
	b, err := node.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func create(t testing.TB, b *node.Broker, name string, settings map[string]string) {
	t.Helper()
	if _, err := b.CreateTopic(context.Background(), name, catalog.Log, settings); err != nil {
		t.Fatal(err)
	}
}

func encode(values ...string) []byte {
	b := batch.NewBuilder(batch.Options{})
	for i, v := range values {
		if err := b.AddRecord(&record.Record{Key: []byte(fmt.Sprint("k", i%3)), Value: []byte(v), Time: time.UnixMicro(1)}); err != nil {
			panic(err)
		}
	}
	return b.Finish()
}

func produce(b *node.Broker, topic string, values ...string) error {
	ch := make(chan error, 1)
	b.Produce(node.ProduceRequest{Topic: topic, Batch: encode(values...)}, func(_ node.ProduceResult, err error) { ch <- err })
	return <-ch
}

func values(t testing.TB, d node.Delivery) []string {
	t.Helper()
	var out []string
	each(t, d, func(v *batch.View) { out = append(out, string(v.Value)) })
	return out
}

// each calls f for the records of a delivery.
func each(t testing.TB, d node.Delivery, f func(*batch.View)) {
	t.Helper()
	var r batch.Reader
	for _, s := range d.Slices {
		if err := r.Reset(s.Batch); err != nil {
			t.Fatal(err)
		}
		r.Skip(s.Skip)
		for range s.Take {
			if !r.Next() {
				t.Fatal("a slice promises more records than its batch has")
			}
			f(r.Record())
		}
	}
}

func readAll(t testing.TB, b *node.Broker, topic string, start node.Start, max int) ([]string, string) {
	t.Helper()
	var out []string
	for {
		d, err := b.Fetch(context.Background(), node.FetchRequest{Topic: topic, Start: start, MaxRecords: max})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, values(t, d)...)
		if len(d.Slices) == 0 && d.Gap == nil && d.AtEnd {
			return out, d.Cursor
		}
		start = node.Start{Kind: node.StartCursor, Cursor: d.Cursor}
	}
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprint("v", i))
	}
	return out
}

func same(t testing.TB, got, want []string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %d records %.200v, want %d %.200v", len(got), got, len(want), want)
	}
}

// A cursor goes on exactly where it was, through rolls and restarts.
func TestACursorGoesOnThroughRollsAndRestarts(t *testing.T) {
	fs := vfs.NewMem()
	b := open(t, fs)
	create(t, b, "orders", map[string]string{"segment-bytes": "65536"})
	filler := string(bytes.Repeat([]byte("x"), 1000))
	cursor := node.Start{}
	n := 0
	for restart := range 3 {
		for range 200 {
			if err := produce(b, "orders", fmt.Sprint("v", n)+filler); err != nil {
				t.Fatal(err)
			}
			n++
		}
		got, token := readAll(t, b, "orders", cursor, 7)
		want := numbers(n-200, n)
		for i := range want {
			want[i] += filler
		}
		same(t, got, want)
		cursor = node.Start{Kind: node.StartCursor, Cursor: token}
		d, err := b.DescribeTopic(context.Background(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Ranges[0].Segments) < 3*(restart+1) {
			t.Errorf("%d segments after %d records: nothing was rolled", len(d.Ranges[0].Segments), n)
		}
		if d.Records() != uint64(n) {
			t.Errorf("describe says %d records, want %d", d.Records(), n)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = open(t, fs)
	}
	got, _ := readAll(t, b, "orders", node.Start{}, 1000)
	if len(got) != n {
		t.Errorf("from the start: %d records, want %d", len(got), n)
	}
}

// Appends of one caller keep their order while segments are rolled under them.
func TestPipelinedAppendsKeepTheirOrderThroughRolls(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", map[string]string{"segment-bytes": "65536"})
	const n = 3000
	var wg sync.WaitGroup
	wg.Add(n)
	for i := range n {
		b.Produce(node.ProduceRequest{Topic: "t", Batch: encode(fmt.Sprint("v", i))}, func(_ node.ProduceResult, err error) {
			defer wg.Done()
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, _ := readAll(t, b, "t", node.Start{}, 0)
	same(t, got, numbers(0, n))
}

func TestALongPollWakesAtTheFirstRecord(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	got := make(chan []string)
	go func() {
		d, err := b.Fetch(context.Background(), node.FetchRequest{Topic: "t", Start: node.Start{Kind: node.StartEnd}, Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		got <- values(t, d)
	}()
	for {
		if err := produce(b, "t", "hello"); err != nil {
			t.Fatal(err)
		}
		select {
		case v := <-got:
			if len(v) == 0 || v[0] != "hello" {
				t.Fatalf("got %v", v)
			}
			return
		default:
		}
	}
}

func TestDeletedTopicsAreToldApart(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	create(t, b, "other", nil)
	if err := produce(b, "t", "a"); err != nil {
		t.Fatal(err)
	}
	_, token := readAll(t, b, "t", node.Start{}, 0)
	cursor := node.Start{Kind: node.StartCursor, Cursor: token}
	fetch := func(topic string, s node.Start) error {
		_, err := b.Fetch(context.Background(), node.FetchRequest{Topic: topic, Start: s})
		return err
	}
	if c := status.CodeOf(fetch("other", cursor)); c != status.CursorInvalid {
		t.Errorf("cursor of another topic: %v", c)
	}
	if err := b.DeleteTopic(context.Background(), "t"); err != nil {
		t.Fatal(err)
	}
	if c := status.CodeOf(fetch("t", cursor)); c != status.CursorTopicGone {
		t.Errorf("cursor of a deleted topic: %v", c)
	}
	if c := status.CodeOf(fetch("t", node.Start{})); c != status.TopicNotFound {
		t.Errorf("deleted topic: %v", c)
	}
	create(t, b, "t", nil)
	if c := status.CodeOf(fetch("t", cursor)); c != status.CursorTopicGone {
		t.Errorf("cursor of the earlier topic of the name: %v", c)
	}
	if got, _ := readAll(t, b, "t", node.Start{}, 0); len(got) != 0 {
		t.Errorf("the new topic has the old one's records: %v", got)
	}
}

func appendTimes(t testing.TB, d node.Delivery) []time.Time {
	t.Helper()
	var out []time.Time
	for _, s := range d.Slices {
		h, err := batch.ParseHeader(s.Batch)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, h.AppendTime.Time())
	}
	return out
}

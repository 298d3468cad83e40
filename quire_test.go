package quire_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/quirelog/quire"
	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

func Example() {
	dir, err := os.MkdirTemp("", "quire")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	broker, err := quire.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	ctx := context.Background()
	c, err := broker.Client(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	if _, err := c.CreateTopic(ctx, "orders", client.TopicConfig{}); err != nil {
		log.Fatal(err)
	}
	for _, v := range []string{"placed", "paid", "shipped"} {
		if _, err := c.Produce(ctx, "orders", record.Record{Key: []byte("order-7"), Value: []byte(v)}); err != nil {
			log.Fatal(err)
		}
	}
	got, err := c.Fetch(ctx, "orders", client.Start())
	if err != nil {
		log.Fatal(err)
	}
	for _, rec := range got.Records {
		fmt.Printf("%s %s\n", rec.Key, rec.Value)
	}
	// Output:
	// order-7 placed
	// order-7 paid
	// order-7 shipped
}

func mustOpen(t *testing.T, dir string) (*quire.Broker, *client.Client) {
	t.Helper()
	b, err := quire.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	c, err := b.Client(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return b, c
}

// A cursor that an embedded broker gave goes on in the next one on the same
// directory.
func TestAnEmbeddedBrokerKeepsRecordsAndCursors(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	b, c := mustOpen(t, dir)
	if _, err := c.CreateTopic(ctx, "t", client.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	write := func(c *client.Client, v string) {
		t.Helper()
		if _, err := c.Produce(ctx, "t", record.Record{Key: []byte("k"), Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	write(c, "a")
	write(c, "b")
	first, err := c.Fetch(ctx, "t", client.Start(), client.MaxRecords(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	_, c = mustOpen(t, dir)
	write(c, "c")
	rest, err := c.Fetch(ctx, "t", client.Cursor(first.Cursor))
	if err != nil {
		t.Fatal(err)
	}
	if len(rest.Records) != 2 || string(rest.Records[0].Value) != "b" || string(rest.Records[1].Value) != "c" {
		t.Errorf("after the cursor: %+v", rest.Records)
	}
}

func TestADirectoryIsOpenOnce(t *testing.T) {
	dir := t.TempDir()
	b, _ := mustOpen(t, dir)
	_, err := quire.Open(dir)
	var e *status.Error
	if !errors.As(err, &e) || e.Code != status.DataLocked {
		t.Errorf("opened twice: %v", err)
	}
	if err := b.Err(); err != nil {
		t.Errorf("the first broker: %v", err)
	}
	select {
	case <-b.Done():
		t.Error("the first broker is done")
	default:
	}
}

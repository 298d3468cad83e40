package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/quirelog/quire"
	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// open starts a broker in a directory that stop removes, with a topic that has
// some records. Programs that talk to a broker of their own use client.Dial.
func open(ctx context.Context, topic string, recs ...record.Record) (c *client.Client, stop func()) {
	dir, err := os.MkdirTemp("", "quire-example-")
	if err != nil {
		log.Fatal(err)
	}
	broker, err := quire.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	if c, err = broker.Client(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := c.CreateTopic(ctx, topic, client.TopicConfig{}); err != nil {
		log.Fatal(err)
	}
	if len(recs) > 0 {
		if _, err := c.Produce(ctx, topic, recs...); err != nil {
			log.Fatal(err)
		}
	}
	return c, func() {
		_ = c.Close()
		_ = broker.Close()
		_ = os.RemoveAll(dir)
	}
}

func order(key, value string) record.Record {
	return record.Record{Key: []byte(key), Value: []byte(value)}
}

func ExampleDial() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:1,127.0.0.1:2", client.WithName("shop"), client.WithDialTimeout(time.Second))
	if err != nil {
		fmt.Println(status.CodeOf(err))
		return
	}
	defer c.Close()
	// Output: unavailable
}

func ExampleClient_CreateTopic() {
	ctx := context.Background()
	c, stop := open(ctx, "orders")
	defer stop()
	topic, err := c.CreateTopic(ctx, "payments", client.TopicConfig{
		Settings: map[string]string{"retention-age": "168h"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(topic.Name, topic.Type, topic.Settings["ack"])

	_, err = c.CreateTopic(ctx, "payments", client.TopicConfig{})
	if errors.Is(err, &status.Error{Code: status.TopicExists}) {
		fmt.Println("it was there")
	}
	// Output:
	// payments log quorum
	// it was there
}

func ExampleClient_Topics() {
	ctx := context.Background()
	c, stop := open(ctx, "orders")
	defer stop()
	for topic, err := range c.Topics(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(topic.Name, topic.Type)
	}
	// Output: orders log
}

func ExampleClient_DescribeTopic() {
	ctx := context.Background()
	c, stop := open(ctx, "orders", order("ann", "1 book"), order("bob", "2 pens"))
	defer stop()
	d, err := c.DescribeTopic(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Name, "has", d.Records(), "records in", len(d.Ranges), "range")
	// Output: orders has 2 records in 1 range
}

func ExampleClient_AlterTopic() {
	ctx := context.Background()
	c, stop := open(ctx, "orders")
	defer stop()
	topic, err := c.AlterTopic(ctx, "orders", map[string]string{"retention-bytes": "1000000"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(topic.Settings["retention-bytes"])
	// Output: 1000000
}

func ExampleClient_DeleteTopic() {
	ctx := context.Background()
	c, stop := open(ctx, "orders")
	defer stop()
	fmt.Println(c.DeleteTopic(ctx, "orders"))
	fmt.Println(status.CodeOf(c.DeleteTopic(ctx, "orders")))
	// Output:
	// <nil>
	// topic_not_found
}

func ExampleClient_Produce() {
	ctx := context.Background()
	c, stop := open(ctx, "orders")
	defer stop()
	appended, err := c.Produce(ctx, "orders",
		order("ann", "1 book"),
		record.Record{
			Key: []byte("ann"), Value: []byte("2 pens"),
			Headers: []record.Header{{Key: "shop", Value: []byte("north")}},
		})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(time.Since(appended) < time.Minute)

	// What is over a limit is refused before anything is sent.
	_, err = c.Produce(ctx, "orders", record.Record{Key: make([]byte, 5000)})
	fmt.Println(err)
	// Output:
	// true
	// record over the limit: key of 5000 bytes, at most 4096 (record_too_large)
}

func ExampleClient_NewProducer() {
	ctx := context.Background()
	c, stop := open(ctx, "orders")
	defer stop()
	p := c.NewProducer("orders", client.WithCompression(client.CompressionZstd))
	for i := range 10_000 {
		err := p.Send(ctx, order("ann", fmt.Sprint(i)), func(err error) {
			if err != nil {
				log.Print(err) // of this record
			}
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Close writes what is left. It tells how many records failed, if any.
	if err := p.Close(ctx); err != nil {
		log.Fatal(err)
	}
	d, err := c.DescribeTopic(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Records())
	// Output: 10000
}

func ExampleProducer_Flush() {
	ctx := context.Background()
	c, stop := open(ctx, "orders")
	defer stop()
	p := c.NewProducer("nowhere", client.Linger(time.Second))
	defer p.Close(ctx)
	for range 3 {
		if err := p.Send(ctx, order("ann", "1 book"), nil); err != nil {
			log.Fatal(err)
		}
	}
	err := p.Flush(ctx)
	var lost *client.ProduceError
	if errors.As(err, &lost) {
		fmt.Println(lost.Failed, "records failed:", status.CodeOf(err))
	}
	// Output: 3 records failed: topic_not_found
}

func ExampleClient_Fetch() {
	ctx := context.Background()
	c, stop := open(ctx, "orders", order("ann", "1 book"), order("bob", "2 pens"), order("ann", "3 cups"))
	defer stop()
	from := client.Start()
	for {
		got, err := c.Fetch(ctx, "orders", from, client.MaxRecords(2), client.Wait(10*time.Millisecond))
		if err != nil {
			log.Fatal(err)
		}
		for _, rec := range got.Records {
			fmt.Printf("%s: %s\n", rec.Key, rec.Value)
		}
		// The cursor can be kept anywhere: it continues exactly here.
		from = client.Cursor(got.Cursor)
		if got.AtEnd {
			break
		}
	}
	// Output:
	// ann: 1 book
	// bob: 2 pens
	// ann: 3 cups
}

func ExampleClient_Read() {
	ctx := context.Background()
	c, stop := open(ctx, "orders", order("ann", "1 book"), order("bob", "2 pens"), order("ann", "3 cups"))
	defer stop()
	r, err := c.Read(ctx, "orders", client.Start(), client.Key([]byte("ann")))
	if err != nil {
		log.Fatal(err)
	}
	for rec, err := range r.All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", rec.Key, rec.Value)
	}
	// Output:
	// ann: 1 book
	// ann: 3 cups
}

func ExampleClient_Subscribe() {
	ctx := context.Background()
	c, stop := open(ctx, "orders", order("ann", "1 book"), order("bob", "2 pens"))
	defer stop()
	sub, err := c.Subscribe(ctx, "orders", client.Start(), client.Window(1000, 1<<20))
	if err != nil {
		log.Fatal(err)
	}
	defer sub.Close()
	n := 0
	for rec, err := range sub.All() {
		var gap *client.GapError
		switch {
		case errors.As(err, &gap):
			fmt.Println(gap) // records that are gone; the iteration goes on
			continue
		case err != nil:
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", rec.Key, rec.Value)
		if n++; n == 2 {
			break
		}
	}
	// The next program starts from where this one was.
	cursor := sub.Cursor()
	if _, err := c.Produce(ctx, "orders", order("ann", "3 cups")); err != nil {
		log.Fatal(err)
	}
	r, err := c.Read(ctx, "orders", client.Cursor(cursor))
	if err != nil {
		log.Fatal(err)
	}
	for rec, err := range r.All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("later %s: %s\n", rec.Key, rec.Value)
	}
	// Output:
	// ann: 1 book
	// bob: 2 pens
	// later ann: 3 cups
}

func ExampleFrom() {
	for _, from := range []client.From{
		client.Start(), client.End(), client.At(time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC)), client.Cursor("cQ1"),
	} {
		fmt.Println(from)
	}
	// Output:
	// start
	// end
	// 2016-01-01T00:00:00Z
	// cursor cQ1
}

func ExampleAt() {
	ctx := context.Background()
	c, stop := open(ctx, "orders", order("ann", "1 book"))
	defer stop()
	hour := time.Now().Add(-time.Hour)
	got, err := c.Fetch(ctx, "orders", client.At(hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(got.Records))
	// Output: 1
}

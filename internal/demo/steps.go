package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quirelog/quire/client"
)

// start starts the broker and makes the topics.
func (r *run) start(ctx context.Context) (s Step, err error) {
	if err := r.launch(ctx); err != nil {
		return s, err
	}
	for _, topic := range []string{mainTopic, liveTopic, rangesTopic, crashTopic} {
		if _, err := r.client.CreateTopic(ctx, topic, client.TopicConfig{}); err != nil {
			return s, err
		}
	}
	s = Step{Name: "start", Title: "1  A broker, as a process of its own"}
	s.say("pid %d at %s, ready after %s", r.broker.pid(), r.broker.addr, span(r.broker.recovery))
	s.say("nothing was configured: every write is on stable storage before it is acknowledged")
	s.Facts = map[string]any{"pid": r.broker.pid(), "ready_us": micros(r.broker.recovery)}
	return s, nil
}

// launch starts a broker on the data and connects to it.
func (r *run) launch(ctx context.Context) (err error) {
	if r.broker, err = launch(ctx, r.Options); err != nil {
		return err
	}
	r.client, err = client.Dial(ctx, r.broker.addr, client.WithName("quire-demo"))
	return err
}

// load writes all earthquakes.
func (r *run) load(ctx context.Context) (s Step, err error) {
	q := r.quakes
	bar := r.meter("loading", len(q.records))
	defer bar.End()
	producer := r.client.NewProducer(mainTopic)
	var acked atomic.Int64
	begin := time.Now()
	for i := range q.records {
		if err := producer.Send(ctx, q.records[i], func(err error) {
			if err == nil {
				bar.Set(acked.Add(1))
			}
		}); err != nil {
			return s, errors.Join(err, producer.Close(ctx))
		}
	}
	if err := producer.Close(ctx); err != nil {
		return s, err
	}
	took := time.Since(begin)
	s = Step{Name: "load", Title: "2  Load the earthquakes of 2016; the key is the network that reported each"}
	s.say("%s records, %s, acknowledged in %s: %s", count(len(q.records)), size(q.bytes), span(took),
		rate(len(q.records), took))
	s.Facts = map[string]any{"records": len(q.records), "bytes": q.bytes, "us": micros(took)}
	return s, nil
}

// cursorAfter is after how many records the demo keeps a cursor.
const cursorAfter = 10_000

// readBack reads everything and compares it.
func (r *run) readBack(ctx context.Context) (s Step, err error) {
	bar := r.meter("reading", len(r.quakes.records))
	defer bar.End()
	begin := time.Now()
	reading, err := r.client.Read(ctx, mainTopic, client.Start())
	if err != nil {
		return s, err
	}
	seen := newLedger(r.quakes)
	for rec, err := range reading.All() {
		if err != nil {
			return s, err
		}
		if err := seen.check(rec); err != nil {
			return s, err
		}
		if seen.read == cursorAfter {
			r.kept.cursor, r.kept.seen = reading.Cursor(), seen.clone()
		}
		bar.Set(int64(seen.read))
	}
	took := time.Since(begin)
	if seen.read != len(r.quakes.records) {
		return s, broken("%d records were read, %d were written", seen.read, len(r.quakes.records))
	}
	s = Step{Name: "read", Title: "3  Read them back and compare each"}
	s.say("%s records in %s: each once, byte for byte, in order within each of %d keys",
		count(seen.read), span(took), len(r.quakes.perKey))
	s.say("one key has %s", r.largestKeys())
	s.Facts = map[string]any{"records": seen.read, "keys": len(r.quakes.perKey), "us": micros(took)}
	return s, nil
}

// largestKeys shows how skewed the load is.
func (r *run) largestKeys() string {
	keys := make([]string, 0, len(r.quakes.perKey))
	for key := range r.quakes.perKey {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y string) int {
		return cmp.Or(len(r.quakes.perKey[y])-len(r.quakes.perKey[x]), strings.Compare(x, y))
	})
	largest := keys[0]
	n := len(r.quakes.perKey[largest])
	return fmt.Sprintf("a third of the load, as in life: %s of the records are of %q", count(n), largest)
}

// end closes the story.
func (r *run) end() Step {
	took := time.Since(r.started)
	s := Step{Name: "end", Title: "All of it held, in " + span(took)}
	s.say("data: %s", Source)
	s.say("next: `quire serve`, then `quire topic create orders`, `quire produce orders` and `quire consume orders`")
	s.Facts = map[string]any{"us": micros(took), "source": Source}
	return s
}

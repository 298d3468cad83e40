package demo

import (
	"context"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/record"
)

// Bounds of the following: so many records, or as many as the time allows on a
// slow disk.
const (
	followRecords = 2_000
	followTime    = 3 * time.Second
)

// follow reads at the end of the topic while records arrive one at a time.
func (r *run) follow(ctx context.Context) (s Step, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sub, err := r.client.Subscribe(ctx, liveTopic, client.End())
	if err != nil {
		return s, err
	}
	defer sub.Close()

	arrivals := make(chan arrival, followRecords+1)
	go func() {
		defer close(arrivals)
		for rec, err := range sub.All() {
			arrivals <- arrival{rec, err, time.Now()}
			if err != nil {
				return
			}
		}
	}()

	bar := r.meter("following", followRecords)
	defer bar.End()
	seen := newLedger(r.quakes)
	var acked, delivered []time.Duration
	for begin := time.Now(); len(acked) < followRecords && time.Since(begin) < followTime; {
		sent := time.Now()
		if _, err := r.client.Produce(ctx, liveTopic, r.quakes.records[len(acked)]); err != nil {
			return s, err
		}
		acked = append(acked, time.Since(sent))
		a, ok := <-arrivals
		if !ok {
			return s, broken("the subscription ended")
		}
		if a.err != nil {
			return s, a.err
		}
		if err := seen.check(a.rec); err != nil {
			return s, err
		}
		delivered = append(delivered, a.at.Sub(sent))
		bar.Set(int64(len(acked)))
	}
	s = Step{Name: "follow", Title: "4  Follow the tail while more arrive, one at a time"}
	s.say("%s records written, each seen by the reader: none missing, none twice", count(seen.read))
	s.say("half were acknowledged within %s and in the reader's hands within %s; 99 of 100 within %s",
		span(quantile(acked, 0.5)), span(quantile(delivered, 0.5)), span(quantile(delivered, 0.99)))
	s.Facts = map[string]any{
		"records": seen.read, "acknowledged_p50_us": micros(quantile(acked, 0.5)),
		"delivered_p50_us": micros(quantile(delivered, 0.5)), "delivered_p99_us": micros(quantile(delivered, 0.99)),
	}
	return s, nil
}

// arrival is what the reader got, and when.
type arrival struct {
	rec record.Record
	err error
	at  time.Time
}

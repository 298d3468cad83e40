package demo

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/quirelog/quire/client"
)

// early is after how many records of the reshaped topic a reader stops, to go on
// when its ranges have changed under it.
const early = 5_000

// reshape splits a topic twice and merges it once while it is written, and goes
// on with a cursor from before.
func (r *run) reshape(ctx context.Context) (s Step, err error) {
	all := r.quakes.records
	bar := r.meter("writing while it is split", len(all))
	defer bar.End()
	first := len(all) / 4
	producer := r.client.NewProducer(rangesTopic, client.BatchRecords(500))
	var acked atomic.Int64
	send := func(from, to int) error {
		for i := from; i < to; i++ {
			if err := producer.Send(ctx, all[i], func(err error) {
				if err == nil {
					bar.Set(acked.Add(1))
				}
			}); err != nil {
				return err
			}
		}
		return producer.Flush(ctx)
	}
	if err := send(0, first); err != nil {
		return s, errors.Join(err, producer.Close(ctx))
	}
	cursor, seen, err := r.readEarly(ctx)
	if err != nil {
		return s, err
	}

	sent := make(chan error, 1)
	go func() { sent <- errors.Join(send(first, len(all)), producer.Close(ctx)) }()
	var pauses []time.Duration
	for _, change := range []func(context.Context) error{
		func(ctx context.Context) error { return r.client.SplitTopic(ctx, rangesTopic, nil) },
		func(ctx context.Context) error { return r.client.SplitTopic(ctx, rangesTopic, nil) },
		func(ctx context.Context) error { return r.client.MergeTopic(ctx, rangesTopic) },
	} {
		began := time.Now()
		if err := change(ctx); err != nil {
			return s, errors.Join(err, <-sent)
		}
		pauses = append(pauses, time.Since(began))
	}
	if err := <-sent; err != nil {
		return s, err
	}
	reading, err := r.client.Read(ctx, rangesTopic, client.Cursor(cursor))
	if err != nil {
		return s, err
	}
	for rec, err := range reading.All() {
		if err != nil {
			return s, err
		}
		if err := seen.check(rec); err != nil {
			return s, err
		}
	}
	if seen.read != len(all) {
		return s, broken("%d records were read before and after the splits, %d were written", seen.read, len(all))
	}
	s = Step{Name: "reshape", Title: "5  Split the topic twice and merge it once, while it is written"}
	s.say("the splits took %s and %s, the merge %s; no write failed", span(pauses[0]), span(pauses[1]), span(pauses[2]))
	s.say("the cursor from before, after %s records, goes on: %s more, each once, in order per key",
		count(early), count(len(all)-early))
	s.Facts = map[string]any{
		"records": len(all), "split_us": []int64{micros(pauses[0]), micros(pauses[1])}, "merge_us": micros(pauses[2]),
	}
	return s, nil
}

// readEarly reads the first records of the reshaped topic and gives the cursor
// behind them.
func (r *run) readEarly(ctx context.Context) (string, *ledger, error) {
	reading, err := r.client.Read(ctx, rangesTopic, client.Start())
	if err != nil {
		return "", nil, err
	}
	seen := newLedger(r.quakes)
	for rec, err := range reading.All() {
		if err != nil {
			return "", nil, err
		}
		if err := seen.check(rec); err != nil {
			return "", nil, err
		}
		if seen.read == early {
			break
		}
	}
	return reading.Cursor(), seen, nil
}

package bench

import (
	"context"
	"sync"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/status"
)

// recovery kills a broker that is being written to and measures the start
// after it: until the broker serves, and until the first record is fetched.
func (r *run) recovery(ctx context.Context) error {
	if err := r.writeUntilKilled(ctx); err != nil {
		return err
	}
	r.disconnect()
	unknown, _ := r.ledger.Errors()
	times := &RecoveryTimes{Acknowledged: r.ledger.Acked(), Unknown: unknown}
	if r.Cold {
		r.tell("dropping the data from the page cache")
		if err := dropCache(r.data); err != nil {
			return err
		}
	}
	r.tell("starting again")
	if err := r.start(ctx); err != nil {
		return err
	}
	first, err := r.clients[0].Fetch(ctx, r.names[0], client.Start(), client.MaxRecords(1))
	took := time.Since(r.broker.launched)
	if err != nil {
		return err
	}
	if len(first.Records) == 0 && times.Acknowledged > 0 {
		return status.New(status.DataCorrupt, "the first topic is empty after the start")
	}
	now, err := scrape(ctx, r.Metrics)
	if err != nil {
		return err
	}
	times.Ready, times.First = micros(r.broker.ready), micros(took)
	times.Replay = now["quire_recovery_seconds"] * 1e6
	us := micros(took)
	r.result.Latency = "from the start of the process to the first record fetched, once"
	r.result.Quantiles = Quantiles{us, us, us, us}
	r.result.RecoveryTimes = times
	r.count(times.Acknowledged, took)
	r.result.spent(usage{before: meters{}, after: now}, 0, false)
	return r.verifyRecovered(ctx)
}

// verifyRecovered compares all and counts what was there by luck.
func (r *run) verifyRecovered(ctx context.Context) error {
	if !r.Verify {
		return nil
	}
	there, err := r.verify(ctx)
	if err == nil {
		r.result.UnknownThere = there - r.result.Acknowledged
	}
	return err
}

// writeUntilKilled writes and kills the broker when enough was sent, with
// writes under way.
func (r *run) writeUntilKilled(ctx context.Context) error {
	enough := r.Records
	r.tell("writing %d records, then kill -9", enough)
	writing, giveUp := context.WithCancel(ctx)
	defer giveUp()
	killed := false
	var killing sync.WaitGroup
	killing.Go(func() {
		ticks := time.NewTicker(time.Millisecond)
		defer ticks.Stop()
		for r.ledger.total() < enough {
			select {
			case <-ticks.C:
			case <-writing.Done():
				return
			}
		}
		r.broker.kill()
		killed = true
		giveUp()
	})
	_, err := (&load{run: r, times: NewLatencies()}).write(writing)
	giveUp()
	killing.Wait()
	if killed {
		return ctx.Err()
	}
	if n, first := r.ledger.Errors(); n > 0 {
		return first
	}
	return err
}

package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// split measures what writers and a reader at the tail see of a topic that is
// split again and again: the longest time without an acknowledgement, and
// without a record, around each split.
func (r *run) split(ctx context.Context) error {
	f := &fan{run: r, times: NewLatencies(), gate: NewGate(r.Ahead, r.Subscribers)}
	f.acked, f.took = newPauses(), newPauses()
	if err := f.subscribe(ctx); err != nil {
		return err
	}
	if err := r.floorBefore(ctx); err != nil {
		return err
	}
	r.tell("writing, with a reader, and %d splits", r.Splits)
	x := &splitter{fan: f, calls: NewLatencies(), writers: NewLatencies(), readers: NewLatencies()}
	spent, err := r.spend(ctx, func() error {
		splitting, stop := context.WithCancel(ctx)
		var splits sync.WaitGroup
		splits.Go(func() { x.err = x.run(splitting) })
		err := f.follow(ctx)
		stop()
		splits.Wait()
		return err
	})
	if err == nil {
		err = x.err
	}
	if err != nil {
		return err
	}
	r.result.Errors, _ = r.ledger.Errors()
	r.count(r.ledger.Acked(), f.over.Sub(f.began))
	r.result.Latency = "from sending a record until the reader has it, every 8th"
	r.result.Quantiles = f.times.Quantiles()
	r.result.SplitTimes = x.times()
	spent()
	if err := r.floorAfter(ctx); err != nil {
		return err
	}
	if !r.Verify {
		return nil
	}
	if err := f.complete(); err != nil {
		return err
	}
	_, err = r.verify(ctx)
	return err
}

// SplitTimes are what splitting a topic under load took.
type SplitTimes struct {
	// Splits counts them.
	Splits int `json:"splits_made"`
	// Split* are the times of the calls.
	SplitP50 float64 `json:"split_p50_us"`
	SplitP99 float64 `json:"split_p99_us"`
	// WriterPause* are the longest times without an acknowledgement around each
	// split, ReaderPause* those in which a reader at the tail had no record.
	WriterPauseP50 float64 `json:"writer_pause_p50_us"`
	WriterPauseP99 float64 `json:"writer_pause_p99_us"`
	WriterPauseMax float64 `json:"writer_pause_max_us"`
	ReaderPauseP50 float64 `json:"reader_pause_p50_us"`
	ReaderPauseP99 float64 `json:"reader_pause_p99_us"`
	ReaderPauseMax float64 `json:"reader_pause_max_us"`
}

// splitter splits the topic at even times while it is written.
type splitter struct {
	*fan
	calls, writers, readers *Latencies
	made                    int
	err                     error
}

// around is how long after a split its pauses are looked for.
const around = 30 * time.Millisecond

func (x *splitter) run(ctx context.Context) error {
	every := x.Duration / time.Duration(x.Splits+1)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for x.made < x.Splits {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
		x.acked.reset()
		x.took.reset()
		began := time.Now()
		if err := x.clients[0].SplitTopic(ctx, x.names[0], nil); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		x.calls.Add(0, time.Since(began))
		x.made++
		select {
		case <-time.After(min(around, every/2)):
		case <-ctx.Done():
			return nil
		}
		x.writers.Add(0, x.acked.worst())
		x.readers.Add(0, x.took.worst())
	}
	return nil
}

func (x *splitter) times() *SplitTimes {
	calls, writers, readers := x.calls.Quantiles(), x.writers.Quantiles(), x.readers.Quantiles()
	return &SplitTimes{
		Splits: x.made, SplitP50: calls.P50, SplitP99: calls.P99,
		WriterPauseP50: writers.P50, WriterPauseP99: writers.P99, WriterPauseMax: writers.Max,
		ReaderPauseP50: readers.P50, ReaderPauseP99: readers.P99, ReaderPauseMax: readers.Max,
	}
}

// pauses finds the longest time between two beats. A nil one does nothing.
type pauses struct {
	began         time.Time
	last, longest atomic.Int64
}

func newPauses() *pauses { return &pauses{began: time.Now()} }

func (p *pauses) beat() {
	if p == nil {
		return
	}
	now := int64(time.Since(p.began))
	p.note(now - p.last.Swap(now))
}

func (p *pauses) note(pause int64) {
	for {
		longest := p.longest.Load()
		if pause <= longest || p.longest.CompareAndSwap(longest, pause) {
			return
		}
	}
}

func (p *pauses) reset() { p.longest.Store(0) }

// worst is the longest pause since the reset, one that is not over included.
func (p *pauses) worst() time.Duration {
	p.note(int64(time.Since(p.began)) - p.last.Load())
	return time.Duration(p.longest.Load())
}

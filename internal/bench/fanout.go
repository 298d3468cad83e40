package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quirelog/quire/client"
)

// fanout measures subscribers that follow the tail: from the sending of a
// record until a subscriber's program has it.
func (r *run) fanout(ctx context.Context) error {
	f := &fan{run: r, times: NewLatencies(), gate: NewGate(r.Ahead, r.Subscribers)}
	if err := f.subscribe(ctx); err != nil {
		return err
	}
	if err := r.floorBefore(ctx); err != nil {
		return err
	}
	r.tell("writing, with %d subscribers", r.Subscribers)
	spent, err := r.spend(ctx, func() error { return f.follow(ctx) })
	if err != nil {
		return err
	}
	r.result.Errors, _ = r.ledger.Errors()
	r.count(f.gate.Total(), f.over.Sub(f.began))
	r.result.Latency = "from sending a record until a subscriber has it, every 8th"
	r.result.Quantiles = f.times.Quantiles()
	spent()
	if err := r.floorAfter(ctx); err != nil {
		return err
	}
	if r.Verify {
		err = f.complete()
		r.result.Verified = err == nil
	}
	return err
}

// complete says whether each subscriber had everything.
func (f *fan) complete() error {
	for _, s := range f.subscribers {
		if err := s.v.Complete(); err != nil {
			return err
		}
	}
	return nil
}

// sampled is one in how many deliveries is timed: the clock would cost more
// than the delivery.
const sampled = 8

// fan is a writer and those that follow it.
type fan struct {
	*run
	times       *Latencies
	gate        *Gate
	subscribers []*subscriber
	// acked and took, if not nil, are told of each acknowledgement and of each
	// record that a subscriber takes.
	acked, took *pauses
	began, over time.Time
	// target is how many records each subscriber gets; 0 until it is known.
	target atomic.Uint64
}

// subscriber is one of those that follow.
type subscriber struct {
	*fan
	index int
	sub   *client.Subscription
	v     *Verifier
}

// subscribe makes the subscribers, each on a connection of its own.
func (f *fan) subscribe(ctx context.Context) error {
	for i := range f.Subscribers {
		c, err := f.dial(ctx)
		if err != nil {
			return err
		}
		sub, err := c.Subscribe(ctx, f.names[0], client.Start())
		if err != nil {
			return err
		}
		f.subscribers = append(f.subscribers, &subscriber{
			fan: f, index: i, sub: sub, v: NewVerifier(f.content, f.ledger),
		})
	}
	return nil
}

// follow writes and returns when every subscriber has all of it, or makes no
// progress any more.
func (f *fan) follow(ctx context.Context) error {
	f.began = time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var following sync.WaitGroup
	for _, s := range f.subscribers {
		following.Go(func() {
			if err := s.take(); err != nil {
				cancel(err)
			}
		})
	}
	finished := make(chan struct{})
	l := &load{run: f.run, records: f.Records, times: NewLatencies(), gate: f.gate.Pass, acked: f.acked}
	_, err := l.write(ctx)
	go func() {
		defer close(finished)
		following.Wait()
	}()
	if err == nil {
		f.target.Store(max(f.ledger.Acked(), 1))
		f.await(finished)
	}
	f.over = time.Now()
	for _, s := range f.subscribers {
		_ = s.sub.Close()
	}
	<-finished
	return context.Cause(ctx)
}

// await waits for the subscribers, as long as any makes progress.
func (f *fan) await(finished <-chan struct{}) {
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	before, since := f.gate.Total(), time.Now()
	for {
		// One that had everything before the target was known waits for more.
		for _, s := range f.subscribers {
			if f.gate.Read(s.index) >= f.target.Load() {
				_ = s.sub.Close()
			}
		}
		select {
		case <-finished:
			return
		case <-ticks.C:
		}
		switch now := f.gate.Total(); {
		case now != before:
			before, since = now, time.Now()
		case time.Since(since) > patience:
			return
		}
	}
}

// take takes records until it has all of them or the subscription is closed.
func (s *subscriber) take() error {
	for rec, err := range s.sub.All() {
		if err != nil {
			return err
		}
		if s.Verify {
			if err := s.v.Check(rec.Key, rec.Value); err != nil {
				return err
			}
		}
		s.took.beat()
		n := s.gate.Took(s.index)
		if n%sampled == 0 {
			s.times.Add(s.index, time.Since(rec.Time))
		}
		if target := s.target.Load(); target > 0 && n >= target {
			return nil
		}
	}
	return nil
}

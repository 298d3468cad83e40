package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/quirelog/quire/internal/bench"
)

// writer is one of those that write, in its way.
type writer struct {
	*peer
	index int
	js    jetstream.JetStream
	quota uint64
	sent  uint64
}

// write runs the writers until all have written their share or the time is
// over. The first error ends all.
func (p *peer) write(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var writing sync.WaitGroup
	for i := range p.plan.Workers {
		w := &writer{peer: p, index: i, js: p.conns[i%p.Connections], quota: math.MaxUint64}
		if n := uint64(p.plan.Workers); p.Records > 0 {
			w.quota = p.Records / n
			if uint64(i) < p.Records%n {
				w.quota++
			}
		}
		writing.Go(func() {
			if err := w.run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	writing.Wait()
	return context.Cause(ctx)
}

func (w *writer) run(ctx context.Context) error {
	switch w.Way {
	case waySync:
		return w.sync(ctx)
	case wayAsync:
		return w.async(ctx)
	case wayAtomic:
		return w.atomic(ctx)
	case wayFast:
		return w.fast(ctx)
	}
	return fmt.Errorf("there is no way %q", w.Way)
}

// next makes the next message, unless the writer has written its share. at is
// when, since the beginning.
func (w *writer) next(ctx context.Context) (msg *nats.Msg, at time.Duration, ok bool) {
	if w.sent >= w.quota || ctx.Err() != nil {
		return nil, at, false
	}
	if w.gate != nil && w.gate.Pass(ctx) != nil {
		return nil, at, false
	}
	at = time.Since(w.began)
	if w.Records == 0 && at >= w.Duration {
		return nil, at, false
	}
	w.sent++
	id := w.ledger.Sending(w.index)
	if w.gate != nil {
		w.stamp(id, at)
	}
	data := make([]byte, bench.KeySize+w.Payload)
	copy(data, w.content.Record(id, data[bench.KeySize:]))
	return &nats.Msg{Subject: subject, Data: data}, at, true
}

func (w *writer) acked(at time.Duration) { w.times.Add(w.index, time.Since(w.began)-at) }

// sync waits for each message.
func (w *writer) sync(ctx context.Context) error {
	for {
		msg, at, ok := w.next(ctx)
		if !ok {
			return nil
		}
		if _, err := w.js.PublishMsg(ctx, msg); err != nil {
			return err
		}
		w.acked(at)
	}
}

// flight is a message that is under way.
type flight struct {
	future jetstream.PubAckFuture
	at     time.Duration
}

// async keeps a window of messages under way.
func (w *writer) async(ctx context.Context) error {
	window := make(chan flight, w.InFlight)
	done := make(chan error, 1)
	go func() { done <- w.collect(window) }()
	err := w.fill(ctx, window)
	close(window)
	if e := <-done; err == nil {
		err = e
	}
	return err
}

// fill sends into the window.
func (w *writer) fill(ctx context.Context, window chan<- flight) error {
	for {
		msg, at, ok := w.next(ctx)
		if !ok {
			return nil
		}
		future, err := w.js.PublishMsgAsync(msg)
		if err != nil {
			return err
		}
		window <- flight{future, at}
	}
}

// collect waits for the acknowledgements in order.
func (w *writer) collect(window <-chan flight) (err error) {
	for f := range window {
		select {
		case <-f.future.Ok():
			w.acked(f.at)
		case e := <-f.future.Err():
			if err == nil {
				err = e
			}
		}
	}
	return err
}

// atomicSize is how many messages an atomic batch has: the most that a server
// takes.
const atomicSize = 1000

// atomic writes atomic batches, one after the other.
func (w *writer) atomic(ctx context.Context) error {
	for {
		var batch []*nats.Msg
		var ats []time.Duration
		for len(batch) < atomicSize {
			msg, at, ok := w.next(ctx)
			if !ok {
				break
			}
			msg.Header = nats.Header{} // the batch's marks go there
			batch, ats = append(batch, msg), append(ats, at)
		}
		if len(batch) == 0 {
			return nil
		}
		_, err := jetstreamext.PublishMsgBatch(ctx, w.js, batch, jetstreamext.BatchFlowControl{AckTimeout: serverLimit})
		if err != nil {
			return err
		}
		for _, at := range ats {
			w.acked(at)
		}
	}
}

// The flow of fast batches.
const (
	fastFlow        = 1000
	fastOutstanding = 2
)

// fast writes one fast batch without end, whose messages are acknowledged as
// it goes.
func (w *writer) fast(ctx context.Context) error {
	pub, err := jetstreamext.NewFastPublisher(w.js,
		jetstreamext.FastPublishFlowControl{Flow: fastFlow, MaxOutstandingAcks: fastOutstanding, AckTimeout: serverLimit})
	if err != nil {
		return err
	}
	var ats []time.Duration // of the messages from first on
	first := uint64(1)
	settle := func(through uint64) {
		for ; first <= through && len(ats) > 0; first++ {
			w.acked(ats[0])
			ats = ats[1:]
		}
	}
	for {
		msg, at, ok := w.next(ctx)
		if !ok {
			break
		}
		ats = append(ats, at)
		ack, err := pub.AddMsg(msg)
		if err != nil {
			return err
		}
		settle(ack.AckSequence)
	}
	if w.sent == 0 {
		return nil
	}
	end, err := pub.Close(ctx)
	if err != nil {
		return err
	}
	if end.BatchSize < w.sent {
		return fmt.Errorf("a fast batch of %d messages ended with %d", w.sent, end.BatchSize)
	}
	settle(w.sent)
	return nil
}

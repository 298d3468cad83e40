package main

import (
	"context"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/quirelog/quire/internal/bench"
)

// pull is how many messages a consumer asks for at a time.
const pull = 10_000

// verify reads the stream and compares it.
func (p *peer) verify(ctx context.Context) error {
	info, err := p.stream.Info(ctx)
	if err != nil {
		return err
	}
	consumer, err := p.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(pull))
	if err != nil {
		return err
	}
	defer messages.Stop()
	v := bench.NewVerifier(p.content, p.ledger)
	v.Topic(0)
	for range info.State.Msgs {
		msg, err := messages.Next()
		if err != nil {
			return err
		}
		if err := check(v, msg.Data()); err != nil {
			return err
		}
	}
	return v.Complete()
}

// check takes a message's data apart and compares it.
func check(v *bench.Verifier, data []byte) error {
	if len(data) < bench.KeySize {
		return fmt.Errorf("a message of %d bytes", len(data))
	}
	return v.Check(data[:bench.KeySize], data[bench.KeySize:])
}

// stamps are the times at which the messages were sent that may be on their
// way, by their numbers.
type stamps []atomic.Int64

func newStamps(n uint64) stamps { return make(stamps, 1<<bits.Len64(n)) }

func (s stamps) at(n uint64) *atomic.Int64 { return &s[n&uint64(len(s)-1)] }

// stamp notes when a message of a fan-out was sent.
func (p *peer) stamp(id bench.ID, at time.Duration) { p.sentAt.at(id.N).Store(int64(at)) }

// fanout writes while subscribers follow, and counts deliveries.
func (p *peer) fanout(ctx context.Context) (operations uint64, took time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.gate, p.sentAt = bench.NewGate(p.Ahead, p.Subscribers), newStamps(p.Ahead)
	p.deliveries = bench.NewLatencies()
	followers := make([]*follower, p.Subscribers)
	for i := range followers {
		if followers[i], err = p.follow(ctx, i, cancel); err != nil {
			return 0, 0, err
		}
		defer followers[i].consuming.Stop()
	}
	p.began = time.Now()
	if err := p.write(ctx); err != nil {
		return 0, 0, err
	}
	p.target.Store(p.ledger.Acked())
	for _, f := range followers {
		if err := f.await(ctx); err != nil {
			return 0, 0, err
		}
	}
	took = time.Since(p.began)
	p.times = p.deliveries
	for _, f := range followers {
		if err := f.v.Complete(); err != nil {
			return 0, 0, err
		}
	}
	return p.gate.Total(), took, nil
}

// follower is a subscriber.
type follower struct {
	*peer
	index     int
	v         *bench.Verifier
	consuming jetstream.ConsumeContext
	cancel    context.CancelCauseFunc
	over      chan struct{}
}

// follow makes a subscriber, on a connection of its own.
func (p *peer) follow(ctx context.Context, i int, cancel context.CancelCauseFunc) (*follower, error) {
	if err := p.dial(); err != nil {
		return nil, err
	}
	stream, err := p.conns[len(p.conns)-1].Stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	f := &follower{
		peer: p, index: i, v: bench.NewVerifier(p.content, p.ledger), cancel: cancel, over: make(chan struct{}, 1),
	}
	f.v.Topic(0)
	f.consuming, err = consumer.Consume(f.take, jetstream.PullMaxMessages(pull))
	return f, err
}

// sampled is one in how many deliveries is timed, as `quire bench` does.
const sampled = 8

// take takes one message.
func (f *follower) take(msg jetstream.Msg) {
	if err := check(f.v, msg.Data()); err != nil {
		f.cancel(err)
		return
	}
	n := f.gate.Read(f.index)
	if n%sampled == 0 {
		f.deliveries.Add(f.index, time.Since(f.began)-time.Duration(f.sentAt.at(n).Load()))
	}
	if n = f.gate.Took(f.index); n >= f.target.Load() && f.target.Load() > 0 {
		select {
		case f.over <- struct{}{}:
		default:
		}
	}
}

// await waits until the follower has everything.
func (f *follower) await(ctx context.Context) error {
	if f.gate.Read(f.index) >= f.target.Load() {
		return nil
	}
	late := time.NewTimer(serverLimit)
	defer late.Stop()
	select {
	case <-f.over:
		return nil
	case <-late.C:
		return fmt.Errorf("subscriber %d has %d of %d messages", f.index, f.gate.Read(f.index), f.target.Load())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

package bench

import (
	"context"
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// load writes. Its workers run until their share is written, the time is over,
// or the broker takes no more.
type load struct {
	*run
	// records is how many are written in all; 0 is without end.
	records uint64
	// unpaced: the rate and the duration of the settings do not count.
	unpaced bool
	times   *Latencies
	// gate, if not nil, is asked before each record and may wait.
	gate func(ctx context.Context) error
	// acked, if not nil, is told of each acknowledgement.
	acked *pauses

	ctx   context.Context
	began time.Time
}

// write runs the load and returns how long it took until the last answer. What
// failed is in the ledger; an error is one of the run.
func (l *load) write(ctx context.Context) (time.Duration, error) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	l.ctx, l.began = working, time.Now()
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-l.ledger.Full():
			stop()
		case <-working.Done():
		}
	}()
	var workers sync.WaitGroup
	for i := range l.content.plan.Workers {
		workers.Go(func() {
			w := l.worker(i)
			if l.Batched {
				w.batched()
			} else {
				w.unbatched()
			}
		})
	}
	workers.Wait()
	took := time.Since(l.began)
	stop()
	<-over
	return took, ctx.Err()
}

// worker is one writer.
type worker struct {
	*load
	index  int
	client *client.Client
	// quota is how many records it writes, every the time between two at a
	// fixed rate.
	quota uint64
	every time.Duration
	value []byte
}

func (l *load) worker(i int) *worker {
	workers := uint64(l.content.plan.Workers)
	w := &worker{
		load: l, index: i, client: l.clients[i%len(l.clients)], quota: math.MaxUint64,
		value: make([]byte, l.Payload),
	}
	if l.records > 0 {
		w.quota = l.records / workers
		if uint64(i) < l.records%workers {
			w.quota++
		}
	}
	if l.Rate > 0 && !l.unpaced {
		w.every = time.Duration(float64(workers) / l.Rate * float64(time.Second))
	}
	return w
}

// next makes the worker's next record, in the worker's memory. at is when it
// is sent, or was to be sent at a fixed rate, as a time since the load began.
func (w *worker) next(n uint64) (id ID, rec record.Record, at time.Duration, ok bool) {
	if n >= w.quota || w.ctx.Err() != nil {
		return id, rec, at, false
	}
	if w.gate != nil && w.gate(w.ctx) != nil {
		return id, rec, at, false
	}
	at = time.Since(w.began)
	if w.every > 0 {
		// The workers take turns rather than all send at once.
		due := time.Duration(n)*w.every + w.every*time.Duration(w.index)/time.Duration(w.content.plan.Workers)
		if !w.until(due - at) {
			return id, rec, at, false
		}
		at = due
	}
	if w.Duration > 0 && !w.unpaced && at >= w.Duration {
		return id, rec, at, false
	}
	id = w.ledger.Sending(w.index)
	key := w.content.Record(id, w.value)
	return id, record.Record{Key: key, Value: w.value, Time: w.began.Add(at)}, at, true
}

// until waits, and is false if the run ends meanwhile.
func (w *worker) until(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}

func (w *worker) topic(n uint64) string { return w.names[w.content.plan.Topic(w.index, n)] }

// unbatched writes one record a request, one after the other.
func (w *worker) unbatched() {
	for n := uint64(0); ; n++ {
		id, rec, at, ok := w.next(n)
		if !ok {
			return
		}
		if _, err := w.client.Produce(w.ctx, w.topic(id.N), rec); err != nil {
			w.ledger.Failed(id, err)
			if final(err) {
				return
			}
			continue
		}
		w.acked.beat()
		w.times.Add(w.index, time.Since(w.began)-at)
	}
}

// batched writes through a producer.
func (w *worker) batched() {
	compression, _ := compressionOf(w.Compression) // complete has checked it
	buffer := max(w.Buffer/w.content.plan.Workers, 1)
	p := w.client.NewProducer(w.topic(0), client.BatchBytes(w.BatchBytes), client.Linger(w.Linger),
		client.MaxInFlight(w.InFlight), client.MaxBuffered(buffer), client.WithCompression(compression))

	// The answers come in the order of the records, so a ring of times is
	// enough. It has room for what the buffer holds and one more, thus a place
	// is free again before it is needed.
	ring := make([]time.Duration, ringSize(buffer/w.Payload+2))
	mask := uint64(len(ring) - 1)
	answered := w.ledger.Sent(w.index)
	broken := make(chan struct{})
	done := func(err error) {
		id := ID{w.index, answered}
		answered++
		if err == nil {
			w.acked.beat()
			w.times.Add(w.index, time.Since(w.began)-ring[id.N&mask])
			return
		}
		w.ledger.Failed(id, err)
		if final(err) {
			select {
			case <-broken:
			default:
				close(broken)
			}
		}
	}
	w.sendAll(p, ring, mask, broken, done)
	_ = p.Close(w.ctx) // the callbacks know what failed
}

// sendAll sends until next has no more or the producer is broken.
func (w *worker) sendAll(
	p *client.Producer, ring []time.Duration, mask uint64, broken <-chan struct{}, done func(error),
) {
	for n := uint64(0); ; n++ {
		select {
		case <-broken:
			return
		default:
		}
		id, rec, at, ok := w.next(n)
		if !ok {
			return
		}
		ring[id.N&mask] = at
		if err := p.Send(w.ctx, rec, done); err != nil {
			w.ledger.Failed(id, err)
			return
		}
	}
}

// ringSize is the power of two that is at least n.
func ringSize(n int) int { return 1 << bits.Len(uint(n-1)) }

// final says that after err nothing more is worth trying.
func final(err error) bool {
	switch status.CodeOf(err) {
	case status.Overloaded, status.DiskFull, status.Timeout, status.LimitReached:
		return false
	}
	return true
}

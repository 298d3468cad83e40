package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/status"
)

// fetch measures reading what the broker does not have in its own memory: it
// writes, starts the broker again, and reads everything; then it times single
// fetches from places all over the data.
func (r *run) fetch(ctx context.Context) error {
	r.tell("writing %d records", r.Records)
	if _, err := (&load{run: r, records: r.Records, times: NewLatencies()}).write(ctx); err != nil {
		return err
	}
	if r.result.Errors, _ = r.ledger.Errors(); r.result.Errors > 0 {
		return r.failures()
	}
	if err := r.restart(ctx); err != nil {
		return err
	}
	readers := make([]*reader, r.Readers)
	for i := range readers {
		c, err := r.dial(ctx)
		if err != nil {
			return err
		}
		readers[i] = &reader{run: r, client: c, v: NewVerifier(r.content, r.ledger)}
	}
	readers[0].every = max(r.Records/uint64(max(r.Probes, 1)), 1)

	r.tell("reading")
	var took time.Duration
	spent, err := r.spend(ctx, func() error {
		began := time.Now()
		defer func() { took = time.Since(began) }()
		return readAll(ctx, readers)
	})
	if err != nil {
		return err
	}
	read := uint64(0)
	for _, rd := range readers {
		read += rd.read
	}
	r.count(read, took)
	spent()
	if err := r.probe(ctx, readers[0]); err != nil {
		return err
	}
	if err := r.readingFloor(ctx); err != nil {
		return err
	}
	return r.allRead(readers)
}

// restart ends the run's own broker and starts it again, so that its memory
// has nothing of what was written.
func (r *run) restart(ctx context.Context) error {
	if !r.OwnBroker {
		r.tell("the broker is not this run's own: it goes on, with what it has in memory")
		return nil
	}
	r.disconnect()
	if err := r.broker.stop(); err != nil {
		return err
	}
	if r.Cold {
		if err := dropCache(r.data); err != nil {
			return err
		}
	}
	return r.start(ctx)
}

// reader reads all topics once.
type reader struct {
	*run
	client *client.Client
	v      *Verifier
	read   uint64
	// places are cursors to probe: one for every so many records; 0 for none.
	every  uint64
	places []place
}

// place is a cursor of a topic.
type place struct{ topic, cursor string }

// readAll runs the readers at the same time. The first error ends all.
func readAll(ctx context.Context, readers []*reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var reading sync.WaitGroup
	for _, rd := range readers {
		reading.Go(func() {
			if err := rd.readTopics(ctx); err != nil {
				cancel(err)
			}
		})
	}
	reading.Wait()
	return context.Cause(ctx)
}

func (rd *reader) readTopics(ctx context.Context) error {
	check := func(key, value []byte) error {
		rd.read++
		if rd.Verify {
			return rd.v.Check(key, value)
		}
		return nil
	}
	for i, name := range rd.names {
		rd.v.Topic(i)
		at := func(reading *client.Reading) {
			if rd.every > 0 && rd.read%rd.every == 0 {
				rd.places = append(rd.places, place{name, reading.Cursor()})
			}
		}
		if err := rd.readTopic(ctx, rd.client, name, check, at); err != nil {
			return err
		}
	}
	return nil
}

// probe times single fetches, one in flight, from places in random order.
func (r *run) probe(ctx context.Context, rd *reader) error {
	r.result.Latency = "one fetch of at most probe_bytes from a random place, one in flight"
	if r.Probes == 0 || len(rd.places) == 0 {
		return nil
	}
	r.tell("timing %d single fetches", r.Probes)
	random := rand.New(rand.NewPCG(r.Seed, 1))
	times := NewLatencies()
	for range r.Probes {
		p := rd.places[random.IntN(len(rd.places))]
		began := time.Now()
		_, err := rd.client.Fetch(ctx, p.topic, client.Cursor(p.cursor), client.MaxBytes(r.ProbeBytes))
		if err != nil {
			return err
		}
		times.Add(0, time.Since(began))
	}
	r.result.Quantiles = times.Quantiles()
	return nil
}

// allRead says whether every reader got everything.
func (r *run) allRead(readers []*reader) error {
	for _, rd := range readers {
		if !r.Verify {
			if rd.read != r.ledger.Acked() {
				return status.New(status.DataCorrupt, "%d records were read, %d were acknowledged", rd.read, r.ledger.Acked())
			}
			continue
		}
		if err := rd.v.Complete(); err != nil {
			return err
		}
	}
	r.result.Verified = r.Verify
	return nil
}

package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/internal/catalog"
)

// creating is how many topics are made at the same time: the broker makes
// their syncs one.
const creating = 64

// createTopics makes the topics, under names that no other run has.
func (r *run) createTopics(ctx context.Context) error {
	r.tell("making %d topic(s)", r.Topics)
	r.names = make([]string, r.Topics)
	for i := range r.names {
		r.names[i] = fmt.Sprintf("bench-%x-%d", r.Seed, i)
	}
	settings := map[string]string{"fsync": r.Fsync}
	if r.Ranges > int(catalog.DefaultSettings().MaxRanges) {
		settings["max-ranges"] = strconv.Itoa(r.Ranges)
	}
	return r.eachTopic(ctx, func(ctx context.Context, name string) error {
		_, err := r.clients[0].CreateTopic(ctx, name, client.TopicConfig{Settings: settings})
		// An empty topic is split into equal bands.
		for n := 1; n < r.Ranges && err == nil; n++ {
			err = r.clients[0].SplitTopic(ctx, name, nil)
		}
		return err
	})
}

// deleteTopics removes what createTopics made, also when the run's context has
// ended.
func (r *run) deleteTopics() error {
	if len(r.clients) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.eachTopic(ctx, func(ctx context.Context, name string) error {
		return r.clients[0].DeleteTopic(ctx, name)
	})
}

// eachTopic calls f for the topics, some at a time, until one fails.
func (r *run) eachTopic(ctx context.Context, f func(context.Context, string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	names := make(chan string)
	var working sync.WaitGroup
	for range min(creating, len(r.names)) {
		working.Go(func() {
			for name := range names {
				if err := f(ctx, name); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, name := range r.names {
		select {
		case names <- name:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(names)
	working.Wait()
	return context.Cause(ctx)
}

// verify reads everything back, compares it, and says how many records there
// are.
func (r *run) verify(ctx context.Context) (there uint64, err error) {
	if !r.Verify {
		return 0, nil
	}
	r.tell("reading back and comparing")
	v := NewVerifier(r.content, r.ledger)
	began := time.Now()
	for i, name := range r.names {
		v.Topic(i)
		if err := r.readTopic(ctx, r.clients[0], name, v.Check, nil); err != nil {
			return v.Read(), err
		}
	}
	if err := v.Complete(); err != nil {
		return v.Read(), err
	}
	r.tell("%d records compared in %s", v.Read(), time.Since(began).Round(time.Millisecond))
	r.result.Verified = true
	return v.Read(), nil
}

// readTopic reads a topic up to its present end. at, if not nil, is told where
// the reading is after each record.
func (r *run) readTopic(
	ctx context.Context, c *client.Client, name string, check func(key, value []byte) error, at func(*client.Reading),
) error {
	reading, err := c.Read(ctx, name, client.Start())
	if err != nil {
		return err
	}
	for rec, err := range reading.All() {
		if err != nil {
			return err
		}
		if err := check(rec.Key, rec.Value); err != nil {
			return err
		}
		if at != nil {
			at(reading)
		}
	}
	return nil
}

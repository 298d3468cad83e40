package demo

import (
	"context"
	"sync"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// outcomes are what the producer learned of each record before the broker was
// killed.
type outcomes struct {
	mu sync.Mutex
	// acked are the records whose writing was acknowledged; unknown those that
	// were sent and not answered.
	acked, unknown []int
	half           chan struct{}
	total          int
}

// note takes the outcome of the record at index i.
func (o *outcomes) note(i int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch status.CodeOf(err) {
	case "":
		o.acked = append(o.acked, i)
		if len(o.acked) == o.total/2 {
			close(o.half)
		}
	case status.Unknown:
		o.unknown = append(o.unknown, i)
	}
}

// crash kills the broker while a load is under way.
func (r *run) crash(ctx context.Context) (s Step, err error) {
	all := r.quakes.records
	r.lost = &outcomes{half: make(chan struct{}), total: len(all)}
	bar := r.meter("loading", len(all))
	defer bar.End()

	// Small batches, so that the kill finds some acknowledged, some on their
	// way and some not sent.
	producer := r.client.NewProducer(crashTopic, client.BatchRecords(200), client.MaxBuffered(256<<10))
	sending, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var killing sync.WaitGroup
	killing.Go(func() {
		select {
		case <-r.lost.half:
			r.broker.kill()
			giveUp()
		case <-sending.Done():
		}
	})
	for i := range all {
		if err = producer.Send(sending, all[i], func(err error) { r.lost.note(i, err) }); err != nil {
			break
		}
		bar.Set(int64(i))
	}
	killed := sending.Err() != nil && ctx.Err() == nil
	pid := r.broker.pid()
	_ = producer.Close(sending)
	giveUp()
	killing.Wait()
	if !killed {
		return s, status.New(status.Internal, "the load ended before the broker was killed: %w", err)
	}
	_ = r.client.Close()

	s = Step{Name: "kill", Title: "6  Load them again into another topic, and kill the broker half-way (kill -9)"}
	s.say("pid %d is gone: %s records were acknowledged, %s were on their way, the rest not sent",
		pid, count(len(r.lost.acked)), count(len(r.lost.unknown)))
	s.Facts = map[string]any{"pid": pid, "acknowledged": len(r.lost.acked), "unknown": len(r.lost.unknown)}
	return s, nil
}

// recover starts the broker again and compares what is there.
func (r *run) recover(ctx context.Context) (s Step, err error) {
	begin := time.Now()
	if err := r.launch(ctx); err != nil {
		return s, err
	}
	there := newLedger(r.quakes)
	var first time.Duration
	err = r.readAll(ctx, crashTopic, client.Start(), func(rec record.Record) error {
		if first == 0 {
			first = time.Since(begin)
		}
		return there.check(rec)
	})
	if err != nil {
		return s, err
	}
	for _, i := range r.lost.acked {
		if !there.has(i) {
			return s, broken("record %d was acknowledged before the kill and is not there", i)
		}
	}
	sent := len(r.lost.acked) + len(r.lost.unknown)
	if there.read > sent {
		return s, broken("%d records are there, %d were sent", there.read, sent)
	}
	s = Step{Name: "recover", Title: "7  Start it again on the same directory"}
	s.say("ready after %s, the first record read after %s", span(r.broker.recovery), span(first))
	s.say("all %s that were acknowledged are there, in order, and %s of the %s that were on their way",
		count(len(r.lost.acked)), count(there.read-len(r.lost.acked)), count(len(r.lost.unknown)))
	s.Facts = map[string]any{
		"ready_us": micros(r.broker.recovery), "first_record_us": micros(first), "there": there.read,
		"acknowledged_there": len(r.lost.acked), "unknown_there": there.read - len(r.lost.acked),
	}
	return s, nil
}

// resume goes on with the cursor that was kept before the kill.
func (r *run) resume(ctx context.Context) (s Step, err error) {
	seen := r.kept.seen
	if err := r.readAll(ctx, mainTopic, client.Cursor(r.kept.cursor), seen.check); err != nil {
		return s, err
	}
	if seen.read != len(r.quakes.records) {
		return s, broken("the cursor led to %d records, %d were left",
			seen.read-cursorAfter, len(r.quakes.records)-cursorAfter)
	}
	s = Step{Name: "resume", Title: "8  Continue with the cursor that a reader kept in step 3"}
	s.say("it was taken after %s records: it leads to record %s, and from there to the end",
		count(cursorAfter), count(cursorAfter+1))
	s.Facts = map[string]any{"after": cursorAfter, "records": seen.read - cursorAfter}
	return s, nil
}

// readAll reads a topic up to its present end.
func (r *run) readAll(ctx context.Context, topic string, from client.From, each func(record.Record) error) error {
	reading, err := r.client.Read(ctx, topic, from)
	if err != nil {
		return err
	}
	for rec, err := range reading.All() {
		if err != nil {
			return err
		}
		if err := each(rec); err != nil {
			return err
		}
	}
	return nil
}

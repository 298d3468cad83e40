package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// production streams records to a topic. Its memory is bounded: by the
// producer's buffer, and by the few chunks between reading and sending.
type production struct {
	producer *client.Producer
	maxValue uint64
	headers  []record.Header
	patience time.Duration

	// giveUp ends the production at the first failure that further records
	// would share.
	giveUp context.CancelCauseFunc

	mu sync.Mutex
	result
}

// result counts what became of the records.
type result struct {
	sent  uint64
	acked uint64
	bytes uint64
	// failures are the first few reasons for which records were refused or
	// have an unknown outcome; failed counts all such records.
	failures []failure
	failed   uint64
}

// lost counts the records that were sent and not acknowledged.
func (r *result) lost() uint64 { return r.sent - r.acked }

// failure is a run of records that were not acknowledged for one reason.
type failure struct {
	first, last uint64 // their lines
	records     uint64
	reason      string
	err         error
}

// maxFailures is how many runs are named one by one.
const maxFailures = 10

func newProduction(
	c *client.Client, topic client.Topic, headers []record.Header, patience time.Duration,
) *production {
	p := &production{
		producer: c.NewProducer(topic.Name), maxValue: record.MaxValueBound,
		headers: headers, patience: patience,
	}
	// One value that the broker refuses would take its whole batch with it.
	if n, err := catalog.ParseSize(topic.Settings["max-value-bytes"]); err == nil {
		p.maxValue = n
	}
	return p
}

// run sends all of in and waits for the answers. An error of in, of ctx or
// of the broker ends the sending; the answers to what was sent are waited for
// all the same, as long as any come.
func (p *production) run(ctx context.Context, in *input, tick func()) error {
	// The farewell must outlive ctx: what was read is flushed after a signal.
	alive, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	p.giveUp = giveUp
	stop := p.watch()
	defer stop()

	err := p.sendAll(ctx, alive, in, tick)
	if e := p.producer.Close(alive); err == nil && p.snapshot().failed == 0 {
		err = e
	}
	if cause := context.Cause(alive); cause != nil {
		err = cause
	}
	return err
}

// sendAll sends the records of in until it ends, fails, ctx is canceled or
// the production is given up.
func (p *production) sendAll(ctx, alive context.Context, in *input, tick func()) error {
	chunks := read(ctx, in, in.idle)
	for {
		select {
		case c, ok := <-chunks:
			if !ok {
				return nil
			}
			for _, it := range c.items {
				if err := p.send(alive, it); err != nil {
					return err
				}
			}
			tick()
			if c.err != nil {
				return c.err
			}
		case <-alive.Done():
			return nil
		case <-ctx.Done():
			return status.New(status.Canceled, "stopped by a signal before the end of the input")
		}
	}
}

// send hands one record to the producer. Only an error that the next records
// would share is returned.
func (p *production) send(ctx context.Context, it item) error {
	rec := it.rec
	if len(p.headers) > 0 {
		rec.Headers = append(rec.Headers[:len(rec.Headers):len(rec.Headers)], p.headers...)
	}
	size := uint64(len(rec.Key) + len(rec.Value))
	for _, h := range rec.Headers {
		size += uint64(len(h.Key) + len(h.Value))
	}
	p.mu.Lock()
	p.sent++
	p.mu.Unlock()
	var err error
	if uint64(len(rec.Value)) > p.maxValue {
		err = status.New(status.RecordTooLarge, "the value has %d bytes, the topic takes %d", len(rec.Value), p.maxValue)
	} else {
		err = p.producer.Send(ctx, rec, func(err error) { p.settle(it.line, size, err) })
	}
	if err != nil && ofOneRecord(err) {
		p.settle(it.line, size, err)
		return nil
	}
	return err
}

// settle notes the outcome of one record.
func (p *production) settle(line, size uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.acked++
		p.bytes += size
		return
	}
	if !ofOneRecord(err) {
		// What was not sent yet must not follow after a hole.
		p.giveUp(err)
	}
	p.failed++
	reason := err.Error()
	if n := len(p.failures); n > 0 && p.failures[n-1].reason == reason {
		p.failures[n-1].last = line
		p.failures[n-1].records++
	} else if n < maxFailures {
		p.failures = append(p.failures, failure{line, line, 1, reason, err})
	}
}

// ofOneRecord says that err is about the record itself, so that others may
// well be taken.
func ofOneRecord(err error) bool {
	switch status.CodeOf(err) {
	case status.RecordTooLarge, status.InvalidArgument:
		return true
	}
	return false
}

// watch gives up when answers are outstanding and none comes for the time
// that --timeout allows. It returns what ends the watch.
func (p *production) watch() (stop func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		ticks := time.NewTicker(p.patience)
		defer ticks.Stop()
		var before result
		for {
			select {
			case <-done:
				return
			case <-ticks.C:
			}
			now := p.snapshot()
			settled := now.acked + now.failed
			if settled == before.acked+before.failed && before.sent > settled {
				p.giveUp(status.New(status.Timeout, "no record was acknowledged for %s", p.patience))
				return
			}
			before = now
		}
	})
	return func() {
		close(done)
		watching.Wait()
	}
}

// snapshot is what is known now.
func (p *production) snapshot() result {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result
}

// verdict names on w what was not acknowledged, and returns the error that the
// command ends with; err is what ended the sending.
func (p *production) verdict(w io.Writer, err error) error {
	r := p.snapshot()
	if r.sent > 1 {
		r.nameFailures(w)
	}
	if err == nil && r.failed > 0 {
		err = r.failures[0].err
	}
	if err == nil || status.CodeOf(err) == status.UsageError {
		return err
	}
	var coded *status.Error
	if r.lost() > 0 && errors.As(ours(err), &coded) {
		err = status.New(coded.Code, "%d of %d records were not acknowledged: %s", r.lost(), r.sent, coded.Message)
	}
	return failed(err)
}

// nameFailures says which lines were not acknowledged, and why.
func (r *result) nameFailures(w io.Writer) {
	more := r.failed
	for _, f := range r.failures {
		lines := fmt.Sprintf("line %d was", f.first)
		if f.records > 1 {
			lines = fmt.Sprintf("lines %d to %d were", f.first, f.last)
		}
		fmt.Fprintf(w, "quire: %s not acknowledged: %s\n", lines, oneLine(f.reason))
		more -= f.records
	}
	if more > 0 {
		fmt.Fprintf(w, "quire: and %d more records\n", more)
	}
}

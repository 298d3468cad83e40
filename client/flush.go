package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/quirelog/quire/status"
)

// ProduceError is what [Producer.Flush] and [Producer.Close] return when
// records were not written. errors.As finds the [*status.Error] of the first.
type ProduceError struct {
	// Failed is how many records failed since the last Flush, counting those
	// whose outcome is unknown.
	Failed uint64
	// First is why the first of them failed.
	First error
}

func (e *ProduceError) Error() string {
	if e.Failed == 1 {
		return "1 record was not acknowledged: " + e.First.Error()
	}
	return fmt.Sprintf("%d records were not acknowledged; the first: %v", e.Failed, e.First)
}

// Unwrap gives the error of the first record that failed.
func (e *ProduceError) Unwrap() error { return e.First }

// Flush sends what is gathered without waiting for more, and returns when
// every record that was sent before the call is answered and its callback has
// run. It gives a [*ProduceError] if records failed since the last Flush. When
// ctx ends first the records stay on their way.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	target := p.accepted
	p.flushTo = max(p.flushTo, target)
	signal(p.wake)
	for p.completed < target {
		moved := p.whenMoved()
		p.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() != nil && p.completed < target {
			return contextError(ctx, fmt.Sprintf("waiting for %d records to be written", target-p.completed))
		}
	}
	return p.takeFailure()
}

// takeFailure gives what failed since it was last called. The caller holds the
// lock.
func (p *Producer) takeFailure() error {
	if p.failed == 0 {
		return nil
	}
	err := &ProduceError{Failed: p.failed, First: p.first}
	p.failed, p.first = 0, nil
	return err
}

// Close takes no more records, flushes like [Producer.Flush], and returns when
// the producer's goroutines have ended. When ctx ends first, what is left is
// given up: callbacks are told that batches not yet sent were not written, and
// of others that it is unknown. Closing again waits and returns nil.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.closing || p.err != nil {
		p.mu.Unlock()
		<-p.done
		return nil
	}
	p.closing = true
	p.wakeWaiters()
	p.mu.Unlock()

	err := p.Flush(ctx)
	if ctx.Err() == nil {
		p.farewell(ctx)
	}
	p.cancel()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	if lost := p.takeFailure(); lost != nil {
		return errors.Join(err, lost)
	}
	return err
}

// lost is the error of a record that was never sent because its producer was
// closed.
func (p *Producer) lost() error {
	if p.c.ctx.Err() != nil {
		return closedError("client")
	}
	return &status.Error{
		Code:    status.Canceled,
		Message: "the producer was closed before the record was sent",
		Err:     ErrClosed,
	}
}

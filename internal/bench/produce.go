package bench

import (
	"context"
	"time"
)

// produce measures writing: from the sending of a record to its
// acknowledgement.
func (r *run) produce(ctx context.Context) error {
	if err := r.floorBefore(ctx); err != nil {
		return err
	}
	r.tell("writing")
	times := NewLatencies()
	var took time.Duration
	spent, err := r.spend(ctx, func() (err error) {
		took, err = (&load{run: r, records: r.Records, times: times}).write(ctx)
		return err
	})
	if err != nil {
		return err
	}
	r.result.Errors, _ = r.ledger.Errors()
	r.count(r.ledger.Acked(), took)
	r.result.Latency = "from sending a record to its acknowledgement"
	r.result.Quantiles = times.Quantiles()
	spent()
	if err := r.floorAfter(ctx); err != nil {
		return err
	}
	_, err = r.verify(ctx)
	return err
}

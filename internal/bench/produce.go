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
	warm, err := r.warm(ctx)
	if err != nil {
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
	r.count(r.ledger.Acked()-warm, took)
	r.result.Latency = "from sending a record to its acknowledgement"
	r.result.Quantiles = times.Quantiles()
	spent()
	if err := r.floorAfter(ctx); err != nil {
		return err
	}
	_, err = r.verify(ctx)
	return err
}

// warm writes to each topic before anything is measured: the first record of a
// topic has its segment made, which costs two more rounds. It says how many
// records were acknowledged.
func (r *run) warm(ctx context.Context) (uint64, error) {
	r.tell("writing the first records")
	workers := uint64(r.content.plan.Workers)
	each := (uint64(r.content.plan.Topics) + workers - 1) / workers
	l := &load{run: r, records: each * workers, unpaced: true, times: NewLatencies()}
	if _, err := l.write(ctx); err != nil {
		return 0, err
	}
	return r.ledger.Acked(), nil
}

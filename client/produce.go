package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// The most that one request writes.
const (
	// MaxBatchBytes is the most bytes one batch may have, encoded.
	MaxBatchBytes = batch.MaxSize
	// MaxBatchRecords is the most records one batch may have.
	MaxBatchRecords = batch.MaxRecords
)

// builders keeps the working memory of Produce.
var builders = sync.Pool{New: func() any { return batch.NewBuilder(batch.Options{}) }}

// Produce writes records as one batch, all or none, in their order, and gives
// the time under which the broker appended them. When it returns without an
// error they are stored as durably as the topic promises. Each call is one
// request; a [Producer] writes many records faster.
//
// The limits of a record are in package record; a batch has at most
// [MaxBatchRecords] records and [MaxBatchBytes] bytes. What is over them is
// refused before anything is sent. After [status.Unknown], [status.Timeout] or
// [status.Canceled] the batch may have been written; it is not sent again
// unless [WithProduceRetries] allows it.
func (c *Client) Produce(ctx context.Context, topic string, recs ...record.Record) (time.Time, error) {
	payload, err := encode(recs)
	if err != nil {
		return time.Time{}, err
	}
	var resp quirev1.ProduceResponse
	_, err = c.do(ctx, call{
		typ:     wire.TypeProduceRequest,
		req:     &quirev1.ProduceRequest{Topic: topic},
		payload: payload,
		want:    wire.TypeProduceResponse,
		resp:    &resp,
		again:   c.cfg.produceRetries,
		doing:   "writing to " + topic + "; the records may have been written",
	})
	return ident.Timestamp(resp.AppendTimeUs).Time(), err
}

// encode makes one batch of recs.
func encode(recs []record.Record) ([]byte, error) {
	if len(recs) == 0 {
		return nil, invalid("no records to write")
	}
	if len(recs) > MaxBatchRecords {
		return nil, status.New(status.BatchTooLarge,
			"%d records in one batch, at most %d", len(recs), MaxBatchRecords)
	}
	b := builders.Get().(*batch.Builder)
	defer builders.Put(b)
	b.Reset(batch.Options{})
	now := time.Now()
	for i := range recs {
		rec := &recs[i]
		if rec.Time.IsZero() {
			stamped := *rec
			stamped.Time = now
			rec = &stamped
		}
		if err := b.AddRecord(rec); err != nil {
			return nil, refusedRecord(i, len(recs), err)
		}
	}
	return b.Finish(), nil
}

// refusedRecord explains why the record at index i of n does not fit.
func refusedRecord(i, n int, err error) error {
	switch {
	case errors.Is(err, batch.ErrRecordTooLarge) && n > 1:
		return status.New(status.RecordTooLarge, "record %d of %d: %w", i+1, n, err)
	case errors.Is(err, batch.ErrRecordTooLarge):
		return asStatus(status.RecordTooLarge, err)
	case errors.Is(err, batch.ErrTooLarge):
		return status.New(status.BatchTooLarge,
			"the first %d of %d records fill a batch of %d bytes, which is the most", i, n, MaxBatchBytes)
	default:
		return asStatus(status.InvalidArgument, err)
	}
}

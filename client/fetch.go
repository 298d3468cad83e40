package client

import (
	"context"
	"time"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
)

// Fetched is a stretch of a topic.
type Fetched struct {
	// Records are what was found, in order. There may be none even if the end
	// is not reached, when a filter picked none of many.
	Records []record.Record
	// Cursor continues after the last of them.
	Cursor string
	// Gap, if not nil, lies before the first record.
	Gap *Gap
	// AtEnd says that Cursor was at the end of the topic when the broker
	// answered.
	AtEnd bool
}

// Fetch reads one stretch of a topic. To go on, call it with the [Cursor] of
// the last answer. It is tried again when the connection breaks.
func (c *Client) Fetch(ctx context.Context, topic string, from From, opts ...FetchOption) (Fetched, error) {
	var cfg fetchConfig
	for _, opt := range opts {
		opt.setFetch(&cfg)
	}
	if err := cfg.check(); err != nil {
		return Fetched{}, err
	}
	d, err := c.fetch(ctx, topic, from, cfg)
	if err != nil {
		return Fetched{}, err
	}
	recs, err := d.all(topic)
	if err != nil {
		return Fetched{}, err
	}
	return Fetched{Records: recs, Cursor: d.cursor, Gap: d.gap, AtEnd: d.atEnd}, nil
}

func (c *Client) fetch(ctx context.Context, topic string, from From, cfg fetchConfig) (delivery, error) {
	var resp quirev1.Delivery
	payload, err := c.do(ctx, call{
		typ: wire.TypeFetchRequest,
		req: &quirev1.FetchRequest{
			Topic:      topic,
			Start:      startOf(from),
			Filter:     cfg.filter,
			MaxRecords: uint32(cfg.maxRecords),
			MaxBytes:   uint32(cfg.maxBytes),
			WaitMs:     uint32((cfg.wait + time.Millisecond - 1) / time.Millisecond),
		},
		want:   wire.TypeDelivery,
		resp:   &resp,
		again:  always,
		cancel: true,
		doing:  "fetching from " + topic,
	})
	if err != nil {
		return delivery{}, err
	}
	return deliveryOf(&resp, payload)
}

// all gives the records of the delivery.
func (d *delivery) all(topic string) ([]record.Record, error) {
	if d.records == 0 {
		return nil, nil
	}
	recs := make([]record.Record, 0, d.records)
	w := walker{topic: topic}
	w.reset(d)
	for {
		rec, _, ok, err := w.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return recs, nil
		}
		recs = append(recs, rec)
	}
}

func startOf(f From) *quirev1.Start {
	switch f.kind {
	case fromEnd:
		return &quirev1.Start{At: &quirev1.Start_End{End: true}}
	case fromTime:
		return &quirev1.Start{At: &quirev1.Start_TimeUs{TimeUs: int64(ident.TimestampOf(f.time))}}
	case fromCursor:
		return &quirev1.Start{At: &quirev1.Start_Cursor{Cursor: f.cursor}}
	default:
		return &quirev1.Start{At: &quirev1.Start_Beginning{Beginning: true}}
	}
}

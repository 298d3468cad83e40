package client

import (
	"fmt"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/lineage"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// Gap is a stretch of records that a reader does not get.
type Gap struct {
	// Reason is "retention" (they were removed before the reader came),
	// "overflow" (the subscriber was slow, and asked for it with
	// [WithOverflow]) or "lost" (a topic that does not sync each write lost
	// its end in a crash).
	Reason string
	// Records is how many, or if that is not Known the most that it can be, and 0
	// without even that.
	Records uint64
	Known   bool
}

// String says how many records are missing and why.
func (g Gap) String() string {
	count := ""
	switch {
	case g.Known:
		count = fmt.Sprint(g.Records, " ")
	case g.Records > 0:
		count = fmt.Sprintf("up to %d ", g.Records)
	}
	return count + "records are missing here (" + g.Reason + ")"
}

// delivery is a stretch of a topic as the broker sent it.
type delivery struct {
	slices []slice
	// start is the cursor before the first record, after the gap, cursor the one
	// after the last record.
	start, cursor string
	gap           *Gap
	atEnd         bool
	// records counts what the slices take, bytes is what they weigh.
	records int
	bytes   int
}

// slice is a batch of which the records [skip, skip+take) are meant. They move
// the entry of the cursor.
type slice struct {
	batch      []byte
	skip, take int
	entry      int
}

// deliveryOf takes a Delivery apart. The slices keep the frame's payload.
func deliveryOf(m *quirev1.Delivery, payload []byte) (delivery, error) {
	d := delivery{
		start:  m.Start,
		cursor: m.Cursor,
		gap:    gapOf(m.Gap),
		atEnd:  m.AtEnd,
		bytes:  len(payload),
		slices: make([]slice, 0, len(m.Slices)),
	}
	for _, s := range m.Slices {
		if int64(s.Size) > int64(len(payload)) || s.Take > batch.MaxRecords || s.Skip > batch.MaxRecords {
			return delivery{}, status.New(status.ProtocolViolation,
				"a slice of %d bytes, records %d to %d, in a delivery with %d bytes left",
				s.Size, s.Skip, uint64(s.Skip)+uint64(s.Take), len(payload))
		}
		d.slices = append(d.slices, slice{
			batch: payload[:s.Size:s.Size], skip: int(s.Skip), take: int(s.Take), entry: int(s.Entry),
		})
		d.records += int(s.Take)
		payload = payload[s.Size:]
	}
	if len(payload) > 0 {
		return delivery{}, status.New(status.ProtocolViolation,
			"a delivery with %d bytes that belong to no slice", len(payload))
	}
	return d, nil
}

func gapOf(g *quirev1.Gap) *Gap {
	if g == nil {
		return nil
	}
	reason := "unknown"
	switch g.Reason {
	case quirev1.GapReason_GAP_REASON_RETENTION:
		reason = "retention"
	case quirev1.GapReason_GAP_REASON_OVERFLOW:
		reason = "overflow"
	case quirev1.GapReason_GAP_REASON_LOST:
		reason = "lost"
	}
	return &Gap{Reason: reason, Records: g.Records, Known: g.Known}
}

// walker walks the records of deliveries and checks the batches' checksums.
// The records keep the bytes of the delivery, or, of a compressed batch, bytes
// that were made for it alone.
type walker struct {
	topic  string
	slices []slice
	left   int // records of the first slice still to come
	begun  bool
	reader batch.Reader
	// packed says that the reader's memory belongs to records by now.
	packed bool

	headers []record.Header // room for the headers of the next records
	names   []string        // the header names of the record before
}

// reset begins a delivery.
func (w *walker) reset(d *delivery) {
	w.slices, w.left, w.begun = d.slices, 0, false
}

// place is how far a reading is within one entry of its cursor.
type place struct {
	entry int
	step  lineage.Step
}

// next gives the next record and the place after it. It is false at the end.
func (w *walker) next() (rec record.Record, at place, ok bool, err error) {
	for {
		if w.begun && w.left > 0 {
			if !w.reader.Next() {
				return record.Record{}, place{}, false, w.short()
			}
			w.left--
			v := w.reader.Record()
			h := w.reader.Header()
			at = place{w.slices[0].entry, lineage.Step{
				Epoch: h.Epoch, Next: v.Offset + 1, Hidden: uint64(h.Base) - h.UserBefore,
			}}
			return w.record(v), at, true, nil
		}
		if w.begun {
			w.slices, w.begun = w.slices[1:], false
		}
		if len(w.slices) == 0 {
			return record.Record{}, place{}, false, nil
		}
		if err := w.open(); err != nil {
			return record.Record{}, place{}, false, err
		}
	}
}

// open begins the first slice.
func (w *walker) open() error {
	s := w.slices[0]
	if w.packed {
		w.reader, w.packed = batch.Reader{}, false
	}
	if err := w.reader.Reset(s.batch); err != nil {
		return w.damaged(err)
	}
	w.packed = w.reader.Header().Compression != batch.None
	w.reader.Skip(s.skip)
	w.left, w.begun = s.take, true
	return nil
}

// short explains why a batch has fewer records than were announced.
func (w *walker) short() error {
	if err := w.reader.Err(); err != nil {
		return w.damaged(err)
	}
	return status.New(status.ProtocolViolation,
		"the broker announced more records than a batch of topic %s has", w.topic)
}

func (w *walker) damaged(err error) error {
	return status.New(status.DataCorrupt, "a batch of topic %s arrived damaged: %w", w.topic, err)
}

// record makes a record of v that shares its bytes.
func (w *walker) record(v *batch.View) record.Record {
	rec := record.Record{
		Key: v.Key, Value: v.Value,
		Time: v.Time.Time(), AppendTime: v.AppendTime.Time(),
	}
	if v.NumHeaders() > 0 {
		rec.Headers = w.headersOf(v)
	}
	return rec
}

// headersOf makes the headers of v. Most records of a topic have headers of
// the same names in the same order, so the names of the record before are used
// again.
func (w *walker) headersOf(v *batch.View) []record.Header {
	n := v.NumHeaders()
	if cap(w.headers)-len(w.headers) < n {
		w.headers = make([]record.Header, 0, max(n, headerRoom))
	}
	from, i := len(w.headers), 0
	for key, value := range v.Headers() {
		if i == len(w.names) {
			w.names = append(w.names, "")
		}
		if w.names[i] != string(key) {
			w.names[i] = string(key)
		}
		w.headers = append(w.headers, record.Header{Key: w.names[i], Value: value})
		i++
	}
	return w.headers[from:len(w.headers):len(w.headers)]
}

// headerRoom is for how many headers room is made at a time.
const headerRoom = 256

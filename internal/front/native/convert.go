package native

import (
	"math"
	"time"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

func positions(list []ident.Position) []uint64 {
	var out []uint64
	for _, p := range list {
		out = append(out, uint64(p))
	}
	return out
}

func startOf(m *quirev1.Start) node.Start {
	switch at := m.GetAt().(type) {
	case *quirev1.Start_End:
		return node.Start{Kind: node.StartEnd}
	case *quirev1.Start_TimeUs:
		return node.Start{Kind: node.StartTime, Time: ident.Timestamp(at.TimeUs)}
	case *quirev1.Start_Cursor:
		return node.Start{Kind: node.StartCursor, Cursor: at.Cursor}
	}
	return node.Start{Kind: node.StartBeginning}
}

func filterOf(m *quirev1.Filter) node.Filter {
	// An empty key or prefix is one, and not nil.
	switch by := m.GetBy().(type) {
	case *quirev1.Filter_Key:
		return node.Filter{Key: append([]byte{}, by.Key...)}
	case *quirev1.Filter_KeyPrefix:
		return node.Filter{Prefix: append([]byte{}, by.KeyPrefix...)}
	}
	return node.Filter{}
}

func fetchRequest(m *quirev1.FetchRequest) node.FetchRequest {
	return node.FetchRequest{
		Topic:      m.Topic,
		Start:      startOf(m.Start),
		Filter:     filterOf(m.Filter),
		MaxRecords: bounded(m.MaxRecords),
		MaxBytes:   bounded(m.MaxBytes),
		Wait:       min(time.Duration(m.WaitMs)*time.Millisecond, node.MaxWait),
	}
}

func subscribeRequest(m *quirev1.SubscribeRequest) (node.SubscribeRequest, error) {
	req := node.SubscribeRequest{
		Topic:        m.Topic,
		Start:        startOf(m.Start),
		Filter:       filterOf(m.Filter),
		QueueRecords: bounded(m.QueueRecords),
	}
	switch m.Overflow {
	case quirev1.Overflow_OVERFLOW_UNSPECIFIED, quirev1.Overflow_OVERFLOW_BLOCK:
		req.Overflow = node.OverflowBlock
	case quirev1.Overflow_OVERFLOW_DROP_OLDEST:
		req.Overflow = node.OverflowDropOldest
	case quirev1.Overflow_OVERFLOW_DROP_NEWEST:
		req.Overflow = node.OverflowDropNewest
	case quirev1.Overflow_OVERFLOW_DISCONNECT:
		req.Overflow = node.OverflowDisconnect
	default:
		return req, status.New(status.InvalidArgument, "overflow policy %d is not one of this broker", m.Overflow)
	}
	return req, nil
}

// bounded is n as an int, also where that has 32 bits. The broker has lower
// limits.
func bounded(n uint32) int { return int(min(n, math.MaxInt32)) }

// delivery is d as a message, and the batches that go behind it.
func delivery(d *node.Delivery) (*quirev1.Delivery, [][]byte) {
	m := &quirev1.Delivery{Start: d.Start, Cursor: d.Cursor, AtEnd: d.AtEnd}
	if d.Gap != nil {
		m.Gap = &quirev1.Gap{Reason: gapReason(d.Gap.Reason), Records: d.Gap.Records, Known: d.Gap.Known}
	}
	if len(d.Slices) == 0 {
		return m, nil
	}
	slices := make([]quirev1.Slice, len(d.Slices))
	m.Slices = make([]*quirev1.Slice, len(d.Slices))
	batches := make([][]byte, len(d.Slices))
	for i := range d.Slices {
		from, to := &d.Slices[i], &slices[i]
		to.Size, to.Entry = uint32(len(from.Batch)), uint32(from.Entry)
		to.Skip, to.Take = uint32(from.Skip), uint32(from.Take)
		m.Slices[i], batches[i] = to, from.Batch
	}
	return m, batches
}

// sliceCost is about what a slice costs beside its batch.
const sliceCost = 128

// deliverySize is about how much memory d needs until it is written.
func deliverySize(d *node.Delivery) int64 {
	n := int64(len(d.Start) + len(d.Cursor) + sliceCost)
	for _, s := range d.Slices {
		n += int64(len(s.Batch)) + sliceCost
	}
	return n
}

func gapReason(r node.GapReason) quirev1.GapReason {
	switch r {
	case node.GapRetention:
		return quirev1.GapReason_GAP_REASON_RETENTION
	case node.GapOverflow:
		return quirev1.GapReason_GAP_REASON_OVERFLOW
	case node.GapLost:
		return quirev1.GapReason_GAP_REASON_LOST
	}
	return quirev1.GapReason_GAP_REASON_UNSPECIFIED
}

package control

import (
	"fmt"
	"slices"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// logBit marks the segments that hold the log: the catalog itself never gives
// out an id with it.
const logBit ident.SegmentID = 1 << 63

// logSegments lists the store's logs, oldest first.
func logSegments(store *segment.Store) []segment.Info {
	return slices.DeleteFunc(store.Segments(), func(i segment.Info) bool { return i.ID&logBit == 0 })
}

// segmentLog appends records to one segment. It keeps the tail by itself: when
// the disk is full the segment's own tail moves back over what was refused, and
// what is handed in behind that must not take its place.
type segmentLog struct {
	seg     *segment.Segment
	tail    segment.Tail
	clock   func() time.Time
	builder *batch.Builder
	bytes   int64 // appended here
}

func newLog(seg *segment.Segment, clock func() time.Time) *segmentLog {
	return &segmentLog{seg: seg, tail: seg.Tail(), clock: clock, builder: batch.NewBuilder(batch.Options{Kind: batch.Control})}
}

// createLog begins the segment of the next log of a store.
func createLog(store *segment.Store, clock func() time.Time) (*segmentLog, error) {
	n := uint64(1)
	if old := logSegments(store); len(old) > 0 {
		n = uint64(old[len(old)-1].ID&^logBit) + 1
	}
	seg, err := store.Create(segment.Meta{ID: logBit | ident.SegmentID(n), Epoch: ident.Epoch(n), Critical: true})
	if err != nil {
		return nil, err
	}
	return newLog(seg, clock), nil
}

// append hands in one record as a batch of its own. done is called by the
// store's writer, in the order of the calls; after an error it is not called.
func (l *segmentLog) append(value []byte, done func(error)) error {
	at := ident.TimestampOf(l.clock())
	if err := l.builder.Add(&batch.Record{Value: value, Time: at}); err != nil {
		return fmt.Errorf("encode a record of the raft log: %w", err)
	}
	b := l.builder.Finish()
	stamp := batch.Stamp{
		Epoch: l.seg.Epoch(), Base: l.tail.Base, UserBefore: l.tail.UserBefore, Chain: l.tail.Chain,
		AppendTime: max(at, l.tail.LastTime),
	}
	stamp.Apply(b)
	if err := l.seg.Append(b, done); err != nil {
		return err
	}
	l.tail.Base++
	l.tail.Chain, l.tail.LastTime = batch.NextChain(b), stamp.AppendTime
	l.bytes += int64(len(b))
	return nil
}

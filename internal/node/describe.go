package node

import "github.com/quirelog/quire/internal/catalog"

// describeRanges shows the topic's ranges as an operator sees them, those that
// were split or merged included.
func (t *topic) describeRanges() []RangeDescription {
	info := t.info()
	list := make([]RangeDescription, 0, len(info.Ranges))
	for _, cr := range info.Ranges {
		list = append(list, t.describeRange(cr))
	}
	return list
}

func (t *topic) describeRange(cr *catalog.Range) RangeDescription {
	d := RangeDescription{
		ID: cr.ID, First: cr.Band.First, Last: cr.Band.Last, Epoch: cr.Epoch,
		Start: cr.Start, End: t.committed(cr).Offset, Parents: cr.Parents, Children: cr.Children,
	}
	for i := range cr.Segments {
		g := &cr.Segments[i]
		d.Segments = append(d.Segments, SegmentDescription{
			ID: g.ID, Epoch: g.Epoch, Start: g.Base, End: g.End, Sealed: true, Bytes: g.Bytes,
		})
		d.Records += g.Users
		d.Bytes += g.Bytes
	}
	if cr.Open == nil {
		return d
	}
	open := SegmentDescription{ID: cr.Open.ID, Epoch: cr.Open.Epoch, Start: cr.Open.Base, End: cr.Open.Base}
	if seg, ok := t.b.store.Segment(cr.Open.ID); ok {
		info := seg.Info()
		open.End, open.Bytes = info.Tail.Base, uint64(info.Bytes)
		d.Records += info.Tail.UserBefore - cr.Open.UserBefore
		d.Bytes += uint64(info.Bytes)
	}
	d.Segments = append(d.Segments, open)
	return d
}

package node

// describe shows the range as an operator sees it.
func (r *rng) describe() RangeDescription {
	cr := r.t.catalogRange()
	end := r.committed()
	d := RangeDescription{
		ID: cr.ID, First: cr.Band.First, Last: cr.Band.Last, Epoch: cr.Epoch,
		Start: cr.Start, End: end.offset,
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
	if seg, ok := r.b.store.Segment(cr.Open.ID); ok {
		info := seg.Info()
		open.End, open.Bytes = info.Tail.Base, uint64(info.Bytes)
		d.Records += info.Tail.UserBefore - cr.Open.UserBefore
		d.Bytes += uint64(info.Bytes)
	}
	d.Segments = append(d.Segments, open)
	return d
}

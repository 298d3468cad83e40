package quorum

import (
	"maps"
	"slices"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// disk is what a store has on stable storage, and what is on its way there.
type disk struct {
	node     *node
	promises map[ident.RangeID]ident.Epoch
	segments map[ident.SegmentID]*simSegment

	waiting   []diskWrite
	busyUntil Instant
	hangUntil Instant
	full      bool
	failing   bool
	// refused: appends to a segment up to a place in the order are refused, since
	// one before them was.
	refused map[ident.SegmentID]uint64
	order   uint64
}

type simSegment struct {
	seg     Segment
	rng     ident.RangeID
	batches [][]byte
	tail    Tail
	sealed  *catalog.Seal
	damaged bool
}

type diskWrite struct {
	Write
	rng   ident.RangeID
	order uint64
}

func newDisk(n *node) *disk {
	return &disk{
		node: n, promises: map[ident.RangeID]ident.Epoch{}, segments: map[ident.SegmentID]*simSegment{},
		refused: map[ident.SegmentID]uint64{},
	}
}

func (d *disk) hang(t time.Duration) { d.hangUntil = d.node.sim.now.Add(t) }

// submit takes a write; it becomes durable later, in its order.
func (d *disk) submit(rng ident.RangeID, w Write) {
	s := d.node.sim
	d.order++
	d.waiting = append(d.waiting, diskWrite{w, rng, d.order})
	cost := s.between(100*time.Microsecond, 2*time.Millisecond)
	if !s.calm && s.chance(100) {
		cost = s.between(0, 200*time.Millisecond)
	}
	d.busyUntil = max(d.busyUntil, s.now, d.hangUntil).Add(cost)
	d.node.later(time.Duration(d.busyUntil-s.now), d.finish)
}

// finish performs the oldest write.
func (d *disk) finish() {
	if len(d.waiting) == 0 {
		return
	}
	w := d.waiting[0]
	d.waiting = d.waiting[1:]
	done := Durable
	if d.failing {
		d.node.sim.counts.Failures++
		done = Failed
	} else {
		done = d.perform(w)
	}
	d.node.input("stored", func() {
		if r := d.node.ranges[w.rng]; r != nil {
			r.Stored(d.node.clock(), w.Serial, done)
		}
	})
	if done == Failed {
		d.node.crash("its disk failed") // the process ends (D5)
	}
}

func (d *disk) perform(w diskWrite) Done {
	g := d.segments[w.Segment.ID]
	o := &d.node.sim.oracle
	switch w.Kind {
	case WritePromise:
		d.promises[w.rng] = max(d.promises[w.rng], w.Promise)
	case WriteCreate:
		if d.full {
			d.node.sim.counts.NoRoom++
			return NoRoom
		}
		if g != nil {
			o.fail(d.node, "segment %v is created twice", w.Segment.ID)
		}
		d.segments[w.Segment.ID] = &simSegment{seg: w.Segment, rng: w.rng, tail: w.Segment.start()}
		d.promises[w.rng] = max(d.promises[w.rng], w.Promise)
	case WriteAppend:
		if d.full && w.order > d.refused[w.Segment.ID] {
			d.refused[w.Segment.ID] = d.order
		}
		if g == nil || w.order <= d.refused[w.Segment.ID] {
			d.node.sim.counts.NoRoom++
			return NoRoom
		}
		h, err := batch.ParseHeader(w.Batch)
		d.node.sim.must(err)
		if d.refused[w.Segment.ID] > 0 && h.Base > g.tail.End {
			return NoRoom // handed in before the process knew of the first refusal
		}
		o.written(d.node, g, w.Batch)
		g.batches = append(g.batches, w.Batch)
		g.tail = g.tail.after(&h, w.Batch)
	case WriteCut:
		if g == nil {
			return Durable
		}
		if g.sealed != nil {
			o.fail(d.node, "sealed %v is cut", g.seg.ID)
		}
		tail := g.seg.start()
		n := 0
		for ; n < len(g.batches); n++ {
			h, _ := batch.ParseHeader(g.batches[n])
			if h.End() > w.Tail.End {
				break
			}
			tail = tail.after(&h, g.batches[n])
		}
		g.batches, g.tail = slices.Clip(g.batches[:n]), tail
		if tail.Chain != w.Tail.Chain {
			return Damaged
		}
	case WriteSeal:
		if g == nil {
			return Durable
		}
		if g.tail.End != w.Tail.End || g.tail.Chain != w.Tail.Chain {
			o.fail(d.node, "%v is sealed at %d, and its end is %d", g.seg.ID, g.tail.End, w.Tail.End)
		}
		seal := g.seg.seal(w.Tail)
		g.sealed = &seal
	}
	return Durable
}

// lose is what a crash does: some of what is on its way gets there.
func (d *disk) lose() {
	for range d.node.sim.rng.IntN(len(d.waiting) + 1) {
		if w := d.waiting[0]; !d.failing {
			d.perform(w)
		}
		d.waiting = d.waiting[1:]
	}
	d.waiting, d.busyUntil = nil, 0
	clear(d.refused)
	d.failing = false
}

// of is what the store knows of a range when it starts.
func (d *disk) of(rng ident.RangeID) Disk {
	out := Disk{Promise: d.promises[rng]}
	for _, id := range slices.Sorted(maps.Keys(d.segments)) {
		switch g := d.segments[id]; {
		case g.rng != rng:
		case g.sealed != nil:
			out.Closed = append(out.Closed, id)
		default:
			out.Copies = append(out.Copies, Copy{Segment: g.seg, Tail: g.tail, Damaged: g.damaged})
		}
	}
	return out
}

// damage loses the end of a copy that is not sealed, in a way that is noticed.
func (d *disk) damage() bool {
	for _, id := range slices.Sorted(maps.Keys(d.segments)) {
		g := d.segments[id]
		if g.sealed != nil || len(g.batches) == 0 || !d.node.sim.cat.open(id) {
			continue
		}
		n := d.node.sim.rng.IntN(len(g.batches))
		g.batches, g.damaged = slices.Clip(g.batches[:n]), true
		g.tail = g.seg.start()
		for _, b := range g.batches {
			h, _ := batch.ParseHeader(b)
			g.tail = g.tail.after(&h, b)
		}
		return true
	}
	return false
}

// load reads batches.
func (d *disk) load(rng ident.RangeID, l Load) {
	var out [][]byte
	if g := d.segments[l.Segment]; g != nil && !g.damaged {
		size := 0
		for _, b := range g.batches {
			h, _ := batch.ParseHeader(b)
			if h.Base < l.From {
				continue
			}
			if size += len(b); len(out) > 0 && size > l.MaxBytes {
				break
			}
			out = append(out, b)
		}
	}
	d.node.later(d.node.sim.between(0, 2*time.Millisecond), func() {
		d.node.input("loaded", func() {
			if r := d.node.ranges[rng]; r != nil {
				r.Loaded(d.node.clock(), l.ID, out)
			}
		})
	})
}

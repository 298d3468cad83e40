package segment_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// observe reads everything that the store has of a segment.
func (w *world) observe(id ident.SegmentID) (content, *segment.Segment, error) {
	g, ok := w.store.Segment(id)
	if !ok {
		return content{}, nil, nil
	}
	info := g.Info()
	c := content{exists: true, sealed: info.Sealed, lost: info.Lost, meta: info.Meta}
	limit := []int{1, 3000, 1 << 20}[w.rng.IntN(3)]
	for at := info.Base; at < info.Tail.Base; {
		got, err := g.Read(at, segment.Limit{Bytes: limit, Records: 1 << 20})
		if err != nil {
			return c, g, fmt.Errorf("segment %v, offset %d: %w", id, at, err)
		}
		if len(got.List) == 0 {
			return c, g, broken("segment %v has nothing at %d, its tail is at %d", id, at, info.Tail.Base)
		}
		for _, b := range got.List {
			h, err := batch.Check(b)
			if err != nil || h.Base != at {
				return c, g, broken("segment %v gives a bad batch at %d: %v", id, at, err)
			}
			c.batches = append(c.batches, b)
			at = h.End()
		}
	}
	return c, g, checkInfo(c, info)
}

// checkInfo compares what a segment says of itself with what it has.
func checkInfo(c content, info segment.Info) error {
	var first ident.Timestamp
	if len(c.batches) > 0 {
		h, err := batch.ParseHeader(c.batches[0])
		if err != nil {
			return err
		}
		first = h.AppendTime
	}
	switch {
	case info.Tail != c.tail():
		return broken("segment %v says that its tail is %+v; it is %+v", info.ID, info.Tail, c.tail())
	case info.FirstTime != first:
		return broken("segment %v says that it begins at time %d; it begins at %d", info.ID, info.FirstTime, first)
	}
	return nil
}

// recovered compares a store that was just opened with the model, and brings
// the model up to what it shows.
func (w *world) recovered() error {
	known := map[ident.SegmentID]bool{}
	for _, t := range w.tracks {
		known[t.id] = true
		found, g, err := w.observe(t.id)
		if err != nil {
			return err
		}
		doubt := len(t.doubt)
		if err := t.recovered(found, w.cacheKept); err != nil {
			return broken("%v", err)
		}
		if doubt > 0 {
			w.tally.count("doubt resolved")
		}
		t.seg = g
		if found.exists {
			w.say("  recovered %v: %v", t.id, found)
		}
	}
	for _, info := range w.store.Segments() {
		if !known[info.ID] {
			return broken("segment %v was never created", info.ID)
		}
	}
	return nil
}

// compare checks that the running store has exactly what it should.
func (w *world) compare(t *track, want content) error {
	found, _, err := w.observe(t.id)
	switch {
	case err != nil && (w.harm.fired || w.disk.Frozen()):
		return nil
	case err != nil:
		return err
	}
	if why := found.same(want); why != "" {
		return broken("segment %v: %s", t.id, why)
	}
	return nil
}

// readAround reads and seeks at random places.
func (w *world) readAround(t *track) error {
	c := t.now()
	i := w.rng.IntN(len(c.batches) + 1)
	if i == len(c.batches) {
		return nil
	}
	h, err := batch.ParseHeader(c.batches[i])
	w.must(err)
	at := h.Base + ident.Offset(w.rng.IntN(int(h.Count)))
	got, err := t.seg.Read(at, segment.Limit{Bytes: 1 + w.rng.IntN(20_000), Records: 1 + w.rng.IntN(1000)})
	if err != nil {
		return w.unlessHarmed(err)
	}
	for k, b := range got.List {
		if i+k >= len(c.batches) || !bytes.Equal(b, c.batches[i+k]) {
			return broken("segment %v: a read from %d gives another batch at its place %d", t.id, at, k)
		}
	}
	if len(got.List) == 0 {
		return broken("segment %v: a read from %d gives nothing", t.id, at)
	}
	return w.seekAround(t, c, h.AppendTime+ident.Timestamp(w.rng.IntN(3)-1))
}

func (w *world) seekAround(t *track, c content, at ident.Timestamp) error {
	want := c.tail().Base
	for _, b := range c.batches {
		h, err := batch.ParseHeader(b)
		w.must(err)
		if h.AppendTime >= at {
			want = h.Base
			break
		}
	}
	got, err := t.seg.SeekTime(at)
	if err != nil {
		return w.unlessHarmed(err)
	}
	if got != want {
		return broken("segment %v: time %d begins at %d, not at %d", t.id, at, want, got)
	}
	return nil
}

// unlessHarmed lets errors pass that the faults explain.
func (w *world) unlessHarmed(err error) error {
	if w.harm.fired || w.disk.Frozen() {
		return nil
	}
	return err
}

// scrub finds nothing in a store that nobody damaged.
func (w *world) scrub() error {
	var found []error
	err := w.store.Scrub(context.Background(), 0, func(err error) { found = append(found, err) })
	if err != nil || len(found) > 0 {
		return broken("scrub: %v, %v", found, err)
	}
	return nil
}

// doctor finds nothing either, before recovery and after, and changes nothing
// while it looks.
func (w *world) doctor() error {
	disk := w.disk.Clone()
	r, err := segment.Doctor(disk, dataDir, false)
	switch {
	case err != nil || !r.Sound():
		return broken("doctor: %+v, %v", r.Findings, err)
	case disk.TotalCount().BytesWritten > 0:
		return broken("doctor wrote without being asked to repair")
	}
	return nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

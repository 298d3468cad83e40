package quorum

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// oracle sees everything at once, and stops the run when a promise is broken.
type oracle struct {
	sim *sim
	// offers is the chain behind each batch that was ever offered, by where it
	// begins (I2, I3).
	offers map[place]offer
	// ends are the chains at the ends of batches.
	ends map[place]uint64
	// visible is how far a segment was read or acknowledged (I4, I5).
	visible map[ident.SegmentID]ident.Offset
	// names are the committed batches by epoch and offset (I16).
	names map[name]uint64
	// writers are who committed in an epoch of a range.
	writers map[name]catalog.Owner
	// acks are the acknowledged requests.
	acks map[uint64]ack
	// never are the requests that were answered with no and not tried again.
	never map[uint64]bool
	// tops is how far a range was acknowledged or currently read.
	tops map[ident.RangeID]ident.Offset

	goal        uint64 // a request after this one is fresh
	fresh, read bool
}

type place struct {
	segment ident.SegmentID
	at      ident.Offset
}

type offer struct {
	end   ident.Offset
	chain uint64
}

type name struct {
	rng   ident.RangeID
	epoch ident.Epoch
	at    ident.Offset
}

type ack struct {
	segment ident.SegmentID
	base    ident.Offset
}

func newOracle(s *sim) oracle {
	return oracle{
		sim: s, offers: map[place]offer{}, ends: map[place]uint64{}, visible: map[ident.SegmentID]ident.Offset{},
		names: map[name]uint64{}, writers: map[name]catalog.Owner{}, acks: map[uint64]ack{}, never: map[uint64]bool{},
		tops: map[ident.RangeID]ident.Offset{},
	}
}

func (o *oracle) fail(n *node, format string, args ...any) {
	who := "the catalog"
	if n != nil {
		who = fmt.Sprintf("n%d", n.number)
	}
	msg := fmt.Sprintf("%s: %s", who, fmt.Sprintf(format, args...))
	o.sim.logf("BROKEN %s", msg)
	panic(msg)
}

func (o *oracle) offered(n *node, w *Write) {
	if w.Kind == WriteAppend {
		o.offeredBatch(n, w.Segment.ID, w.Batch)
	}
}

// offeredBatch: an offset that was offered once is never given to another batch.
func (o *oracle) offeredBatch(n *node, id ident.SegmentID, b []byte) {
	h, err := batch.Check(b)
	o.sim.must(err)
	p, f := place{id, h.Base}, offer{h.End(), batch.NextChain(b)}
	if was, ok := o.offers[p]; ok && was != f {
		o.fail(n, "I2: offset %d of %v is offered twice: up to %d with %x, and up to %d with %x", h.Base, id, was.end, was.chain, f.end, f.chain)
	}
	o.offers[p] = f
	o.ends[place{id, h.End()}] = f.chain
}

// written: what becomes durable continues the segment, which is not sealed.
func (o *oracle) written(n *node, g *simSegment, b []byte) {
	h, err := batch.Check(b)
	o.sim.must(err)
	if g.sealed != nil {
		o.fail(n, "I4: sealed %v grows", g.seg.ID)
	}
	if h.Base != g.tail.End || h.Chain != g.tail.Chain {
		o.fail(n, "I3: %v ends at %d with %x and is given a batch at %d with %x", g.seg.ID, g.tail.End, g.tail.Chain, h.Base, h.Chain)
	}
}

// onDisk counts the slots whose stores have a segment up to an offset. A store
// that was lost since counts.
func (o *oracle) onDisk(id ident.SegmentID, end ident.Offset) int {
	n := 0
	for _, st := range o.sim.cat.slots(id) {
		if st.IsZero() {
			continue
		}
		d := o.sim.nodeOf(st).disk
		if g := d.segments[id]; g != nil && (g.tail.End >= end || g.damaged) {
			n++
		}
	}
	return n
}

func (o *oracle) majority(id ident.SegmentID) int { return len(o.sim.cat.slots(id))/2 + 1 }

func (o *oracle) accepted(n *node, q *request) {
	if a, ok := o.acks[q.id]; ok {
		o.fail(n, "request %d was acknowledged at %d of %v and is appended again", q.id, a.base, a.segment)
	}
	delete(o.never, q.id)
}

func (o *oracle) refused(q *request) { o.never[q.id] = true }

// forgotten: nobody hears any more what becomes of a process's requests.
func (o *oracle) forgotten(n *node) {
	for _, list := range [][]*request{n.redo, n.held} {
		for _, q := range list {
			o.never[q.id] = true
		}
	}
}

// acknowledged: it is on a majority, and in no segment that ended before it.
func (o *oracle) acknowledged(n *node, r *Range, q *request, res Result) {
	h, err := batch.ParseHeader(q.batch)
	o.sim.must(err)
	chain := batch.NextChain(q.batch)
	id := o.segmentOf(n, r, h.Epoch, h.Base, chain)
	if f := o.offers[place{id, h.Base}]; f.chain != chain {
		o.fail(n, "request %d is acknowledged at %d of %v, where another batch is", q.id, h.Base, id)
	}
	if got := o.onDisk(id, h.End()); got < o.majority(id) {
		o.fail(n, "I1: request %d is acknowledged at %d of %v and is on %d stores", q.id, h.Base, id, got)
	}
	if a, ok := o.acks[q.id]; ok {
		o.fail(n, "request %d is acknowledged twice, at %d and at %d", q.id, a.base, h.Base)
	}
	o.acks[q.id] = ack{id, res.Base}
	if res.Base != h.Base {
		o.fail(n, "request %d is acknowledged at %d and was appended at %d", q.id, res.Base, h.Base)
	}
	o.see(n, id, h.End(), "acknowledged")
	o.tops[r.cfg.Range] = max(o.tops[r.cfg.Range], h.End())
	if o.goal > 0 && q.id > o.goal {
		o.fresh = true
	}
}

// segmentOf finds the segment into which a batch was offered.
func (o *oracle) segmentOf(n *node, r *Range, e ident.Epoch, base ident.Offset, chain uint64) ident.SegmentID {
	cr, _ := o.sim.cat.topic().Range(r.cfg.Range)
	// What was returned may be appended again at the same place of the next
	// segment, to the byte.
	for i := range cr.Segments {
		if g := &cr.Segments[i]; g.Epoch == e && base >= g.Base && base < g.End {
			return g.ID
		}
	}
	if cr.Open != nil && cr.Open.Epoch == e && o.offers[place{cr.Open.ID, base}].chain == chain {
		return cr.Open.ID
	}
	o.fail(n, "a batch at %d of epoch %d is acknowledged, and is in no segment", base, e)
	return 0
}

// see: what was seen up to an offset stays.
func (o *oracle) see(n *node, id ident.SegmentID, end ident.Offset, how string) {
	if seal, ok := o.sealOf(id); ok && end > seal.End {
		o.fail(n, "I4: %v is %s up to %d, and was sealed at %d", id, how, end, seal.End)
	}
	o.visible[id] = max(o.visible[id], end)
}

func (o *oracle) sealOf(id ident.SegmentID) (catalog.Seal, bool) {
	for _, r := range o.sim.cat.topic().Ranges {
		if seal, ok := (&View{Range: r}).sealed(id); ok {
			return seal, true
		}
	}
	return catalog.Seal{}, false
}

// look checks what a node shows after each of its steps.
func (o *oracle) look(n *node, r *Range) {
	if s := r.out; s != nil && (r.state == Serving || r.state == Frozen && s.seg.Writer == r.cfg.Self && s.commit.End > s.seg.Base) && s.seg.Writer == r.cfg.Self {
		who := name{rng: r.cfg.Range, epoch: r.epoch}
		if was, ok := o.writers[who]; ok && was != r.cfg.Self && s.commit.End > s.seg.Base {
			o.fail(n, "epoch %d has two primaries", r.epoch)
		}
		if s.commit.End > s.seg.Base {
			o.writers[who] = r.cfg.Self
			o.see(n, s.seg.ID, s.commit.End, "committed")
			nm := name{r.cfg.Range, s.seg.Epoch, s.commit.End}
			if was, ok := o.names[nm]; ok && was != s.commit.Chain {
				o.fail(n, "I16: (%d, %d) names two batches", s.seg.Epoch, s.commit.End)
			}
			o.names[nm] = s.commit.Chain
		}
	}
	for _, id := range r.order {
		c := r.copies[id]
		end, ok := r.Readable(id)
		if !ok || end <= c.seg.Base {
			continue
		}
		o.see(n, id, end, "read by a follower")
		if got := o.onDisk(id, end); got < o.majority(id) {
			o.fail(n, "I5: %v is read up to %d, which is on %d stores", id, end, got)
		}
	}
}

// sealed: a segment ends once, at or past all that was seen, on a majority.
func (o *oracle) sealed(before *catalog.Range, seal catalog.Seal) {
	id := before.Open.ID
	o.sim.counts.Sealed++
	if seen := o.visible[id]; seal.End < seen {
		o.fail(nil, "I4: %v is sealed at %d, and was seen up to %d", id, seal.End, seen)
	}
	if seal.End == before.Open.Base {
		return
	}
	if got := o.onDisk(id, seal.End); got < o.majority(id) {
		o.fail(nil, "I1: %v is sealed at %d, which is on %d stores", id, seal.End, got)
	}
	if chain := o.ends[place{id, seal.End}]; chain != seal.Digest {
		o.fail(nil, "I3: %v is sealed at %d with %x, and has %x there", id, seal.End, seal.Digest, chain)
	}
}

// floor is what a read that begins now has to see of a range.
func (o *oracle) floor(id ident.RangeID) ident.Offset { return o.tops[id] }

// current: a read that is current sees what was acknowledged, or read, before it
// began, and a range that has ended is not read there.
func (o *oracle) current(n *node, r *Range, at, floor ident.Offset) {
	if at < floor {
		o.fail(n, "R9: a current read sees %v up to %d, and %d was acknowledged before it began", r.cfg.Range, at, floor)
	}
	o.tops[r.cfg.Range] = max(o.tops[r.cfg.Range], at)
	if o.fresh {
		o.read = true
	}
}

// history reads the log as the catalog and the disks have it: each acknowledged
// request is there, where it was said to be, none is there twice, none that was
// refused, and all in the order of the client's calls (I7).
func (o *oracle) history() error {
	seen := map[uint64]bool{}
	last := uint64(0)
	for _, id := range o.sim.cat.lineage() {
		r, _ := o.sim.cat.topic().Range(id)
		segments := slices.Clone(r.Segments)
		if r.Open != nil {
			segments = append(segments, catalog.SealedSegment{OpenSegment: *r.Open, Seal: catalog.Seal{End: o.visible[r.Open.ID]}})
		}
		for _, g := range segments {
			if g.End <= g.Base {
				continue
			}
			batches, err := o.readSegment(g.ID, g.End)
			if err != nil {
				return err
			}
			for _, b := range batches {
				h, _ := batch.ParseHeader(b)
				id := idOf(b)
				switch a, ok := o.acks[id]; {
				case seen[id]:
					return fmt.Errorf("request %d is in the log twice", id)
				case id < last:
					return fmt.Errorf("I7: request %d stands behind %d in %v", id, last, g.ID)
				case o.never[id]:
					return fmt.Errorf("request %d was refused and is in the log at %d of %v", id, h.Base, g.ID)
				case ok && (a.segment != g.ID || a.base != h.Base):
					return fmt.Errorf("request %d was acknowledged at %d of %v and is at %d of %v", id, a.base, a.segment, h.Base, g.ID)
				}
				seen[id], last = true, id
			}
		}
	}
	for id, a := range o.acks {
		if !seen[id] {
			return fmt.Errorf("I1: request %d was acknowledged at %d of %v and is lost", id, a.base, a.segment)
		}
	}
	return nil
}

// readSegment reads from a store that is left and has all.
func (o *oracle) readSegment(id ident.SegmentID, end ident.Offset) ([][]byte, error) {
	for _, st := range o.sim.cat.slots(id) {
		if st.IsZero() || o.sim.nodeOf(st).lost {
			continue
		}
		g := o.sim.nodeOf(st).disk.segments[id]
		if g == nil || g.damaged || g.tail.End < end {
			continue
		}
		n := 0
		for at := g.seg.Base; at < end; n++ {
			h, _ := batch.ParseHeader(g.batches[n])
			at = h.End()
		}
		return g.batches[:n], nil
	}
	return nil, fmt.Errorf("I1: no store that is left has %v up to %d", id, end)
}

// idOf reads the number of a request out of its first record.
func idOf(b []byte) uint64 {
	var r batch.Reader
	if err := r.Reset(b); err != nil {
		panic(err)
	}
	if !r.Next() {
		panic("an empty batch")
	}
	return binary.BigEndian.Uint64(r.Record().Value)
}

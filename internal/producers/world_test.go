package producers

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/status"
)

// world is a topic with its clients, and with a plain list of everything that
// was ever appended. What states say is held against that list.
type world struct {
	t       *rapid.T
	leaves  []*leaf // in the order of their bands
	next    ident.RangeID
	now     ident.Timestamp
	facts   []fact
	clients []*client
	packets []packet
	// waited is for how long at most what is on its way has been there.
	waited time.Duration
}

// fact is a record in the log.
type fact struct {
	id       batch.ProducerID
	session  uint64
	sequence uint64
	position ident.Position
	place    Place
}

// leaf is a range that takes records. Its log begins with a carried state.
type leaf struct {
	id      ident.RangeID
	band    keyspace.Band
	state   *State
	log     [][]byte
	bases   []ident.Offset // of the batches in log
	end     ident.Offset
	commit  ident.Offset
	head    ident.Offset // end of the carried state
	waiting []answer
}

// answer is what a client is told once the log is committed up to an offset.
type answer struct {
	at      ident.Offset
	id      batch.ProducerID
	session uint64
	records []Record
}

// packet is a batch on its way.
type packet struct {
	h       batch.Producer
	records []Record
	bytes   []byte
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: t0, next: 1}
	w.add(New(w.next, keyspace.Full()))
	for _, id := range []batch.ProducerID{ChosenID([16]byte{1}), ChosenID([16]byte{2}), DrawnID([16]byte{3})} {
		w.clients = append(w.clients, &client{id: id, session: 1, view: w.bands()})
	}
	return w
}

// add makes a leaf of a state, with the state at the head of its log.
func (w *world) add(s *State) {
	w.t.Logf("%v has %v", w.next, s.band)
	w.next++
	l := &leaf{id: s.id, band: s.band, state: s}
	w.leaves = append(w.leaves, l)
	slices.SortFunc(w.leaves, func(a, b *leaf) int { return bytes.Compare(order(a.band), order(b.band)) })
	w.roll(l)
}

func order(b keyspace.Band) []byte { return fmt.Appendf(nil, "%016x", uint64(b.First)) }

func (w *world) bands() (bands []keyspace.Band) {
	for _, l := range w.leaves {
		bands = append(bands, l.band)
	}
	return bands
}

func (w *world) leafOf(at ident.Position) *leaf {
	i := slices.IndexFunc(w.leaves, func(l *leaf) bool { return l.band.Contains(at) })
	return w.leaves[i]
}

// store stamps a batch at the end of a leaf's log.
func (w *world) store(l *leaf, b []byte) {
	b = bytes.Clone(b)
	batch.Stamp{Epoch: ident.Epoch(l.id), Base: l.end, AppendTime: w.now}.Apply(b)
	h, err := batch.Check(b)
	if err != nil {
		w.t.Fatal(err)
	}
	l.log, l.bases = append(l.log, b), append(l.bases, l.end)
	l.end += ident.Offset(h.Count)
}

// roll begins a leaf's log anew, with its state carried forward.
func (w *world) roll(l *leaf) {
	l.log, l.bases = nil, nil
	b := batch.NewBuilder(batch.Options{Kind: batch.Control})
	for r := range l.state.Carry(w.now) {
		if err := b.Add(&r); err != nil {
			w.t.Fatal(err)
		}
		w.store(l, b.Finish())
	}
	w.commitTo(l, l.end)
	l.head = l.end
}

// restart folds a leaf's state from its log.
func (w *world) restart(l *leaf) {
	w.t.Logf("%v is folded", l.id)
	s := New(l.id, l.band)
	for _, b := range l.log {
		if err := s.Fold(b); err != nil {
			w.t.Fatal(err)
		}
	}
	if !s.Complete() {
		w.t.Fatal("the state is not complete")
	}
	l.state = s
}

// commitTo commits a leaf's log and gives the answers that waited for it.
func (w *world) commitTo(l *leaf, at ident.Offset) {
	l.commit = at
	l.waiting = slices.DeleteFunc(l.waiting, func(a answer) bool {
		if a.at > at {
			return false
		}
		if rapid.IntRange(0, 3).Draw(w.t, "answer lost") > 0 {
			w.client(a.id).acked(a.session, a.records)
		}
		return true
	})
}

// cut takes uncommitted batches out of a leaf's log.
func (w *world) cut(l *leaf, at int) {
	from := l.bases[at]
	w.t.Logf("%v loses what is at %d and behind", l.id, from)
	l.state.Discard(from)
	l.log, l.bases, l.end = l.log[:at], l.bases[:at], from
	l.waiting = slices.DeleteFunc(l.waiting, func(a answer) bool { return a.at > from })
	w.facts = slices.DeleteFunc(w.facts, func(f fact) bool { return f.place.Range == l.id && f.place.Offset >= from })
}

// settleTail commits a leaf's log or cuts what is uncommitted of it, as a seal
// does.
func (w *world) settleTail(l *leaf) {
	for i, base := range l.bases {
		if base >= l.commit && rapid.Bool().Draw(w.t, "lost") {
			w.cut(l, i)
			break
		}
	}
	w.commitTo(l, l.end)
}

func (w *world) client(id batch.ProducerID) *client {
	i := slices.IndexFunc(w.clients, func(c *client) bool { return c.id == id })
	return w.clients[i]
}

// deliver brings a packet to its range and checks what is said of it.
func (w *world) deliver(p packet) {
	c := w.client(p.h.ID)
	l := w.leafOf(p.records[0].Position)
	for _, r := range p.records {
		if !l.band.Contains(r.Position) {
			c.refresh(w)
			return
		}
	}
	v := l.state.Judge(&p.h, p.records, w.now)
	w.t.Logf("%x/%d to %v: %v, floor %d, prev %d, band %v: %s",
		p.h.ID[:1], p.h.Session, l.id, p.records, p.h.Floor, p.h.Prev, p.h.Band, v.word())
	w.checkResults(&p, &v)
	switch status.CodeOf(errorOf(&v)) {
	default:
		w.t.Fatal(v.Err)
	case "":
		if v.Decision == Append {
			w.append(l, &p)
			l.waiting = append(l.waiting, answer{l.end, p.h.ID, p.h.Session, p.records})
			return
		}
		w.acknowledge(l, &p, v.Results)
	case status.PartialDuplicate:
		w.acknowledge(l, &p, v.Results)
	case status.ProducerFenced:
		if c.session <= p.h.Session {
			w.t.Fatalf("session %d is fenced by none", p.h.Session)
		}
	case status.OutOfOrder:
		c.refresh(w)
	}
}

func errorOf(v *Verdict) error {
	if v.Err == nil {
		return nil
	}
	return v.Err
}

// acknowledge tells the client of the records that are in the log.
func (w *world) acknowledge(l *leaf, p *packet, results []Result) {
	var known []Record
	for i, r := range results {
		if r.Known == Appended {
			known = append(known, p.records[i])
		}
	}
	l.waiting = append(l.waiting, answer{l.end, p.h.ID, p.h.Session, known})
	w.commitTo(l, l.commit)
}

// fact finds a record in the list.
func (w *world) fact(id batch.ProducerID, session, sequence uint64) *fact {
	for i := range w.facts {
		if f := &w.facts[i]; f.id == id && f.session == session && f.sequence == sequence {
			return f
		}
	}
	return nil
}

// checkResults holds what a verdict says of records against the list.
func (w *world) checkResults(p *packet, v *Verdict) {
	for i, r := range v.Results {
		q := p.records[i].Sequence
		f := w.fact(p.h.ID, p.h.Session, q)
		switch {
		case r.Known == Appended && (f == nil || f.place != r.Place):
			w.t.Fatalf("sequence %d is said to be at %+v, and is at %+v", q, r.Place, f)
		case r.Known == NotKnown && f != nil:
			w.t.Fatalf("sequence %d is not known, and is at %+v", q, f.place)
		case r.Known == Settled && !w.client(p.h.ID).hasSettled(p.h.Session, q):
			w.t.Fatalf("sequence %d is said to be settled", q)
		}
	}
}

// append appends a packet: each sequence is new, and per position it is the
// highest so far.
func (w *world) append(l *leaf, p *packet) {
	for i, r := range p.records {
		for _, f := range w.facts {
			if f.id != p.h.ID || f.session != p.h.Session {
				continue
			}
			if f.sequence == r.Sequence {
				w.t.Fatalf("sequence %d is appended twice", r.Sequence)
			}
			if f.position == r.Position && f.sequence > r.Sequence {
				w.t.Fatalf("sequence %d is appended behind %d", r.Sequence, f.sequence)
			}
		}
		w.facts = append(w.facts, fact{
			p.h.ID, p.h.Session, r.Sequence, r.Position,
			Place{l.id, ident.Epoch(l.id), l.end + ident.Offset(i), w.now},
		})
	}
	if err := l.state.Accept(&p.h, p.records, ident.Epoch(l.id), l.end, w.now); err != nil {
		w.t.Fatal(err)
	}
	w.store(l, p.bytes)
}

package producers

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
)

// TestEachSequenceOnceAndInOrder lets clients that keep to the rules produce
// over a network that loses, doubles and reorders, to ranges that split, merge,
// lose their uncommitted tail, restart and roll. In the end all that was not
// given up is there.
func TestEachSequenceOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		// Most of the time clients talk, so that there is something to disturb.
		t.Repeat(map[string]func(*rapid.T){
			"talk": w.talk, "talk more": w.talk, "talk on": w.talk, "talk again": w.talk,
			"drop": w.drop, "commit": w.commit, "discard": w.discard,
			"split": w.split, "merge": w.merge, "restart": w.restartOne, "roll": w.rollOne,
			"refresh": w.refreshOne, "abandon": w.abandon, "begin anew": w.beginAnew,
			"": w.check,
		})
		w.quiesce()
	})
}

func (w *world) anyClient() *client { return rapid.SampledFrom(w.clients).Draw(w.t, "client") }
func (w *world) anyLeaf() *leaf     { return rapid.SampledFrom(w.leaves).Draw(w.t, "leaf") }

// talk lets a client send a few times, with deliveries in between.
func (w *world) talk(t *rapid.T) {
	c := w.anyClient()
	for range rapid.IntRange(1, 6).Draw(t, "talk") {
		w.send(t, c)
		for range rapid.IntRange(0, 2).Draw(t, "deliver") {
			w.deliverOne(t)
		}
	}
}

// send sends new records and some that were sent before.
func (w *world) send(t *rapid.T, c *client) {
	for range rapid.IntRange(0, 3).Draw(t, "new") {
		c.produce(t)
	}
	band := rapid.SampledFrom(c.view).Draw(t, "band")
	open := len(c.open(band))
	if open == 0 {
		return
	}
	i := rapid.SampledFrom([]int{0, open / 2, open - 1}).Draw(t, "from")
	w.packets = append(w.packets, c.send(t, band, i, rapid.IntRange(1, 4).Draw(t, "records")))
}

// deliverOne delivers any packet, which may stay on its way besides.
func (w *world) deliverOne(t *rapid.T) {
	if len(w.packets) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.packets)-1).Draw(t, "packet")
	if rapid.Bool().Draw(t, "newest") {
		i = len(w.packets) - 1
	}
	p := w.packets[i]
	if rapid.IntRange(0, 2).Draw(t, "once") > 0 {
		w.packets = slices.Delete(w.packets, i, i+1)
	}
	w.now += 1000
	w.deliver(p)
}

func (w *world) drop(t *rapid.T) {
	if len(w.packets) == 0 {
		t.Skip("no packet")
	}
	i := rapid.IntRange(0, len(w.packets)-1).Draw(t, "packet")
	w.packets = slices.Delete(w.packets, i, i+1)
}

func (w *world) commit(t *rapid.T) {
	l := w.anyLeaf()
	at := slices.DeleteFunc(append(slices.Clone(l.bases), l.end), func(o ident.Offset) bool { return o < l.commit })
	w.commitTo(l, rapid.SampledFrom(at).Draw(t, "commit"))
}

func (w *world) discard(t *rapid.T) {
	l := w.anyLeaf()
	i := slices.IndexFunc(l.bases, func(o ident.Offset) bool { return o >= l.commit })
	if i < 0 {
		t.Skip("nothing is uncommitted")
	}
	w.cut(l, rapid.IntRange(i, len(l.bases)-1).Draw(t, "batch"))
}

func (w *world) split(t *rapid.T) {
	l := w.anyLeaf()
	at := rapid.SampledFrom(cuts()).Draw(t, "cut")
	if at <= l.band.First || at > l.band.Last {
		t.Skip("outside")
	}
	w.settleTail(l)
	lower, upper, err := l.state.Split(at, w.next, w.next+1)
	if err != nil {
		t.Fatal(err)
	}
	w.leaves = slices.DeleteFunc(w.leaves, func(o *leaf) bool { return o == l })
	w.add(lower)
	w.add(upper)
}

func (w *world) merge(t *rapid.T) {
	if len(w.leaves) < 2 {
		t.Skip("one leaf")
	}
	i := rapid.IntRange(0, len(w.leaves)-2).Draw(t, "leaf")
	l, u := w.leaves[i], w.leaves[i+1]
	w.settleTail(l)
	w.settleTail(u)
	s, err := Merge(l.state, u.state, w.next, w.now)
	if err != nil {
		t.Fatal(err)
	}
	w.leaves = slices.Delete(w.leaves, i, i+2)
	w.add(s)
}

func (w *world) restartOne(*rapid.T) { w.restart(w.anyLeaf()) }

// rollOne begins a new segment, perhaps under a primary that has just folded the
// one before.
func (w *world) rollOne(t *rapid.T) {
	l := w.anyLeaf()
	w.settleTail(l)
	if rapid.Bool().Draw(t, "restarted") {
		w.restart(l)
	}
	w.roll(l)
}

func (w *world) refreshOne(*rapid.T) { w.anyClient().refresh(w) }

func (w *world) abandon(t *rapid.T) {
	c := w.anyClient()
	for _, s := range c.sent {
		if !s.acked && rapid.IntRange(0, 3).Draw(t, "abandon") == 0 {
			s.abandoned = true
		}
	}
}

// beginAnew is what a client or a day does now and then.
func (w *world) beginAnew(t *rapid.T) {
	switch rapid.IntRange(0, 8).Draw(t, "what") {
	case 0, 1, 2:
		w.newSession(t)
	case 3:
		w.close(t)
	case 4, 5:
		w.wait(t)
	}
}

func (w *world) newSession(t *rapid.T) { w.anyClient().renew(rapid.Bool().Draw(t, "continued")) }

// close closes the issued producer everywhere. Its client begins another
// session if it goes on, and nothing of it is on its way.
func (w *world) close(t *rapid.T) {
	i := slices.IndexFunc(w.clients, func(c *client) bool { return Drawn(c.id) })
	c := w.clients[i]
	w.packets = slices.DeleteFunc(w.packets, func(p packet) bool { return p.h.ID == c.id })
	b := batch.NewBuilder(batch.Options{Kind: batch.Control})
	for _, l := range w.leaves {
		r := CloseRecord(c.id, c.session)
		if err := b.Add(&r); err != nil {
			t.Fatal(err)
		}
		w.store(l, b.Finish())
		w.commitTo(l, l.end)
		if err := l.state.Fold(l.log[len(l.log)-1]); err != nil {
			t.Fatal(err)
		}
		if l.state.producers[c.id] != nil {
			t.Fatal("a closed producer is known")
		}
	}
	c.renew(true)
}

// wait lets producers expire. Clients retry for at most an hour, so nothing that
// is older is on its way.
func (w *world) wait(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{30 * time.Minute, 3 * time.Hour, 8 * 24 * time.Hour}).Draw(t, "wait")
	if w.waited += d; w.waited > time.Hour {
		w.waited = 0
		w.packets = nil
		for _, c := range w.clients {
			c.giveUp()
		}
		for _, l := range w.leaves {
			w.commitTo(l, l.end)
		}
	}
	w.now += ident.Timestamp(d.Microseconds())
}

// check holds what is true of every state at all times.
func (w *world) check(t *rapid.T) {
	for _, l := range w.leaves {
		for id, p := range l.state.producers {
			if p.entries[0].band.First != l.band.First || p.entries[len(p.entries)-1].band.Last != l.band.Last {
				t.Fatalf("the entries of %x do not tile the band", id[:1])
			}
			for i, e := range p.entries {
				if i > 0 && e.band.First != p.entries[i-1].band.Last+1 {
					t.Fatalf("the entries of %x do not follow each other", id[:1])
				}
				for _, r := range e.runs() {
					if w.fact(id, p.session, r.first) == nil || w.fact(id, p.session, r.end()) == nil {
						t.Fatalf("sequence %d to %d of %x is in the set and not in the log", r.first, r.end(), id[:1])
					}
				}
			}
		}
	}
}

// quiesce lets clients retry, in order and without loss, until all is settled.
func (w *world) quiesce() {
	w.packets = nil
	for range 4 {
		for _, c := range w.clients {
			c.refresh(w)
			for _, band := range c.view {
				for n := len(c.open(band)); n > 0; n-- {
					open := c.open(band)
					if len(open) == 0 {
						break
					}
					w.deliverSurely(c.send(w.t, band, 0, 1))
				}
			}
		}
	}
	for _, c := range w.clients {
		for _, s := range c.sent {
			if !s.settled() {
				w.t.Fatalf("sequence %d of session %d of %x is refused for ever", s.Sequence, c.session, c.id[:1])
			}
			if s.acked && w.fact(c.id, c.session, s.Sequence) == nil {
				w.t.Fatalf("sequence %d was acknowledged and is not in the log", s.Sequence)
			}
		}
	}
}

// deliverSurely delivers a packet and its answer.
func (w *world) deliverSurely(p packet) {
	w.deliver(p)
	l := w.leafOf(p.records[0].Position)
	for _, r := range p.records {
		if w.fact(p.h.ID, p.h.Session, r.Sequence) != nil {
			w.client(p.h.ID).acked(p.h.Session, []Record{r})
		}
	}
	w.commitTo(l, l.end)
}
